"""A clock that only moves when it is told to."""

from __future__ import annotations

from onceward.model.times import Duration, milliseconds

START = 1_767_225_600_000
"""The first of January 2026, in UTC."""


class FakeClock:
    """Wall time and monotonic time, moved by hand."""

    def __init__(self, now: int = START) -> None:
        self._now = now
        self._monotonic = 1_000_000

    def now(self) -> int:
        return self._now

    def monotonic(self) -> int:
        return self._monotonic

    def advance(self, duration: Duration) -> None:
        """Let time pass."""
        self._now += milliseconds(duration)
        self._monotonic += milliseconds(duration)

    def step(self, by_ms: int) -> None:
        """Set the wall clock, as an administrator might; no time passes."""
        self._now += by_ms
