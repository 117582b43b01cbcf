"""The event loop of a worker, from its start to its end, whatever the stages do that run on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

from onceward.errors import WrongTwin
from onceward.support.logs import EngineLog

T = TypeVar("T")

LAST_WORDS_S = 10.0
"""How long the tasks that stages have left behind may take to end, once they are cancelled."""

logger = EngineLog("onceward.worker")


def refuse_running_loop(what: str) -> None:
    """Refuse to be a worker in the midst of an event loop, which would stand still meanwhile: that of a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise WrongTwin(
        f"app.{what}() is a worker with an event loop of its own, and here one is running, as in a notebook; "
        f"use: await asyncio.to_thread(app.{what}, …), with its arguments behind it, or a process of its own"
    )


def run_on_loop(
    main: Coroutine[Any, Any, T],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    *,
    is_watched: bool = False,
) -> T:
    """What `main` returns, run on an event loop of its own as by `asyncio.run`, beside whatever stages start there.

    An exit in a task that a stage has started belongs to the code that awaits that task: asyncio has told it, and then
    raises the exit here as well. The loop goes on. A task that swallows its cancellation is left behind in the end.
    """
    begun: list[asyncio.Task[T]] = []

    async def result() -> T:
        if not begun:
            begun.append(asyncio.ensure_future(main))
        return await begun[0]

    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner(loop_factory=loop_factory))
        if is_watched:  # a warning tells where code of the application blocks it
            from onceward.worker.blocked_loop import watched  # only a worker needs what this imports

            stack.enter_context(watched(runner.get_loop()))
        while True:
            try:
                return runner.run(result())
            except SystemExit:
                if not begun or begun[0].done():
                    raise
                logger.warning("a task that a stage has started wanted to exit; the worker goes on")
            finally:
                if begun and begun[0].done():
                    with suppress(SystemExit):
                        runner.run(_leave())


async def _leave() -> None:
    """Cancel the tasks that are left, and forget those that go on all the same: the loop would wait for ever."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, stubborn = await asyncio.wait(left, timeout=LAST_WORDS_S)
        for task in stubborn:
            logger.warning("a task that a stage has started does not end, and is left behind", task=repr(task))
            asyncio._unregister_task(task)
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio would say it once more, at any time


async def first_of(stop: asyncio.Future[Any] | None, event: asyncio.Event, limit_s: float) -> None:
    """Wait for a request to stop, an event or the end of a time, whichever comes first."""
    waiting = {asyncio.ensure_future(event.wait())}
    await asyncio.wait(
        waiting | ({stop} if stop is not None else set()), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
    )
    for task in waiting:
        task.cancel()
