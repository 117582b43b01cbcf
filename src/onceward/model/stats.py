"""Figures about the last hours, from the log alone: how long stages take, and how attempts come out.

Pure: rows in, figures out. An attempt is over with the first row that says what has come of it; the work of a stage is
done with the row that commits it, and began with the stage before it in the same attempt, or with the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

from onceward.model.status import Event, Status

SIZES: tuple[tuple[int | None, str], ...] = (
    (1_000, "below 1 kB"),
    (10_000, "1 to 10 kB"),
    (100_000, "10 to 100 kB"),
    (None, "100 kB or more"),
)
"""The classes of payloads: below how many bytes, and what they are called."""

RETRIED = frozenset({Event.RETRY_SCHEDULED, Event.TIMED_OUT})
LOST = frozenset({Event.RECLAIMED, Event.CRASHED})
OUTCOMES = RETRIED | LOST | {Event.FINISHED, Event.DEFERRED, Event.PARKED, Event.HANDED_OVER}
"""What an attempt can come to. One that was given back has come to nothing."""

ENDS = frozenset({Event.FINISHED, Event.CRASHED, Event.RECLAIMED, Event.CANCELLED, Event.EXPIRED})
"""What can end a task."""
PACE_MS = 600_000

Attempt = tuple[int, int]
"""A task and the number of its claim."""


class Logged(NamedTuple):
    """A row of the log."""

    id: int
    task: int
    fence: int
    event: Event
    status: Status
    stage: str | None
    worker: int | None
    at: int

    @property
    def attempt(self) -> Attempt:
        """The attempt that it is about."""
        return self.task, self.fence

    @property
    def is_outcome(self) -> bool:
        """Whether it ends an attempt. A task that is parked without a worker was not being attempted."""
        return self.event in OUTCOMES and self.fence > 0 and self.worker is not None

    @property
    def ends_stage(self) -> bool:
        """Whether a stage has done its work with it."""
        if self.event is Event.FINISHED:
            return self.status is not Status.FAILED
        return self.event in (Event.STAGE_COMMITTED, Event.HANDED_OVER)


class Facts(NamedTuple):
    """What a task is."""

    kind: str
    payload_bytes: int
    ready_at: int | None = None
    """When it could first run; None if it was claimed more than once since."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How many tasks have ended of late, and how many of them failed."""

    minutes: float
    """Over how long: the last ten minutes, or less."""
    ended: int
    failed: int

    @property
    def ended_a_minute(self) -> float:
        """Tasks that end in a minute, in whatever status."""
        return self.ended / self.minutes

    @property
    def failed_a_minute(self) -> float:
        """Tasks that end `failed` in a minute."""
        return self.failed / self.minutes


@dataclass(frozen=True, slots=True)
class LineWait:
    """How long tasks of one pipeline stood in line before their first attempt."""

    pipeline: str
    count: int
    p50_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class StageDuration:
    """How long one stage took, for work of one size."""

    pipeline: str
    stage: str
    size: str
    """What the stage has measured (`ctx.measure`): "1,000 to 9,999 words"; otherwise the size of the payload: "below 1
    kB", "1 to 10 kB", "10 to 100 kB", "100 kB or more"."""
    count: int
    """How often it was done."""
    p50_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class AttemptCounts:
    """How attempts came out: all of them, or those of a pipeline; of a source, every run of a stage that has it."""

    name: str
    """The pipeline or the source; empty for all."""
    attempts: int
    retries: int
    """Those that failed, or ran out of time, and are tried again."""
    reclaimed: int
    """Those that were lost with their worker, or with a process of their own."""

    @property
    def retry_rate(self) -> float | None:
        """What part of the attempts is tried again; None if there was none."""
        return self.retries / self.attempts if self.attempts else None

    @property
    def reclaim_rate(self) -> float | None:
        """What part of the attempts was taken back from the dead; None if there was none."""
        return self.reclaimed / self.attempts if self.attempts else None


def size_class(payload_bytes: int) -> str:
    """What a payload of so many bytes is called."""
    return next(name for below, name in SIZES if below is None or payload_bytes < below)


def measured_class(sizes: Mapping[str, int]) -> tuple[str, int]:
    """A measured size as a class of one power of ten, and where that stands in order: `{"words": 1322}`."""
    name, size = next(iter(sizes.items()))
    power = len(str(size)) - 1
    low, high = (10**power if power else 0), 10 ** (power + 1) - 1
    return f"{low:,} to {high:,} {name}", power


def percentile(ordered: Sequence[int], share: float) -> int:
    """The smallest of some values, in order, that is not below so large a share of them."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def with_stages_done(newest_first: Iterable[Logged]) -> set[Attempt]:
    """The attempts of which a stage was done. The log does not say when they began; their claims do."""
    return {row.attempt for row in newest_first if row.ends_stage and row.fence > 0}


def durations(
    newest_first: Sequence[Logged],
    tasks: Mapping[int, Facts],
    began: Mapping[Attempt, int],
    since: int,
    sizes: Mapping[tuple[int, str], Mapping[str, int]] = {},
) -> tuple[StageDuration, ...]:
    """How long stages took that were done since a time, by pipeline, stage and size of the work.

    `began` is when attempts began, or had last finished a stage before these rows. One that is not in it is left out.
    `sizes` is what stages have measured, by task and stage; the others go by the size of their payload.
    """
    last = dict(began)
    taken: dict[tuple[str, str, int, str], list[int]] = {}
    for row in reversed(newest_first):
        if not row.ends_stage or row.stage is None:
            continue
        start_at, facts = last.get(row.attempt), tasks.get(row.task)
        if start_at is not None and facts is not None and row.at >= since:
            if measured := sizes.get((row.task, row.stage)):
                size, place = measured_class(measured)
            else:
                size = size_class(facts.payload_bytes)
                place = [name for _, name in SIZES].index(size)
            taken.setdefault((facts.kind, row.stage, place, size), []).append(max(0, row.at - start_at))
        if start_at is not None:
            last[row.attempt] = row.at
    return tuple(
        StageDuration(
            pipeline,
            stage,
            size,
            len(some),
            percentile(ordered, 0.50) / 1_000,
            percentile(ordered, 0.95) / 1_000,
            ordered[-1] / 1_000,
        )
        for (pipeline, stage, _, size), some in sorted(taken.items())
        for ordered in [sorted(some)]
    )


def pace(newest_first: Iterable[Logged], since: int, now: int) -> Pace:
    """How many tasks have ended in the last ten minutes, or since a later time."""
    first_at = max(since, now - PACE_MS)
    ended = [row for row in newest_first if row.status.is_terminal and row.event in ENDS and row.at >= first_at]
    failed = sum(row.status is Status.FAILED for row in ended)
    return Pace(max(now - first_at, 1_000) / 60_000, len(ended), failed)


def line_waits(tasks: Mapping[int, Facts], began: Mapping[Attempt, int], since: int) -> tuple[LineWait, ...]:
    """How long tasks stood in line before their first attempt, by pipeline; `began` is when attempts were claimed."""
    waited: dict[str, list[int]] = {}
    for (task, fence), at in began.items():
        facts = tasks.get(task)
        if fence == 1 and at >= since and facts is not None and facts.ready_at is not None:
            waited.setdefault(facts.kind, []).append(max(0, at - facts.ready_at))
    return tuple(
        LineWait(
            pipeline,
            len(ordered),
            percentile(ordered, 0.50) / 1_000,
            percentile(ordered, 0.95) / 1_000,
            ordered[-1] / 1_000,
        )
        for pipeline, ordered in sorted((pipeline, sorted(some)) for pipeline, some in waited.items())
    )


def outcomes(newest_first: Iterable[Logged], since: int) -> list[Logged]:
    """The rows that say what attempts have come to since a time, one for each, newest first."""
    # A stage that hands over to a join is parked in the same breath: the older row is the one that counts.
    found = {row.attempt: row for row in newest_first if row.is_outcome}
    return [row for row in found.values() if row.at >= since]


def stage_runs(newest_first: Iterable[Logged], since: int) -> list[Logged]:
    """The rows that say what runs of stages have come to since a time: an attempt may go through several."""
    rows = list(newest_first)
    committed = [row for row in rows if row.event is Event.STAGE_COMMITTED and row.at >= since]
    return outcomes(rows, since) + committed


def counted(name: str, rows: Iterable[Logged]) -> AttemptCounts:
    """How attempts came out."""
    events = [row.event for row in rows]
    return AttemptCounts(
        name, len(events), sum(event in RETRIED for event in events), sum(event in LOST for event in events)
    )


def waits_for(waiting_for: str) -> str:
    """Why nothing in the engine will ever wake a task, in a sentence."""
    what, _, name = waiting_for.partition(":")
    match what:
        case "signal":
            return f"it waits for the signal {name!r}, and for no time: only the signal will wake it"
        case "code":
            return "it waits for other code, which fits what is stored of it"
        case "budget":
            return f"it waits for budget {name}, which does not begin anew: only a higher limit will wake it"
        case "batch":
            return f"it waits for batch {name!r}, which is not open"
        case _:
            return f"it waits for {what}, of which none is open"
