"""How much of everything one run does: two plans, and the names of the workloads and stores."""

from dataclasses import dataclass
from typing import Literal

Side = Literal["floor", "engine"]
Store = Literal["sqlite", "postgres"]
Work = Literal["enqueue", "drain", "latency", "workflows", "spawn", "governed", "steady"]

SIDES: tuple[Side, ...] = ("floor", "engine")
STORES: tuple[Store, ...] = ("sqlite", "postgres")
WORKS: tuple[Work, ...] = ("enqueue", "drain", "latency", "workflows", "spawn", "governed", "steady")

STAGES = 5
CONCURRENCY = 100
BULK_SIZE = 1_000
# About 200 bytes of JSON a task, so that a payload costs what a payload costs.
PAD = "x" * 170
HELD_SHARE_WANTED = 0.98
CHILDREN = 100
# The queue of those who spawn, so that a worker can leave their children for later.
FANS = "fans"
SMALL_LINEAGE = 10
SPAWN_SHARE_WANTED = 0.5
GUARD_GROWTH_WANTED = 1.2
# How many tasks one claim of the governed workload takes.
CLAIMED = 100
GOVERNED_COST_WANTED = 1.3
SOURCES_COST_WANTED = 1.1


@dataclass(frozen=True, slots=True)
class Plan:
    """The counts and times of one run."""

    rounds: int
    singles: int
    bulk: int
    drain: int
    workflows: int
    spawned: int
    large_lineage: int
    sources: int
    latencies: int
    gap_ms: int
    steady_per_second: int
    hold_seconds: float
    probe_seconds: float


FULL = Plan(
    rounds=3,
    singles=5_000,
    bulk=60_000,
    drain=60_000,
    workflows=20_000,
    spawned=20_000,
    large_lineage=100_000,
    sources=10_000,
    latencies=120,
    gap_ms=50,
    steady_per_second=3_000,
    hold_seconds=30.0,
    probe_seconds=0.15,
)

# Small enough for a test to run it whole: it proves that nothing is lost, its rates prove little.
QUICK = Plan(
    rounds=1,
    singles=200,
    bulk=3_000,
    drain=3_000,
    workflows=500,
    spawned=3_000,
    large_lineage=3_000,
    sources=1_000,
    latencies=20,
    gap_ms=30,
    steady_per_second=3_000,
    hold_seconds=2.0,
    probe_seconds=0.05,
)
