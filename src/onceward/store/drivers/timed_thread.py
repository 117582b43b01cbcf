"""A thread that runs functions of the application under a time limit.

A sleeping Python function cannot be ended. So the caller stops waiting for it at its limit, and abandons this thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextvars import copy_context

Work = Callable[[], object]


class Overdue(Exception):
    """The work did not end in time; its thread is abandoned."""


class TimedThread:
    """One thread, started at its first use; to be left after `Overdue`."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, work: Work, limit_s: float) -> None:
        """Run work to its end and raise what it raises, or raise `Overdue` at the limit."""
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
        """End the thread after its present work and `last`."""
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
