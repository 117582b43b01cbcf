"""The figures of the last hour, gathered from the log as it grows: nothing is read twice. Pure.

Every row that ends a task is counted in its minute. Times are kept as samples: of each minute and pipeline so many
that percentiles are true, and no more.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from onceward.model.budget import read_amount
from onceward.model.stats import percentile
from onceward.model.status import Status
from onceward.model.times import moment

MINUTE_MS = 60_000
MINUTES = 60
HOUR_MS = MINUTES * MINUTE_MS
MOST_SAMPLES = 256
"""How many times are kept of a minute and a pipeline."""
COSTLIEST = 10


class Ended(NamedTuple):
    """A row of the log that has ended a task, with what is known of that."""

    id: int
    task: int
    status: Status
    at: int
    kind: str
    lineage: uuid.UUID
    cost: int
    ran_ms: int | None
    """From its first start to its end; None if it never began."""
    waited_ms: int | None
    """In line before its first start; None if it was started more than once."""


@dataclass(frozen=True, slots=True)
class Minute:
    """How tasks have ended in one minute."""

    at: datetime
    """Its beginning."""
    succeeded: int
    left_out: int
    """Filtered or skipped."""
    failed: int
    cancelled: int


@dataclass(frozen=True, slots=True)
class PipelineHour:
    """What a pipeline has done."""

    pipeline: str
    ended: int
    failed: int
    p50_s: float | None
    p95_s: float | None
    """From the first start of a task to its end; None if none was started."""
    cost: Decimal


@dataclass(frozen=True, slots=True)
class LineageHour:
    """What a lineage has cost, by its tasks that have ended."""

    lineage: uuid.UUID
    cost: Decimal
    tasks: int
    """How many of its tasks have cost something."""


@dataclass(frozen=True, slots=True)
class Hour:
    """Figures of the last hour."""

    at: datetime
    since: datetime
    """Where they begin: an hour ago, or as far back as was read."""
    is_whole: bool
    """Whether they begin an hour ago."""
    minutes: tuple[Minute, ...]
    """Sixty, the present one last."""
    claims: int
    """How many tasks were claimed in the last minute."""
    waited_p50_s: float | None
    waited_p95_s: float | None
    """How long tasks stood in line before their first start; None if there was none."""
    oldest_ready: datetime | None
    """Since when the first task of a line has stood there, of all lines; None if nothing is ready."""
    pipelines: tuple[PipelineHour, ...]
    lineages: tuple[LineageHour, ...]
    """Those that have cost most; ten at most."""

    @property
    def ended(self) -> int:
        """How many tasks have ended."""
        return sum(one.succeeded + one.left_out + one.failed + one.cancelled for one in self.minutes)

    @property
    def failed(self) -> int:
        """How many tasks have failed."""
        return sum(one.failed for one in self.minutes)

    @property
    def cost(self) -> Decimal:
        """What the tasks that have ended have cost, in USD."""
        return sum((one.cost for one in self.pipelines), Decimal(0))


class Samples:
    """Some of many values, evenly spread over the order in which they came."""

    def __init__(self) -> None:
        self.kept: list[int] = []
        self._every = 1
        self._seen = 0

    def add(self, value: int) -> None:
        """Keep it, or leave it out."""
        if self._seen % self._every == 0:
            self.kept.append(value)
            if len(self.kept) > MOST_SAMPLES:
                self.kept = self.kept[::2]
                self._every *= 2
        self._seen += 1

    @property
    def weighted(self) -> list[tuple[int, int]]:
        """Each value with how many it stands for."""
        return [(value, self._every) for value in self.kept]


@dataclass(slots=True)
class _Pipeline:
    """What a pipeline did in a minute."""

    ended: int = 0
    failed: int = 0
    cost: int = 0
    ran: Samples = field(default_factory=Samples)


@dataclass(slots=True)
class _Minute:
    counts: dict[Status, int] = field(default_factory=dict)
    pipelines: dict[str, _Pipeline] = field(default_factory=dict)
    lineages: dict[uuid.UUID, tuple[int, int]] = field(default_factory=dict)
    waited: Samples = field(default_factory=Samples)


class HourGauge:
    """Counts what has ended, minute by minute, and forgets what is older than an hour."""

    def __init__(self) -> None:
        self._minutes: dict[int, _Minute] = {}

    def add(self, some: Iterable[Ended]) -> None:
        """Count tasks that have ended."""
        for one in some:
            minute = self._minutes.setdefault(one.at // MINUTE_MS, _Minute())
            minute.counts[one.status] = minute.counts.get(one.status, 0) + 1
            pipeline = minute.pipelines.setdefault(one.kind, _Pipeline())
            pipeline.ended += 1
            pipeline.failed += one.status is Status.FAILED
            pipeline.cost += one.cost
            if one.ran_ms is not None:
                pipeline.ran.add(max(0, one.ran_ms))
            if one.waited_ms is not None:
                minute.waited.add(max(0, one.waited_ms))
            if one.cost:
                cost, tasks = minute.lineages.get(one.lineage, (0, 0))
                minute.lineages[one.lineage] = cost + one.cost, tasks + 1

    def forget(self, now: int) -> None:
        """Forget what is older than an hour."""
        first = now // MINUTE_MS - MINUTES
        for old in [minute for minute in self._minutes if minute < first]:
            del self._minutes[old]

    def hour(self, now: int, *, since: int, is_whole: bool, claims: int, oldest_ready: int | None) -> Hour:
        """The figures as they are now."""
        last = now // MINUTE_MS
        shown = [(number, self._minutes.get(number, _Minute())) for number in range(last - MINUTES + 1, last + 1)]
        waited = _percentiles(pair for _, minute in shown for pair in minute.waited.weighted)
        names = sorted({name for _, minute in shown for name in minute.pipelines})
        return Hour(
            at=moment(now),
            since=moment(since),
            is_whole=is_whole,
            minutes=tuple(_as_minute(number, minute) for number, minute in shown),
            claims=claims,
            waited_p50_s=waited[0],
            waited_p95_s=waited[1],
            oldest_ready=None if oldest_ready is None else moment(oldest_ready),
            pipelines=tuple(
                _as_pipeline(name, [minute.pipelines[name] for _, minute in shown if name in minute.pipelines])
                for name in names
            ),
            lineages=_costliest(minute for _, minute in shown),
        )


def _as_minute(number: int, minute: _Minute) -> Minute:
    counts = minute.counts
    return Minute(
        moment(number * MINUTE_MS),
        counts.get(Status.SUCCEEDED, 0),
        counts.get(Status.FILTERED, 0) + counts.get(Status.SKIPPED, 0),
        counts.get(Status.FAILED, 0),
        counts.get(Status.CANCELLED, 0),
    )


def _as_pipeline(name: str, some: list[_Pipeline]) -> PipelineHour:
    p50, p95 = _percentiles(pair for one in some for pair in one.ran.weighted)
    cost = read_amount(sum(one.cost for one in some))
    return PipelineHour(name, sum(one.ended for one in some), sum(one.failed for one in some), p50, p95, cost)


def _costliest(minutes: Iterable[_Minute]) -> tuple[LineageHour, ...]:
    total: dict[uuid.UUID, tuple[int, int]] = {}
    for minute in minutes:
        for lineage, (cost, tasks) in minute.lineages.items():
            before = total.get(lineage, (0, 0))
            total[lineage] = before[0] + cost, before[1] + tasks
    most = sorted(total.items(), key=lambda one: (-one[1][0], one[0]))[:COSTLIEST]
    return tuple(LineageHour(lineage, read_amount(cost), tasks) for lineage, (cost, tasks) in most)


def _percentiles(weighted: Iterable[tuple[int, int]]) -> tuple[float | None, float | None]:
    """The 50th and the 95th of values, each of which stands for so many."""
    values = list(weighted)
    least = min((weight for _, weight in values), default=1)
    ordered = sorted(value for value, weight in values for _ in range(weight // least))
    if not ordered:
        return None, None
    return percentile(ordered, 0.50) / 1_000, percentile(ordered, 0.95) / 1_000
