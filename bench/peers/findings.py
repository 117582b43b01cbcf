"""What a run has found: values by system and round, how often every job ran, and what they come to."""

from dataclasses import dataclass

from bench.measures import Measure
from bench.peers.catalogue import BY_NAME, OURS, System
from bench.runlog import Run, Tally
from bench.samples import Spread, spread

MEASURES = {
    "enqueue-one": Measure("enqueue, one by one", "jobs/s"),
    "enqueue-bulk": Measure("enqueue, bulk", "jobs/s"),
    "drain-1": Measure("drain, 1 process", "jobs/s"),
    "drain-2": Measure("drain, 2 processes", "jobs/s"),
    "workflows": Measure("5-step workflows", "workflows/s"),
    "latency-p50": Measure("idle latency, p50", "ms", 1, lower_is_better=True),
    "latency-p99": Measure("idle latency, p99", "ms", 1, lower_is_better=True),
    "cpu": Measure("worker CPU per 1,000 jobs", "s", 3, lower_is_better=True),
    "memory": Measure("peak memory of 1 worker", "MB", 0, lower_is_better=True),
}


@dataclass(frozen=True, slots=True)
class Value:
    """One value; capped when the time was over before the work was."""

    value: float
    capped: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one measurement gave: values by measure, how often each job ran, whether it was cut short."""

    values: dict[str, Value]
    tally: Tally
    capped: bool

    @property
    def sound(self) -> bool:
        """Nothing ran twice or unasked, and nothing was left out unless the time was over."""
        return not self.tally.twice and not self.tally.unknown and (self.capped or not self.tally.never)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one system in one round."""

    system: str
    measure: str
    round: int
    value: Value
    syncs_per_second: float


@dataclass(frozen=True, slots=True)
class Count:
    """The tally of one measurement."""

    system: str
    part: str
    round: int
    tally: Tally
    capped: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """A measurement that could not be taken."""

    system: str
    part: str
    round: int
    reason: str


@dataclass(frozen=True, slots=True)
class Counted:
    """All jobs of one system: those of capped measurements that were not reached are apart from those never run."""

    expected: int
    once: int
    twice: int
    never: int
    left_at_cap: int
    unknown: int


def rate(runs: list[Run], cap_seconds: float, *, capped: bool) -> Value:
    """Handler starts a second: from the first start to the last, or to the cap if it was still going on then."""
    if len(runs) < 2:
        return Value(0.0, capped)
    first, last = runs[0].started_ns, runs[-1].started_ns
    if capped:
        in_time = sum(1 for run in runs if run.started_ns - first <= cap_seconds * 1e9)
        return Value(in_time / cap_seconds, capped)
    return Value((len(runs) - 1) / ((last - first) / 1e9))


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything one run has found; `skipped` says why a system is not in it."""

    systems: tuple[System, ...]
    samples: tuple[Sample, ...]
    counts: tuple[Count, ...]
    failures: tuple[Failure, ...]
    skipped: dict[str, str]

    @property
    def sound(self) -> bool:
        """Every measurement was taken, and our own jobs all ran exactly once. What a peer loses is its own finding."""
        own = [self.counted(system) for system in self.systems if system.requirements is None]
        return not self.failures and not any(count.twice or count.never or count.unknown for count in own)

    def by_round(self, system: str, measure: str) -> dict[int, Value]:
        """The values of one measure of one system."""
        return {
            sample.round: sample.value
            for sample in self.samples
            if (sample.system, sample.measure) == (system, measure)
        }

    def spread(self, system: str, measure: str) -> Spread | None:
        """Median and range over the rounds."""
        return spread([value.value for value in self.by_round(system, measure).values()])

    def capped(self, system: str, measure: str) -> bool:
        """Whether a round of it was cut short."""
        return any(value.capped for value in self.by_round(system, measure).values())

    def times_as_fast(self, system: str, measure: str) -> Spread | None:
        """How many times as fast ours is as the system, each round against the same round."""
        ours = self.by_round(OURS[BY_NAME[system].backend], measure)
        theirs = self.by_round(system, measure)
        pairs = [(ours[round].value, theirs[round].value) for round in theirs if round in ours]
        if MEASURES[measure].lower_is_better:
            pairs = [(theirs, ours) for ours, theirs in pairs]
        return spread([over / under for over, under in pairs if under])

    def counted(self, system: System) -> Counted:
        """All counts of one system, added up."""
        counts = [count for count in self.counts if count.system == system.name]

        return Counted(
            expected=sum(count.tally.expected for count in counts),
            once=sum(count.tally.once for count in counts),
            twice=sum(count.tally.twice for count in counts),
            never=sum(count.tally.never for count in counts if not count.capped),
            left_at_cap=sum(count.tally.never for count in counts if count.capped),
            unknown=sum(count.tally.unknown for count in counts),
        )
