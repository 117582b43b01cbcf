"""The threads in which `def` stages run.

Unlike a `ThreadPoolExecutor` it hands many results over in one wake-up of the event loop, it replaces a thread whose
stage has outlived its time limit, and its threads never keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any

Done = Callable[[Any, BaseException | None], None]
Job = tuple[Callable[[], Any], Done]


class StageThreads:
    """A few daemon threads that run functions and report back on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._limit = count
        self._threads = 0
        self._open = 0
        """How many jobs wait or run."""
        self._done: deque[tuple[Done, Any, BaseException | None]] = deque()
        self._is_delivering = False
        self._lock = threading.Lock()

    @property
    def free(self) -> int:
        """How many more jobs would begin at once; below zero, how many wait."""
        return self._limit - self._open

    def submit(self, function: Callable[[], Any], done: Done) -> None:
        """Run a function in a thread; `done(value, error)` is called on the event loop."""
        with self._lock:
            self._open += 1
        self._jobs.put((function, done))
        self._start_if_short()

    def abandon_one(self) -> None:
        """A thread is lost to a stage that does not end; another takes its place, at once if a stage waits for it."""
        with self._lock:
            self._limit += 1
        self._start_if_short()

    def _start_if_short(self) -> None:
        """Start a thread if there are fewer than jobs, those that never end and their threads among them."""
        with self._lock:
            if self._open <= self._threads or self._threads >= self._limit:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="onceward stage", daemon=True).start()

    def close(self) -> None:
        """Let idle threads end; busy ones are left behind."""
        with self._lock:
            count = self._threads
        for _ in range(count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, done = job
            value, error = None, None
            try:
                value = copy_context().run(function)
            except BaseException as raised:  # a verdict, an error, even SystemExit: all belong to the stage
                error = raised
            with self._lock:  # before the event loop hears of it, which asks how many are free
                self._open -= 1
            self._hand_over(done, value, error)
            del function, done, value, error, job

    def _hand_over(self, done: Done, value: Any, error: BaseException | None) -> None:
        self._done.append((done, value, error))
        with self._lock:
            wake, self._is_delivering = not self._is_delivering, True
        if wake:
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the loop is closed: the worker has ended, and the fence takes care of the rest
                self._done.clear()

    def _deliver(self) -> None:
        # First of all: what is handed over after the loop below has looked for the last time needs a wake-up.
        with self._lock:
            self._is_delivering = False
        while self._done:
            done, value, error = self._done.popleft()
            done(value, error)
