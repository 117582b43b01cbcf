"""Errors that are alike, counted: which tasks say the same, since when, and what they have cost. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from onceward.model.budget import read_amount
from onceward.model.error_shapes import Piece, Shape, shape_of
from onceward.model.task_match import Facts, error_of
from onceward.model.times import moment

HOUR_MS = 3_600_000
HOURS = 24
MOST_GROUPS = 100


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Tasks whose last error says the same."""

    fingerprint: str
    """`error:#…` in a filter finds its tasks."""
    message: str
    """What all of them say; where they differ stands `⟨url⟩` or `⟨#⟩`."""
    pieces: tuple[Piece, ...]
    """The same in parts: each is text, or a hole."""
    tasks: int
    first_seen: datetime
    last_seen: datetime
    cost: Decimal
    """What its tasks have charged, in USD."""
    kinds: tuple[str, ...]
    stages: tuple[str, ...]
    example: int
    """The newest of its tasks."""
    example_reason: str
    hourly: tuple[int, ...]
    """How many came in each of the last 24 hours; the present one is last."""
    is_whole: bool
    """Whether all tasks were looked at that may belong to it."""

    @property
    def filter(self) -> str:
        """The term of a filter that finds its tasks."""
        return f"error:#{self.fingerprint}"


class _Group:
    def __init__(self, shape: Shape, newest: Facts) -> None:
        self.shape = shape
        self.newest = newest
        self.times: list[int] = []
        self.cost = 0
        self.kinds: dict[str, None] = {}
        self.stages: dict[str, None] = {}


class ErrorGroups:
    """Collects errors, newest first."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, some: Iterable[Facts]) -> None:
        """Count tasks; one without an error is left out."""
        for facts in some:
            if (error := error_of(facts)) is None:
                continue
            shape = shape_of(error)
            group = self._groups.setdefault(shape.fingerprint, _Group(shape, facts))
            group.times.append(facts.created_at if facts.ended_at is None else facts.ended_at)
            group.cost += facts.cost
            group.kinds.setdefault(facts.kind)
            if facts.stage is not None:
                group.stages.setdefault(facts.stage)

    def groups(self, now: int, *, is_whole: bool) -> list[ErrorGroup]:
        """The groups, the largest first."""
        ordered = sorted(self._groups.values(), key=lambda group: (-len(group.times), -max(group.times)))
        return [
            ErrorGroup(
                fingerprint=group.shape.fingerprint,
                message=group.shape.message,
                pieces=group.shape.pieces,
                tasks=len(group.times),
                first_seen=moment(min(group.times)),
                last_seen=moment(max(group.times)),
                cost=read_amount(group.cost),
                kinds=tuple(sorted(group.kinds)),
                stages=tuple(sorted(group.stages)),
                example=group.newest.id,
                example_reason=group.newest.reason or "",
                hourly=_hourly(group.times, now),
                is_whole=is_whole,
            )
            for group in ordered[:MOST_GROUPS]
        ]


def _hourly(times: Iterable[int], now: int) -> tuple[int, ...]:
    counts = [0] * HOURS
    for at in times:
        age = max(0, now - at) // HOUR_MS
        if age < HOURS:
            counts[HOURS - 1 - age] += 1
    return tuple(counts)
