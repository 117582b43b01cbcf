"""Everything that is measured, as a reader sees it, by theme."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.plan import BULK_SIZE, CALLERS, CHILDREN, CLAIMED, COMMIT_S, FEW_SLOTS, TREE_LEVELS, WAIT_S


@dataclass(frozen=True, slots=True)
class Measure:
    """One thing that is measured, as a reader sees it."""

    label: str
    unit: str
    decimals: int = 0
    lower_is_better: bool = False


RATE = "tasks/s"

THEMES: dict[str, dict[str, Measure]] = {
    "Enqueue": {
        "enqueue-one": Measure("one by one", RATE),
        "enqueue-bulk": Measure(f"{BULK_SIZE:,} a call", RATE),
        "callers-1": Measure("one asyncio caller, one by one", RATE),
        "callers-many": Measure(f"{CALLERS} asyncio callers, one by one each", RATE),
        "callers-share": Measure(f"{CALLERS} asyncio callers / one", "×", 1),
        "threads-1": Measure("one thread, one by one", RATE),
        "threads-many": Measure(f"{CALLERS} threads, one by one each", RATE),
        "threads-share": Measure(f"{CALLERS} threads / one", "×", 1),
    },
    "Run": {
        "drain-1": Measure("no-op tasks, 1 process", RATE),
        "drain-2": Measure("no-op tasks, 2 processes", RATE),
        "drain-4": Measure("no-op tasks, 4 processes", RATE),
        "workflows": Measure("5-stage workflows", "workflows/s"),
        "kind-plain": Measure("plain tasks, beside the next ones", RATE),
        "kind-blocking": Measure("`def` tasks, in threads", RATE),
        "blocking-share": Measure("`def` / plain", "×", 2),
        "kind-governed": Measure("governed tasks, their source ample", RATE),
        "governed-share": Measure("governed / plain", "×", 2),
        "kind-spawned": Measure("tasks that were spawned", RATE),
        "spawned-share": Measure("spawned / plain", "×", 2),
        "slow": Measure(f"tasks of {WAIT_S * 1_000:g} ms, {FEW_SLOTS} slots, {COMMIT_S * 1_000:g} ms a commit", RATE),
        "slow-share": Measure(f"of the {FEW_SLOTS / WAIT_S:g} a second that the slots allow", "×", 2),
    },
    "Spawn": {
        "spawn": Measure(f"spawn, {CHILDREN} a stage", "children/s"),
        "spawn-bulk": Measure(f"beside it: enqueue, {BULK_SIZE:,} a call", RATE),
        "spawn-share": Measure("spawn / enqueue", "×", 2),
        "trees": Measure(f"trees of {TREE_LEVELS} levels below their root, run whole", RATE),
        "guard-small": Measure(f"guard, {CHILDREN} children, small lineage", "ms", 2, lower_is_better=True),
        "guard-large": Measure(f"guard, {CHILDREN} children, large lineage", "ms", 2, lower_is_better=True),
        "guard-growth": Measure("guard, large / small", "×", 2, lower_is_better=True),
    },
    "Claims behind gates": {
        "claim-plain": Measure(f"claim of {CLAIMED}, no gates", "ms", 2, lower_is_better=True),
        "claim-governed": Measure(f"claim of {CLAIMED}, behind one source", "ms", 2, lower_is_better=True),
        "claim-behind": Measure(f"claim of {CLAIMED}, each behind its own", "ms", 2, lower_is_better=True),
        "governed-cost": Measure("claim, one source / no gates", "×", 2, lower_is_better=True),
        "sources-cost": Measure("claim, beside many closed sources / alone", "×", 2, lower_is_better=True),
        "behind-cost": Measure("claim, each behind its own source / one", "×", 2, lower_is_better=True),
    },
    "Enqueue to start": {
        "latency-p50": Measure("idle worker, p50", "ms", 2, lower_is_better=True),
        "latency-p95": Measure("idle worker, p95", "ms", 2, lower_is_better=True),
        "latency-p99": Measure("idle worker, p99", "ms", 2, lower_is_better=True),
        "half-rate": Measure("half load: enqueued", RATE),
        "half-p50": Measure("half load, p50", "ms", 2, lower_is_better=True),
        "half-p95": Measure("half load, p95", "ms", 2, lower_is_better=True),
        "half-p99": Measure("half load, p99", "ms", 2, lower_is_better=True),
        "high-rate": Measure("load of 70 %: enqueued", RATE),
        "high-in-time": Measure("load of 70 %: started while it lasted", "share", 3),
        "high-p50": Measure("load of 70 %, p50", "ms", 2, lower_is_better=True),
        "high-p95": Measure("load of 70 %, p95", "ms", 2, lower_is_better=True),
        "high-p99": Measure("load of 70 %, p99", "ms", 2, lower_is_better=True),
    },
    "Size and time": {
        "backlog-small": Measure("first 9,000 of 10,000 pending", RATE),
        "backlog-large": Measure("first 9,000 of many pending", RATE),
        "backlog-share": Measure("many pending / 10,000", "×", 2),
        "finished-small": Measure("first 9,000 of 10,000, few finished rows kept", RATE),
        "finished-large": Measure("first 9,000 of 10,000, many finished rows kept", RATE),
        "finished-share": Measure("many finished rows / few", "×", 2),
        "snapshot-before": Measure("steady load: started", "tasks/s", 1),
        "snapshot-held": Measure("the same under a held snapshot", "tasks/s", 1),
        "snapshot-kept": Measure("held / before", "×", 3),
        "snapshot-before-p99": Measure("steady load: p99 start latency", "ms", 2, lower_is_better=True),
        "snapshot-held-p99": Measure("the same under a held snapshot", "ms", 2, lower_is_better=True),
        "snapshot-growth": Measure("p99, held / before", "×", 2, lower_is_better=True),
        "reader-without": Measure("no-op tasks, 1 process, without readers", RATE),
        "reader-with": Measure("the same beside a slow reader", RATE),
        "reader-share": Measure("with reader / without", "×", 2),
        "reader-wal-without": Measure("largest write-ahead log, without readers", "MB", 1, lower_is_better=True),
        "reader-wal-with": Measure("the same beside a slow reader", "MB", 1, lower_is_better=True),
    },
    "Lists": {
        "lists-all": Measure("the newest 50, p95", "ms", 1, lower_is_better=True),
        "lists-id": Measure("by id, p95", "ms", 1, lower_is_better=True),
        "lists-key": Measure("by key, p95", "ms", 1, lower_is_better=True),
        "lists-lineage": Measure("by lineage, p95", "ms", 1, lower_is_better=True),
        "lists-batch": Measure("by batch, p95", "ms", 1, lower_is_better=True),
        "lists-failed": Measure("what has failed, p95", "ms", 1, lower_is_better=True),
        "lists-status": Measure("by other ends, p95", "ms", 1, lower_is_better=True),
        "lists-open": Measure("what is open, p95", "ms", 1, lower_is_better=True),
        "lists-kind": Measure("by kind, rare ones too, p95", "ms", 1, lower_is_better=True),
        "lists-other": Measure("by anything else, p95", "ms", 1, lower_is_better=True),
        "lists-count": Measure("count of what has failed, p95", "ms", 1, lower_is_better=True),
        "lists-groups": Measure("errors that are alike, p95", "ms", 1, lower_is_better=True),
        "lists-hour-first": Measure("the last hour, first look", "ms", 1, lower_is_better=True),
        "lists-hour": Measure("the last hour, later looks, median", "ms", 1, lower_is_better=True),
    },
    "Payloads": {
        "payload-200b": Measure("drain, 200 B each", RATE),
        "payload-200b-mb": Measure("drain, 200 B each", "MB/s", 1),
        "payload-10kb": Measure("drain, 10 kB each", RATE),
        "payload-10kb-mb": Measure("drain, 10 kB each", "MB/s", 1),
        "payload-1mb": Measure("drain, 1 MB each", RATE, 1),
        "payload-1mb-mb": Measure("drain, 1 MB each", "MB/s", 1),
    },
    "Cost": {
        "cpu": Measure("CPU of the worker a no-op task", "µs", 1, lower_is_better=True),
        "written": Measure("write-ahead log a task; SQLite: and what is copied from it", "bytes", lower_is_better=True),
        "commits": Measure("commits for 1,000 tasks", "commits", 1, lower_is_better=True),
        "memory": Measure("memory of a busy child, peak", "MB", 1, lower_is_better=True),
        "startup": Measure("process start to first handler", "ms", lower_is_better=True),
    },
    "Applications": {
        "listings": Measure("job finder on an invented web, 2 processes", "listings/s"),
    },
}

MEASURES = {name: measure for theme in THEMES.values() for name, measure in theme.items()}


def of_theme(theme: str) -> Iterator[tuple[str, Measure]]:
    """The measures of a theme, with their names."""
    yield from THEMES[theme].items()
