"""What was measured, and what a set of measurements comes to."""

import statistics
from dataclasses import dataclass

from bench.plan import BULK_SIZE, CHILDREN, CLAIMED, Side, Store
from bench.runlog import Tally


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing that is measured, as a reader sees it."""

    label: str
    unit: str
    decimals: int = 0
    lower_is_better: bool = False


MEASURES = {
    "enqueue-one": Measure("enqueue, one by one", "tasks/s"),
    "enqueue-bulk": Measure(f"enqueue, {BULK_SIZE:,} a call", "tasks/s"),
    "drain-1": Measure("drain, 1 process", "tasks/s"),
    "drain-2": Measure("drain, 2 processes", "tasks/s"),
    "workflows": Measure("5-stage workflows", "workflows/s"),
    "spawn": Measure(f"spawn, {CHILDREN} a stage", "children/s"),
    "spawn-bulk": Measure(f"beside it: enqueue, {BULK_SIZE:,} a call", "tasks/s"),
    "spawn-share": Measure("spawn / enqueue", "share", 2),
    "guard-small": Measure(f"guard, {CHILDREN} children, small lineage", "ms", 2, lower_is_better=True),
    "guard-large": Measure(f"guard, {CHILDREN} children, large lineage", "ms", 2, lower_is_better=True),
    "guard-growth": Measure("guard, large / small", "share", 2, lower_is_better=True),
    "claim-plain": Measure(f"claim of {CLAIMED}, no gates", "ms", 2, lower_is_better=True),
    "claim-governed": Measure(f"claim of {CLAIMED}, behind one source", "ms", 2, lower_is_better=True),
    "claim-behind": Measure(f"claim of {CLAIMED}, each behind its own", "ms", 2, lower_is_better=True),
    "governed-cost": Measure("claim, one source / no gates", "share", 2, lower_is_better=True),
    "sources-cost": Measure("claim, beside many closed sources / alone", "share", 2, lower_is_better=True),
    "behind-cost": Measure("claim, each behind its own source / one", "share", 2, lower_is_better=True),
    "latency-p50": Measure("idle latency, p50", "ms", 2, lower_is_better=True),
    "latency-p95": Measure("idle latency, p95", "ms", 2, lower_is_better=True),
    "latency-p99": Measure("idle latency, p99", "ms", 2, lower_is_better=True),
    "steady-plain": Measure("steady, started in time", "share", 4),
    "steady-plain-p99": Measure("steady latency, p99", "ms", 1, lower_is_better=True),
    "steady-held": Measure("held, started in time", "share", 4),
    "steady-held-p99": Measure("held latency, p99", "ms", 1, lower_is_better=True),
    "steady-kept": Measure("held / steady", "share", 4),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one measurement gave: values by measure, and how often each job ran."""

    values: dict[str, float]
    tally: Tally


@dataclass(frozen=True, slots=True)
class Sample:
    """One value, with the speed of the disk just before it was taken."""

    store: Store
    side: Side
    measure: str
    round: int
    value: float
    syncs_per_second: float


@dataclass(frozen=True, slots=True)
class Count:
    """The tally of one measurement."""

    store: Store
    side: Side
    part: str
    round: int
    tally: Tally


@dataclass(frozen=True, slots=True)
class Failure:
    """A measurement that could not be taken."""

    store: Store
    side: Side
    part: str
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, smallest and largest of some values."""

    median: float
    low: float
    high: float


def spread(values: list[float]) -> Spread | None:
    """The spread of the values, if there are any."""
    if not values:
        return None
    return Spread(statistics.median(values), min(values), max(values))


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True, slots=True)
class Results:
    """Everything one run has found."""

    samples: tuple[Sample, ...]
    counts: tuple[Count, ...]
    failures: tuple[Failure, ...]

    @property
    def sound(self) -> bool:
        """Every measurement was taken, and every job of every one ran exactly once."""
        return not self.failures and all(count.tally.clean for count in self.counts)

    def by_round(self, store: Store, side: Side, measure: str) -> dict[int, float]:
        """The values of one measure, by round."""
        return {
            sample.round: sample.value
            for sample in self.samples
            if (sample.store, sample.side, sample.measure) == (store, side, measure)
        }

    def spread(self, store: Store, side: Side, measure: str) -> Spread | None:
        """Median and range of one measure over the rounds."""
        return spread(list(self.by_round(store, side, measure).values()))

    def ratio(self, store: Store, measure: str) -> Spread | None:
        """Engine / floor, each round's engine against the same round's floor."""
        floor = self.by_round(store, "floor", measure)
        engine = self.by_round(store, "engine", measure)
        return spread([engine[round] / floor[round] for round in engine if floor.get(round)])

    def tally(self, store: Store, side: Side) -> Tally:
        """All counts of one side on one store, added up."""
        tallies = [count.tally for count in self.counts if (count.store, count.side) == (store, side)]
        return Tally(
            expected=sum(tally.expected for tally in tallies),
            once=sum(tally.once for tally in tallies),
            twice=sum(tally.twice for tally in tallies),
            never=sum(tally.never for tally in tallies),
            unknown=sum(tally.unknown for tally in tallies),
        )
