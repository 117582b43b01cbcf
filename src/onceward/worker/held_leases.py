"""The leases that a worker holds, and those that it has lost of late: what its keeper asks the database about."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from onceward.model.task import Lease
from onceward.worker.attempt import Attempt

MOST_LOST = 1_000
"""How many lost leases are remembered, in case the database goes back to when they were not."""


class HeldLeases:
    """The leases of one worker; safe to read from any thread."""

    def __init__(self, attempts: Mapping[int, Attempt], monotonic: Callable[[], int]) -> None:
        self._attempts = attempts
        self._monotonic = monotonic
        self._lost: deque[tuple[int, Lease]] = deque(maxlen=MOST_LOST)

    @property
    def tasks(self) -> list[int]:
        """The tasks being worked on."""
        return list(self._attempts)

    @property
    def runs_anything(self) -> bool:
        """Whether a stage is running at this moment, not only claimed, waiting for its turn or for its commit."""
        return any(attempt.limit_at is not None and not attempt.ended for attempt in self._attempts.values())

    def runs_under(self, task: int, token: bytes) -> bool:
        """Whether a stage of a task still runs here under a token."""
        attempt = self._attempts.get(task)
        return attempt is not None and attempt.lease.token == token and not attempt.ended

    def held_for(self, at_least_ms: int) -> list[Lease]:
        """The leases whose stages have been running for a while: those worth asking the database about."""
        before = self._monotonic() - at_least_ms
        return [attempt.lease for attempt in list(self._attempts.values()) if attempt.started_at <= before]

    def note_lost(self, lease: Lease) -> None:
        """Remember a lease that was found to be lost."""
        self._lost.append((self._monotonic(), lease))

    def lost(self, within_ms: int) -> list[Lease]:
        """The leases lost of late, on whose tasks nothing here works any more."""
        after = self._monotonic() - within_ms
        return [lease for at, lease in list(self._lost) if at > after]
