"""Warns when code of the application blocks the event loop of a worker, and says where it stands.

A thread asks the loop for a sign every half second. While none comes, all stages of the process and their commits wait;
so the thread looks at the frames of the loop's thread. Nothing is done for a stage that does not block.
"""

from __future__ import annotations

import asyncio
import linecache
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from onceward.support.logs import EngineLog
from onceward.worker.stage_runs import StageRuns

ASK_EVERY_S = 0.5
BLOCKED_AFTER_S = 1.0
"""How long a loop gives no sign before that is a warning; the next one comes when it has lasted twice as long."""

_ENGINE = str(Path(__file__).parents[1]) + os.sep
_OUTERMOST = str(Path(__file__).with_name("event_loop.py"))
"""The file whose frames run the loop: what called those is not running on it."""
_INSTALLED = tuple(f"{path}{os.sep}" for path in {*map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))})
_CARRY = StageRuns._carry.__code__

logger = EngineLog("onceward.worker")


class Standstill(NamedTuple):
    """Where the thread of an event loop stands: the stage that it runs, if it runs one, and the line of its code."""

    task: int | None
    kind: str | None
    stage: str | None
    at: str
    line: str


@contextmanager
def watched(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Meanwhile, warn when code of the application keeps the loop of this thread from going on."""
    stopping = threading.Event()
    sentry = _Sentry(loop, threading.get_ident(), stopping)
    watch = threading.Thread(target=sentry.watch, name="onceward loop watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        stopping.set()
        watch.join()


class _Sentry:
    def __init__(self, loop: asyncio.AbstractEventLoop, thread: int, stopping: threading.Event) -> None:
        self._loop = loop
        self._thread = thread
        self._stopping = stopping
        self._has_answered = True

    def watch(self) -> None:
        asked_at, warn_after_s = 0.0, BLOCKED_AFTER_S
        while True:
            slept_at = time.monotonic()
            if self._stopping.wait(ASK_EVERY_S):
                return
            now = time.monotonic()
            if self._has_answered or now - slept_at > ASK_EVERY_S + BLOCKED_AFTER_S / 2:  # or the process itself slept
                asked_at, warn_after_s, self._has_answered = now, BLOCKED_AFTER_S, False
                with suppress(RuntimeError):  # the loop may have closed this very moment
                    self._loop.call_soon_threadsafe(self._answer)
            elif now - asked_at >= warn_after_s and (found := standstill_of(self._thread)) is not None:
                warn_after_s = 2 * (now - asked_at)
                logger.warning(
                    "the event loop is blocked, and all stages of this process wait: await what blocks it, or make the "
                    "stage a plain def, which runs in a thread",
                    seconds=round(now - asked_at, 1),
                    **found._asdict(),
                )

    def _answer(self) -> None:
        self._has_answered = True


def standstill_of(thread: int) -> Standstill | None:
    """Where a thread is in code of the application; None if it is in none."""
    innermost: FrameType | None = None
    task = kind = stage = None
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code is _CARRY:
            attempt = frame.f_locals["attempt"]
            task, kind, stage = attempt.lease.task, attempt.lease.kind, attempt.stage.name
            break
        file = frame.f_code.co_filename
        if file == _OUTERMOST:
            break
        if innermost is None and not file.startswith((_ENGINE, *_INSTALLED, "<frozen")):
            innermost = frame
        frame = frame.f_back
    if innermost is None:
        return None
    file, number = innermost.f_code.co_filename, innermost.f_lineno
    at = f"{file}:{number} in {innermost.f_code.co_qualname}"
    return Standstill(task, kind, stage, at, linecache.getline(file, number).strip())
