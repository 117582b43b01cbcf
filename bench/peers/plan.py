"""How much one run asks of each system: counts, and the times at which it stops waiting for slow ones."""

from dataclasses import dataclass
from typing import Literal

Work = Literal["enqueue", "drain", "latency", "workflows"]

WORKS: tuple[Work, ...] = ("enqueue", "drain", "latency", "workflows")


@dataclass(frozen=True, slots=True)
class Plan:
    """The counts and times of one run; every system gets the same."""

    rounds: int
    singles: int
    jobs: int
    workflows: int
    latencies: int
    gap_seconds: float
    fill_seconds: float
    cap_seconds: float
    settle_seconds: float
    probe_seconds: float


FULL = Plan(
    rounds=3,
    singles=5_000,
    jobs=60_000,
    workflows=10_000,
    latencies=80,
    gap_seconds=0.05,
    fill_seconds=2.0,
    cap_seconds=5.0,
    settle_seconds=0.2,
    probe_seconds=0.1,
)

# Proves that every system runs and that nothing is lost; its rates prove little.
QUICK = Plan(
    rounds=1,
    singles=50,
    jobs=300,
    workflows=20,
    latencies=5,
    gap_seconds=0.03,
    fill_seconds=0.3,
    cap_seconds=0.5,
    settle_seconds=0.05,
    probe_seconds=0.02,
)
