"""An event loop without a clock, a selector or a thread: its time is the world's, and it runs when it is told to."""

from __future__ import annotations

import asyncio
import heapq
from asyncio import events
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

from tests.simulation.database import Crashed
from tests.simulation.ledger import Violated

if TYPE_CHECKING:
    from tests.simulation.machine import Worker


MOST_IN_A_TURN = 2_000
"""How much may become ready, one after the other, before anybody else has his turn."""


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The event loop of one process. What `run_in_executor` is given becomes a job of its machine."""

    def __init__(self, machine: Worker) -> None:
        self.machine = machine
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbered = 0
        self._tasks: list[asyncio.Task[Any]] = []
        """All that have not ended, in this order: asyncio itself would forget those that nobody will wake."""

    # What the world asks

    @property
    def next_at(self) -> float | None:
        """When there is something to run; None if nothing is planned."""
        if self._ready:
            return 0.0
        while self._timers and self._timers[0][2].cancelled():
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def turn(self) -> None:
        """Run what is ready, and what becomes ready by it, until there is nothing."""
        now = self.time()
        while self._timers and self._timers[0][0] <= now:
            handle = heapq.heappop(self._timers)[2]
            if not handle.cancelled():
                self._ready.append(handle)
        events._set_running_loop(self)
        ready, machine = self._ready, self.machine
        left = MOST_IN_A_TURN
        try:
            while ready and not machine.is_dead:
                if not (left := left - 1):
                    machine.world.broken("stuck", f"{machine.name} goes round in a circle, and no time passes")
                handle = ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            events._set_running_loop(None)
        self._tasks = [task for task in self._tasks if not task.done()]

    def unwind(self) -> None:
        """Its process has died: close every coroutine where it stands. What they do on the way out, nobody hears."""
        before = events._get_running_loop()
        events._set_running_loop(None)
        events._set_running_loop(self)
        try:
            for task in self._tasks:  # on their way out they may begin others, which come last
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    task.get_coro().close()  # type: ignore[union-attr]
        finally:
            events._set_running_loop(before)
        self._tasks.clear()
        self._ready.clear()
        self._timers.clear()

    # What asyncio asks

    def time(self) -> float:
        return self.machine.world.ms / 1_000

    def call_soon(
        self, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, arguments, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self, when: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, arguments, self, context)
        self._numbered += 1
        heapq.heappush(self._timers, (when, self._numbered, handle))
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *arguments: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *arguments, context=context)

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        pass  # found when its time comes

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coroutine: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        task = asyncio.Task(coroutine, loop=self, name=name or "", context=context)
        self._tasks.append(task)
        return task

    def run_in_executor(self, _executor: Any, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        future = self.create_future()
        if self.machine.is_dead:
            future.set_result(None)  # on the way out of a dead process: nothing is done, and nobody waits
        else:
            self.machine.jobs.append((lambda: function(*arguments), future))
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), Crashed):
            self.machine.die()
        elif not self.machine.is_dead:
            with suppress(Violated):  # the next step raises it; here, where nobody is, it would be lost
                self.machine.world.unexpected(context.get("exception"), context.get("message", ""))

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False
