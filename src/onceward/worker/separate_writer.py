"""The second writer of a process: commits whose domain rows need a transaction to themselves.

Where rows of the application cost a transaction, wait for a lock or take long, no other commit waits for them here. The
thread and its connection are there only while there is something to write.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from onceward.errors import StoreError
from onceward.model.task import Commit
from onceward.store.attempts.commit_results import CommitResult
from onceward.store.drivers.availability import database
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater, WentBack
from onceward.support.logs import EngineLog
from onceward.worker.writer import Item, Tries, commit_alone, commit_briefly

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
LONGEST_REST_S = 0.5
QUICK_S = 0.25
KNOWN_FOR_S = 60.0
MOST_KNOWN = 1_000

logger = EngineLog("onceward.committer")


@dataclass(slots=True)
class _SeparateCommit:
    """A commit, and how often it was tried."""

    item: Item
    tries: Tries = field(default_factory=Tries)
    had_trouble: bool = False


class SeparateWriter:
    """Writes commits one by one, in a thread of its own."""

    def __init__(
        self,
        session: Session,
        main: Session,
        *,
        tell: Callable[[Item, CommitResult], None],
        lost_everything: Callable[[], None],
    ) -> None:
        """`main` is the session of the first writer; `tell` is called from the thread with every verdict."""
        self.session = session
        self._main = main
        session.insists = main.insists
        session.beside = main
        self._tell = tell
        self._lost_everything = lost_everything
        self.tasks: dict[int, int] = {}
        """How many commits of which tasks are here: what the same task says next must come after them."""
        self._known: dict[str, float] = {}
        """The functions that have lately cost a transaction or taken long, and until when they come here at once."""
        self.costly: dict[int, float] = {}
        """The tasks whose commits could not be written, and until when what they say next comes here at once."""
        self._queue: deque[_SeparateCommit] = deque()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._give_up_at: float | None = None
        self._pause_s = 0.0

    def takes(self, commit: Commit) -> bool:
        """Whether a commit comes here at once: its task, or a function of its domain rows, has been in the way."""
        task = commit.lease.task
        if task in self.tasks:
            return True
        now = time.monotonic()
        if self.costly.get(task, 0.0) > now:
            return True
        self.costly.pop(task, None)
        return any(self._known.get(_name(function), 0.0) > now for function, _ in commit.writes)

    def send(self, items: Iterable[Item]) -> None:
        """Have commits written; safe from any thread."""
        self._main.beside = self.session
        with self._lock:
            for item in items:
                self._queue.append(_SeparateCommit(item))
                task = item.commit.lease.task
                self.tasks[task] = self.tasks.get(task, 0) + 1
            if self._thread is None and self._queue:
                self._thread = threading.Thread(target=self._work, name="onceward apart", daemon=True)
                self._thread.start()

    def stop(self, give_up_at: float) -> None:
        """Wait until all is written, but not for long; the rest is told to be lost."""
        self._give_up_at = give_up_at
        thread = self._thread
        if thread is not None:
            thread.join()

    def _work(self) -> None:
        while (one := self._next()) is not None:
            began = time.monotonic()
            verdict = self._verdict(one)
            if verdict is None:
                self._note_costly(one.item.commit.lease.task)
                self._queue.append(one)  # others first
                time.sleep(self._pause_s)
                continue
            self._pause_s = 0.0
            self._learn(one, time.monotonic() - began)
            self._leave(one.item)
            self._tell(one.item, verdict)
            if self.session.is_near:  # one writer at a time: others have their turn
                time.sleep(min(time.monotonic() - began, LONGEST_REST_S))

    def _next(self) -> _SeparateCommit | None:
        with self._lock:
            if not self._queue:
                self._thread = None
                self.session.close()
                return None
            return self._queue.popleft()

    def _learn(self, one: _SeparateCommit, took_s: float) -> None:
        is_quick = took_s < QUICK_S and not one.tries.count and one.tries.full_since is None
        for function, _ in one.item.commit.writes:
            if is_quick:
                self._known.pop(_name(function), None)
            elif len(self._known) < MOST_KNOWN:
                self._known[_name(function)] = time.monotonic() + KNOWN_FOR_S

    def _note_costly(self, task: int) -> None:
        now = time.monotonic()
        if len(self.costly) >= MOST_KNOWN:
            self.costly = {known: until for known, until in list(self.costly.items()) if until > now}
        if len(self.costly) < MOST_KNOWN:
            self.costly[task] = now + KNOWN_FOR_S

    def _leave(self, item: Item) -> None:
        with self._lock:
            task = item.commit.lease.task
            self.tasks[task] -= 1
            if not self.tasks[task]:
                del self.tasks[task]

    def _verdict(self, one: _SeparateCommit) -> CommitResult | None:
        """What has become of a commit; None if the database is in trouble."""
        if self._give_up_at is not None and time.monotonic() >= self._give_up_at:
            return False
        try:
            if not (one.had_trouble or one.item.commit.writes):  # others come before one that has to wait
                one.had_trouble = True
                return commit_briefly(self.session, one.item)
            return commit_alone(self.session, one.item, one.tries)
        except WentBack:
            self._lost_everything()
            return False
        except (StoreError, ConnectionLost, TryAgainLater) as error:
            database.note_failure(self.session, error)
            self.session.discard()
            self._pause_s = min(max(FIRST_PAUSE_S, 2 * self._pause_s), LONGEST_PAUSE_S)
            return None


def _name(function: Any) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__name__)}"
