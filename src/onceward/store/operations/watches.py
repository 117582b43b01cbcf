"""The rules of the engine's own watches. All are cheap on a large database: the last hour, by an index or by ids.

Neither tasks nor refusals have an index by time. Every look stores their newest ids, so later looks know which id stood
at the beginning of the hour; without a look for that long, only the newest rows are read. Of the log, the largest
table, an index holds the few rows that tell of trouble, and nothing else is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from onceward.model import watch
from onceward.model.batch import BatchOutcome
from onceward.model.budget import wait_of
from onceward.model.hourly_usage import DAYS_BACK_MS, HOUR_MS, SPENDING
from onceward.model.watch import MOST_TASKS, Finding
from onceward.model.watch_thresholds import Thresholds
from onceward.store.op import Many, Op, Query
from onceward.store.operations.history_samples import DAY_MS, take_samples
from onceward.store.operations.hourly_usage import total_spending
from onceward.store.rows import as_ids, as_uuid

MOST_ROWS = 100_000
"""How many tasks, and how many refusals, are looked at: the newest of the hour."""
MOST_SUBJECTS = 1_000
MOST_NAMED = 50
"""For how many subjects of a rule the tasks are looked up."""
TASKS, REFUSALS = "ids of tasks", "ids of refusals"
LINE = "line "


class Look(NamedTuple):
    """One look: at what time, at what is normal, and from where on."""

    now: int
    limits: Thresholds
    after_task: int
    after_refusal: int
    samples: dict[str, int]
    """What was counted by this look."""
    log_bytes: int
    """Size of the write-ahead log of SQLite; 0 elsewhere."""

    @property
    def since(self) -> int:
        """The beginning of the time that is looked at."""
        return self.now - self.limits.window_ms


Find = Callable[[Look], Op[list[Finding]]]


def begin_look(now: int, limits: Thresholds, log_bytes: int) -> Op[Look]:
    """Count lines and newest ids, and find the begin of the window."""
    [(task, refusal)] = yield Query("newest_ids")
    lines: dict[str, int] = {}
    for lane, count in (yield Query("count_lines")):
        # What has to pass gates, and suspects, stand in lines of their own; people know the queue and the pipeline.
        line = lane.partition("@")[0].removeprefix("!")
        lines[line] = lines.get(line, 0) + count
    known = yield Query("read_samples", {"since": now - 2 * limits.window_ms, "now": now - limits.window_ms})
    marks = {name: value for name, _, value in known}
    samples = {TASKS: task, REFUSALS: refusal, **{LINE + line: count for line, count in lines.items()}}
    if not (yield Query("samples_named", {"since": now - HOUR_MS, "names": list(SPENDING)})):
        samples |= yield from total_spending()
    samples |= yield from take_samples(now)
    return Look(
        now,
        limits,
        max(marks.get(TASKS, 0), task - MOST_ROWS),
        max(marks.get(REFUSALS, 0), refusal - MOST_ROWS),
        samples,
        log_bytes,
    )


def store_samples(look: Look) -> Op[None]:
    """Store the samples of a look for later looks, and delete old ones."""
    kept_ms = 2 * look.limits.window_ms
    long_kept = {"kept_long": list(SPENDING), "long_before": look.now - max(kept_ms, DAYS_BACK_MS)}
    yield Query(
        "forget_samples",
        {"before": look.now - kept_ms, "after": look.now + kept_ms, "day_before": look.now - DAY_MS, **long_kept},
    )
    yield Many("insert_samples", sorted(look.samples.items()), (look.now,))


def repeats(look: Look) -> Op[list[Finding]]:
    """The same work asked for again and again in one lineage, refused spawns counted."""
    window = {"task": look.after_task, "refusal": look.after_refusal, "since": look.since, "limit": MOST_SUBJECTS}
    by_work = yield Query("watch_repeats", {**window, "most": look.limits.repeats})
    by_key = yield Query("watch_key_repeats", {**window, "most": look.limits.key_repeats})
    facts = []
    for place, (lineage, kind, key, identity, times) in enumerate(by_work):
        whose = {"lineage": as_uuid(lineage), "identity": bytes(identity), "limit": MOST_TASKS}
        tasks = (yield Query("requesters_of_identity", whose)) if place < MOST_NAMED else ()
        facts.append(watch.Repeated(as_uuid(lineage), kind, key, times, [row[0] for row in tasks]))
    told = {fact.lineage for fact in facts}
    new = [row for row in by_key if as_uuid(row[0]) not in told]
    for place, (lineage, key, times) in enumerate(new):
        whose = {"lineage": as_uuid(lineage), "key": key, "refusal": look.after_refusal, "limit": MOST_TASKS}
        tasks = (yield Query("requesters_of_key", whose)) if place < MOST_NAMED else ()
        facts.append(watch.Repeated(as_uuid(lineage), None, key, times, [row[0] for row in tasks]))
    return watch.repeats(facts, look.limits)


def depth(look: Look) -> Op[list[Finding]]:
    """Lineages that grow deep."""
    most = look.limits.depth
    window = {"task": look.after_task, "since": look.since, "rows": MOST_ROWS, "limit": MOST_SUBJECTS}
    rows = yield Query("watch_depth", {**window, "most": most})
    facts = []
    for place, (lineage, deepest) in enumerate(rows):
        whose = {"lineage": as_uuid(lineage), "most": most, "limit": MOST_TASKS}
        tasks = (yield Query("deepest_tasks", whose)) if place < MOST_NAMED else ()
        key = tasks[0][1] if tasks else None
        facts.append(watch.Deep(as_uuid(lineage), deepest, key, [row[0] for row in tasks]))
    return watch.depth(facts, look.limits)


def chain(look: Look) -> Op[list[Finding]]:
    """Chains of ticks that end because they may not go on."""
    return watch.chain((yield from _ticks(look)), look.limits)


def ticks(look: Look) -> Op[list[Finding]]:
    """Ticks that end in an error."""
    return watch.ticks((yield from _ticks(look)), look.limits, look.now)


def _ticks(look: Look) -> Op[list[watch.TickRun]]:
    return [watch.TickRun(*row) for row in (yield Query("watch_ticks", {"since": look.since}))]


def timeouts(look: Look) -> Op[list[Finding]]:
    """Tasks that run out of time."""
    [(count,)] = yield Query("count_timeouts", {"since": look.since})
    tasks: Sequence[Sequence[int]] = ()
    if count > look.limits.timeouts:
        tasks = yield Query("newest_timeouts", {"since": look.since, "limit": MOST_TASKS})
    return watch.timeouts(count, [row[0] for row in tasks], look.limits)


def batches(look: Look) -> Op[list[Finding]]:
    """Batches that fail."""
    rows = yield Query("count_ended_batches", {"since": look.since})
    counts: dict[int, int] = {row[0]: row[1] for row in rows}
    failed = counts.get(int(BatchOutcome.FAILED), 0)
    found = watch.batches(failed, sum(counts.values()), (), look.limits)
    if not found:
        return []
    tasks = yield Query("failures_in_batches", {"since": look.since, "limit": MOST_TASKS})
    return watch.batches(failed, sum(counts.values()), [row[0] for row in tasks], look.limits)


def workers(look: Look) -> Op[list[Finding]]:
    """Workers that are lost."""
    [(bad, ended)] = yield Query("count_ended_workers", {"since": look.since})
    return watch.workers(int(bad), ended, look.limits)


def leases(look: Look) -> Op[list[Finding]]:
    """Leases that are over and were not taken back."""
    before = look.now - look.limits.expired_checks * look.limits.check_ms
    facts = []
    for worker, name, beat_at, lease_ms, low_claim in (yield Query("silent_workers", {"before": before})):
        tasks = yield from _held(worker, low_claim)
        facts.append(watch.Silent(worker, name, look.now - beat_at, lease_ms, tasks))
    return watch.leases(facts, look.limits)


def _held(worker: int, low_claim: int) -> Op[list[int]]:
    """Read the tasks that a worker holds, without a lock."""
    held: list[int] = []
    for token, tasks in (yield Query("claims_of_worker", {"worker": worker, "low_claim": low_claim})):
        rows = yield Query("still_held", {"ids": as_ids(tasks)})
        held += [task for task, now_held_by in rows if bytes(now_held_by) == bytes(token)]
        if len(held) >= MOST_TASKS:
            break
    return sorted(held)


def reclaims(look: Look) -> Op[list[Finding]]:
    """Tasks that lose one worker after the other."""
    rows = yield Query("watch_reclaims", {"since": look.since, "most": look.limits.reclaims, "limit": MOST_SUBJECTS})
    facts = [watch.Reclaimed(task, kind, key, as_uuid(lineage), times) for task, kind, key, lineage, times in rows]
    return watch.reclaims(facts, look.limits)


def sources(_look: Look) -> Op[list[Finding]]:
    """Sources that are disabled."""
    facts = []
    for place, (name, streak, why) in enumerate((yield Query("disabled_gates", {"limit": MOST_SUBJECTS}))):
        tasks = (yield Query("behind_gate", {"gate": name, "limit": MOST_TASKS})) if place < MOST_NAMED else ()
        facts.append(watch.Disabled(name, streak, why, [row[0] for row in tasks]))
    return watch.sources(facts)


def budgets(look: Look) -> Op[list[Finding]]:
    """Budgets that are spent, or nearly."""
    asked = {"now": look.now, "share": float(look.limits.budget_share), "limit": MOST_SUBJECTS}
    facts = []
    for place, (name, scope, unit, ceiling, spent, is_closed) in enumerate((yield Query("high_budgets", asked))):
        wanted = {"waiting_for": wait_of(name, scope), "count": MOST_TASKS}
        tasks = (yield Query("oldest_waiting", wanted)) if place < MOST_NAMED else ()
        facts.append(watch.Spent(name, scope, unit, ceiling, spent, bool(is_closed), [row[0] for row in tasks]))
    return watch.budgets(facts, look.limits)


def backlog(look: Look) -> Op[list[Finding]]:
    """Lines that only grow."""
    counted: dict[int, dict[str, int]] = {}
    for name, at, value in (yield Query("read_samples", {"since": look.since, "now": look.now - 1})):
        counted.setdefault(at, {})[name] = value
    counted[look.now] = look.samples
    samples = {
        name.removeprefix(LINE): [(at, counts.get(name, 0)) for at, counts in counted.items()]  # an empty line has none
        for name in look.samples
        if name.startswith(LINE)
    }
    return watch.backlog(samples, look.limits, look.now)


def parked(_look: Look) -> Op[list[Finding]]:
    """Tasks whose stored data does not fit the code."""
    facts = []
    for place, (kind, count) in enumerate((yield Query("parked_by_kind", {"limit": MOST_SUBJECTS}))):
        tasks = (yield Query("oldest_parked", {"kind": kind, "limit": MOST_TASKS})) if place < MOST_NAMED else ()
        facts.append(watch.Parked(kind, count, [row[0] for row in tasks]))
    return watch.parked(facts)


def snapshots(look: Look) -> Op[list[Finding]]:
    """Snapshots of old states that transactions still hold."""
    asked = {"before": look.now - look.limits.snapshot_ms, "limit": MOST_SUBJECTS}
    rows = yield Query("old_transactions", asked)
    readers = [watch.OldReader(program, process, look.now - since) for program, process, since in rows]
    return watch.snapshots(readers, look.log_bytes, look.limits)


RULES: tuple[tuple[tuple[str, ...], Find], ...] = (
    (("repeats",), repeats),
    (("depth",), depth),
    (("chain",), chain),
    (("ticks",), ticks),
    (("time-outs",), timeouts),
    (("batches",), batches),
    (("workers",), workers),
    (("lease",), leases),
    (("reclaims",), reclaims),
    (("source",), sources),
    (("budget", "budget nearly spent"), budgets),
    (("backlog",), backlog),
    (("code",), parked),
    (("snapshot",), snapshots),
)
"""All rules of the engine: under which names they find something, and how."""
