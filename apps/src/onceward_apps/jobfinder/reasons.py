"""Why something has the points or the strikes that it has: numbers with a sentence each."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Reason(msgspec.Struct, frozen=True):
    """So many points, or strikes, and what for."""

    points: int
    rule: str
    sentence: str


def total(reasons: Iterable[Reason]) -> int:
    """What they add up to."""
    return sum(reason.points for reason in reasons)


def share(found: dict[str, int], wanted: dict[str, int], full: int) -> float:
    """How much of what one is best at is found, from 0 to 1: all of it if the `full` best are."""
    best = sum(sorted(wanted.values(), reverse=True)[:full])
    return 0.0 if best == 0 else min(1.0, sum(found.values()) / best)
