"""What an hour has come to, by the ticks that have run."""

from __future__ import annotations

from onceward.model.hours import HOUR_MS, Typical
from onceward.store.op import Op, Query

DAYS_BACK_MS = 7 * 24 * HOUR_MS


def typical_hour(now: int) -> Op[Typical | None]:
    """The average of the last seven days; None if no tick has run in them."""
    [(runs, tasks, busy_ms, first_at)] = yield Query("hours_of_ticks", {"after": now - DAYS_BACK_MS})
    if not runs:
        return None
    hours = max(1.0, (now - first_at) / HOUR_MS)
    return Typical(hours, runs / hours, busy_ms / 60_000 / hours, tasks / hours)
