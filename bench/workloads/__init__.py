"""The workloads: what each does to a fresh database, and what it measures."""

from functools import partial

from bench.workloads.draining import drain, kinds, payloads, slow, startup, workflows
from bench.workloads.enqueueing import callers, enqueue
from bench.workloads.finding import listings
from bench.workloads.latencies import latency, load
from bench.workloads.listing import lists
from bench.workloads.parts import Part
from bench.workloads.sizes import backlog, finished, reader, snapshot
from bench.workloads.spawning import governed, guard, spawn, trees

__all__ = ["PARTS", "Part"]

# What has a floor and a bound runs in every round; what takes long, or is compared with itself, once.
PARTS = (
    Part("enqueue", "enqueue", enqueue),
    Part("callers", "callers", callers, every_round=False, sides=("engine",)),
    Part("drain-1", "drain", partial(drain, workers=1)),
    Part("drain-2", "drain", partial(drain, workers=2)),
    Part("drain-4", "drain", partial(drain, workers=4), every_round=False),
    Part("kinds", "kinds", kinds, sides=("engine",)),
    Part("payloads", "payloads", payloads, every_round=False),
    Part("workflows", "workflows", workflows),
    Part("spawn", "spawn", spawn, every_round=False, sides=("engine",)),
    Part("guard", "spawn", guard, every_round=False, sides=("engine",)),
    Part("trees", "trees", trees, every_round=False, sides=("engine",)),
    Part("governed", "governed", governed, every_round=False, sides=("engine",)),
    Part("latency", "latency", latency),
    Part("load", "load", load, every_round=False, sides=("engine",)),
    Part("backlog", "backlog", backlog, every_round=False, sides=("engine",)),
    Part("finished", "finished", finished, every_round=False, sides=("engine",)),
    # Only PostgreSQL keeps dead rows for an old snapshot; only SQLite keeps its log for an old reader.
    Part("snapshot", "snapshot", snapshot, ("postgres",), ("engine",), every_round=False),
    Part("reader", "reader", reader, ("sqlite",), ("engine",), every_round=False),
    # Only a server can be slow with a commit alone.
    Part("slow", "slow", slow, ("postgres",), ("engine",), every_round=False),
    Part("startup", "startup", startup, every_round=False),
    Part("lists", "lists", lists, every_round=False, sides=("engine",)),
    Part("listings", "listings", listings, every_round=False, sides=("engine",)),
)
