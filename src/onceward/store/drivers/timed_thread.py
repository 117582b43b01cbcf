"""A thread that runs functions of the application for as long as they may take, and no longer.

Nothing can end a function of Python that sleeps. The thread that waits for it goes on instead, and this one is left.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextvars import copy_context

Work = Callable[[], object]


class Overdue(Exception):
    """The work has not ended in time; its thread is left to it."""


class TimedThread:
    """One thread, started when it is first needed. After `Overdue` it is to be left."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, work: Work, limit_s: float) -> None:
        """Run some work to its end and raise what it raises, or raise `Overdue` after a time."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="onceward borrower", daemon=True)
            self._thread.start()
        context = copy_context()
        self._work.put(lambda: context.run(work))
        try:
            error = self._ended.get(timeout=limit_s)
        except queue.Empty:
            raise Overdue from None
        if error is not None:
            raise error

    def leave(self, last: Work | None = None) -> None:
        """End the thread, after what it does now and something that it does last."""
        if self._thread is not None:
            if last is not None:
                self._work.put(last)
            self._work.put(None)
            self._thread = None

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException as error:
                self._ended.put(error)
            else:
                self._ended.put(None)
