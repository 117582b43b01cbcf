"""Which workers have died on any machine: PostgreSQL drops the lock of a worker when its process or machine is gone.

A worker counts as dead if its lock was missing in two looks at least 5 s apart on one run of the server, and its beat
stood still between them. A worker that loses its connection opens another one at once, and beats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.store.attempts.workers import LivingWorker, held_locks
from onceward.store.drivers.session import Session

LOOK_EVERY_MS = 5_000


class _Missed(NamedTuple):
    """What was seen of a worker whose lock was missing."""

    server_run: str
    beat: int


class LockLooks:
    """The looks of one process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._looked_at = -(10**12)
        self._missed: dict[int, _Missed] = {}

    @property
    def missed(self) -> frozenset[int]:
        """The workers whose lock was missing in the last look."""
        return frozenset(self._missed)

    def look(self, seen: Sequence[LivingWorker]) -> set[int]:
        """The workers among these that are dead by now."""
        now = self._session.clock.monotonic()
        holders = [worker for worker in seen if worker.server_run is not None]
        if not holders or now - self._looked_at < LOOK_EVERY_MS:
            return set()
        held = self._session.ask(held_locks)
        self._looked_at = now
        if held is None:
            return set()
        before, self._missed = self._missed, {}
        for worker in holders:
            if worker.server_run is not None and held.is_missing(worker.id, worker.server_run):
                self._missed[worker.id] = _Missed(held.server_run, worker.beat)
        return {worker for worker, missed in self._missed.items() if before.get(worker) == missed}
