"""What was measured, and what a set of measurements comes to."""

import statistics
from dataclasses import dataclass, field
from typing import Any

from bench.plan import Side, Store
from bench.runlog import Tally, total


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one measurement gave: values by measure, how often each job ran, and what can be drawn over time."""

    values: dict[str, float]
    tally: Tally
    series: dict[str, list[float]] = field(default_factory=dict)


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
class Series:
    """Values of one measurement, second by second."""

    store: Store
    side: Side
    name: str
    values: tuple[float, ...]


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
    series: tuple[Series, ...] = ()

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
        return total(tallies)


def read_results(document: dict[str, Any]) -> Results:
    """The results that a report for programs holds."""
    return Results(
        tuple(Sample(**one) for one in document["samples"]),
        tuple(Count(**{**one, "tally": Tally(**one["tally"])}) for one in document["counts"]),
        tuple(Failure(**one) for one in document["failures"]),
        tuple(Series(**{**one, "values": tuple(one["values"])}) for one in document["series"]),
    )
