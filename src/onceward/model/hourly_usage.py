"""What an hour has come to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

HOUR_MS = 3_600_000
DAYS_BACK_MS = 7 * 24 * HOUR_MS
"""Over what time an hour is measured."""

CALLS, MONEY = "calls of sources", "money spent"
SPENDING = (CALLS, MONEY)
"""The totals that are noted once an hour, by the names under which they are."""


class Typical(NamedTuple):
    """What an hour has come to on average, by the ticks that have run."""

    hours: float
    """Over how many hours."""
    runs: float
    minutes: float
    tasks: float
    calls: float | None = None
    """Tokens of sources that were taken. None before the totals were first noted."""
    usd: float | None = None
    """What was spent of budgets in USD, or else what the calls have cost, if their price is known; None otherwise."""

    def priced(self, usd_per_1000_calls: float | None) -> Typical:
        """The same, with what the calls have cost, where no budget knows better."""
        if self.usd is not None or self.calls is None or usd_per_1000_calls is None:
            return self
        return self._replace(usd=self.calls * usd_per_1000_calls / 1_000)


def growth_an_hour(noted: Sequence[tuple[int, int]], now: int, total: int) -> float | None:
    """By how much a total has grown in an hour, on average since it was first noted; None if it never was.

    A total gets smaller when what it was made of is deleted: that is no growth, and takes none back.
    """
    if not noted:
        return None
    values = [*(value for _, value in noted), total]
    hours = max(1.0, (now - noted[0][0]) / HOUR_MS)
    return sum(max(0, later - earlier) for earlier, later in pairwise(values)) / hours
