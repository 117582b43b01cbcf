"""What an hour has come to."""

from __future__ import annotations

from typing import NamedTuple

HOUR_MS = 3_600_000


class Typical(NamedTuple):
    """What an hour has come to on average, by the ticks that have run."""

    hours: float
    """Over how many hours."""
    runs: float
    minutes: float
    tasks: float
