"""How much of everything one run does: three plans, and the names of the workloads and stores."""

from dataclasses import dataclass
from typing import Literal, get_args

Side = Literal["floor", "engine"]
Store = Literal["sqlite", "postgres"]
Work = Literal[
    "enqueue",
    "callers",
    "drain",
    "kinds",
    "payloads",
    "workflows",
    "spawn",
    "trees",
    "governed",
    "latency",
    "load",
    "backlog",
    "finished",
    "snapshot",
    "reader",
    "slow",
    "startup",
    "lists",
    "listings",
]

SIDES: tuple[Side, ...] = get_args(Side)
STORES: tuple[Store, ...] = get_args(Store)
WORKS: tuple[Work, ...] = get_args(Work)

STAGES = 5
CONCURRENCY = 100
BULK_SIZE = 1_000
# About 200 bytes of JSON a task, so that a payload costs what a payload costs.
PAD = "x" * 170
# How many ask at once where many callers are measured.
CALLERS = 50
CHILDREN = 100
# Tasks that wait for so long, on so few slots, where the reply to a commit takes so long.
WAIT_S = 0.04
FEW_SLOTS = 32
COMMIT_S = 0.1
# The queue of those who spawn, so that a worker can leave their children for later.
FANS = "fans"
# A tree of tasks: so many children each, so many levels below the root.
TREE_WIDTH = 5
TREE_LEVELS = 5
SMALL_LINEAGE = 10
# How many tasks one claim of the governed workload takes.
CLAIMED = 100
# The payloads that are compared, by the word they go by.
SIZES = {"200b": 200, "10kb": 10_000, "1mb": 1_000_000}
# A small backlog, and how many of it are measured: the rest keeps the end of a backlog out of the figure.
SMALL_BACKLOG = 10_000
FIRST_SHARE = 0.9
# The loads under which latency is measured, as shares of the rate at which the same database was drained just before.
HALF_LOAD = 0.5
HIGH_LOAD = 0.7


@dataclass(frozen=True, slots=True)
class Plan:
    """The counts and times of one run."""

    name: str
    rounds: int
    singles: int
    bulk: int
    drain: int
    kinds: int
    payload_bytes: int
    workflows: int
    spawned: int
    trees: int
    large_lineage: int
    sources: int
    claims: int
    latencies: int
    gap_ms: int
    load_seconds: float
    small: int
    large_backlog: int
    finished: int
    repeats: int
    steady_per_second: int
    before_seconds: float
    hold_seconds: float
    starts: int
    probe_seconds: float
    listings: int
    listed: int
    asked: int


# About ten minutes.
FULL = Plan(
    name="bench",
    rounds=3,
    singles=1_500,
    bulk=40_000,
    drain=40_000,
    kinds=10_000,
    payload_bytes=100_000_000,
    workflows=8_000,
    spawned=20_000,
    trees=3,
    large_lineage=100_000,
    sources=10_000,
    claims=40,
    latencies=200,
    gap_ms=20,
    load_seconds=5.0,
    small=SMALL_BACKLOG,
    large_backlog=200_000,
    finished=200_000,
    repeats=5,
    steady_per_second=1_000,
    before_seconds=20.0,
    hold_seconds=60.0,
    starts=3,
    probe_seconds=0.15,
    listings=1_000,
    listed=200_000,
    asked=10,
)

# About an hour: the sizes and the time that a database sees in a year of neglect.
LONG = Plan(
    name="long",
    rounds=3,
    singles=5_000,
    bulk=100_000,
    drain=100_000,
    kinds=30_000,
    payload_bytes=200_000_000,
    workflows=20_000,
    spawned=40_000,
    trees=10,
    large_lineage=100_000,
    sources=10_000,
    claims=40,
    latencies=500,
    gap_ms=20,
    load_seconds=20.0,
    small=SMALL_BACKLOG,
    large_backlog=1_000_000,
    finished=5_000_000,
    repeats=7,
    steady_per_second=1_000,
    before_seconds=60.0,
    hold_seconds=600.0,
    starts=5,
    probe_seconds=0.15,
    listings=5_000,
    listed=1_000_000,
    asked=20,
)

# Small enough for a test to run it whole: it proves that nothing is lost, its rates prove little.
QUICK = Plan(
    name="quick",
    rounds=1,
    singles=100,
    bulk=2_000,
    drain=6_000,
    kinds=500,
    payload_bytes=3_000_000,
    workflows=200,
    spawned=1_000,
    trees=1,
    large_lineage=1_000,
    sources=1_000,
    claims=3,
    latencies=20,
    gap_ms=20,
    load_seconds=0.5,
    small=1_000,
    large_backlog=3_000,
    finished=3_000,
    repeats=1,
    steady_per_second=1_000,
    before_seconds=1.0,
    hold_seconds=1.0,
    starts=1,
    probe_seconds=0.02,
    listings=60,
    listed=6_000,
    asked=2,
)

PLANS = {plan.name: plan for plan in (FULL, LONG, QUICK)}
