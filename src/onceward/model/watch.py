"""The rules that look for trouble: from what was counted to what is found. Pure: the numbers and the time are given.

A finding says what is wrong, with whom, and what to do. It becomes an alert, which is stored once while it lasts.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from onceward.model.budget import amount_text
from onceward.model.times import duration_text
from onceward.model.watch_thresholds import Thresholds

MOST_TASKS = 20
"""How many tasks an alert names."""
LONGEST_SUBJECT = 200
LONGEST_KEY = 300
FEWEST_LOOKS = 6
"""How many looks a backlog must have grown through; there are twelve in an hour."""

WATCH_FAILED = "watch failed"
ADVICE: Mapping[str, str] = {
    "repeats": "Look at the lineage: something asks for the same work again and again; fix that stage, or cancel it.",
    "depth": "Look at the lineage: work that spawns work this deep is usually a loop that changes its key.",
    "chain": "Ticks cannot keep up: schedule them more often, give them more time, or raise the chain.",
    "time-outs": "See what these tasks wait for; raise the limit only if they really need longer.",
    "batches": "Read the reasons of the failed batches before more of them are opened.",
    "ticks": "Read the log of the ticks: they end before they have done their work.",
    "workers": "Read the log for how the workers were lost: memory, time limits, or kills from outside.",
    "lease": "No worker takes back what this one holds: see that another worker runs, and that the database is free.",
    "reclaims": "See why the workers that had these tasks were lost; one of the tasks may be the cause.",
    "source": "Find out what is wrong with the source, then enable it again: onceward source NAME --enable.",
    "budget nearly spent": "Raise the budget before it is spent, or let what needs it wait.",
    "budget": "What needs this budget waits: raise it, or wait for its next window.",
    "backlog": "More work comes in than is done: add workers, or look for what holds this line back.",
    "code": "Run workers with code that reads what is stored: onceward why ID says what does not fit.",
    "snapshot": "End the transaction that reads such an old state: until then the database frees no space and grows.",
    WATCH_FAILED: "Correct the watch: as long as it fails, it finds nothing.",
}
"""The rules of the engine, each with what to do about what it finds."""
PRUNING = "pruning"
"""The name under which it is known when old tasks were deleted last. No watch can have it."""
_BY_NAME = frozenset({"source", "budget nearly spent", "budget"})
"""Rules whose subjects are a name of the code and, behind a slash, for whom."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a rule has found: an alert, before it is known whether it is a new one."""

    rule: str
    subject: str
    count: float
    threshold: float
    sentence: str
    advice: str
    lineage: uuid.UUID | None = None
    key: str | None = None
    tasks: tuple[int, ...] = ()


def found(rule: str, subject: str, count: float, threshold: float, sentence: str, **rest: Any) -> Finding:
    """A finding of a rule of the engine, with texts and lists cut to what an alert holds."""
    return Finding(rule, _cut(subject, LONGEST_SUBJECT), count, threshold, sentence, ADVICE[rule], **_fitting(**rest))


def storm_of(rule: str, subject: str) -> str:
    """To what an alert belongs of which there are not to be too many: its rule; of budgets and sources the one that is
    meant, so that those of a thousand lineages do not hide the one of the app."""
    return f"{rule}/{subject.partition('/')[0]}" if rule in _BY_NAME else rule


def _fitting(lineage: uuid.UUID | None = None, key: str | None = None, tasks: Sequence[int] = ()) -> dict[str, Any]:
    return {
        "lineage": lineage,
        "key": None if key is None else _cut(key, LONGEST_KEY),
        "tasks": tuple(dict.fromkeys(tasks))[:MOST_TASKS],
    }


def of_watch(
    name: str, advice: str, above: float, count: float, subject: str = "all", tasks: Sequence[int] = ()
) -> Finding:
    """A finding of a watch of the application."""
    subject = _cut(subject, LONGEST_SUBJECT)
    whose = "" if subject == "all" else f" for {subject}"
    sentence = f"{name}{whose} is {count:g}, above {above:g}"
    return Finding(name, subject, count, above, sentence, advice, **_fitting(tasks=tasks))


def failed_watch(name: str, error: str) -> Finding:
    """A watch, or a rule of the engine, could not be looked at."""
    return found(WATCH_FAILED, name, 1, 0, f"the watch {name!r} failed: {_cut(error, LONGEST_KEY)}")


class Repeated(NamedTuple):
    """Work that was asked for several times in a lineage: of one pipeline, or of any if there is no kind."""

    lineage: uuid.UUID
    kind: str | None
    key: str | None
    times: int
    tasks: Sequence[int]


def repeats(facts: Sequence[Repeated], limits: Thresholds) -> list[Finding]:
    """The same pipeline and key, or the same key, too often in a lineage; a lineage is told of once, for its worst."""
    worst: dict[uuid.UUID, Repeated] = {}
    for one in sorted(facts, key=lambda fact: (fact.kind is None, -fact.times)):
        if one.times > (limits.key_repeats if one.kind is None else limits.repeats):
            worst.setdefault(one.lineage, one)
    return [
        found(
            "repeats",
            str(one.lineage),
            one.times,
            limits.key_repeats if one.kind is None else limits.repeats,
            f"{_work(one)} was asked for {one.times:,} times in one lineage within {limits.span}, refusals counted",
            lineage=one.lineage,
            key=one.key,
            tasks=one.tasks,
        )
        for one in worst.values()
    ]


def _work(one: Repeated) -> str:
    what = "the same payload" if one.key is None else repr(_cut(one.key, 100))
    return f"{what} of any pipeline" if one.kind is None else f"{one.kind} {what}"


class Deep(NamedTuple):
    """A lineage that has grown deep."""

    lineage: uuid.UUID
    depth: int
    key: str | None
    tasks: Sequence[int]


def depth(facts: Sequence[Deep], limits: Thresholds) -> list[Finding]:
    """Tasks deeper than they should be."""
    return [
        found(
            "depth",
            str(one.lineage),
            one.depth,
            limits.depth,
            f"a lineage has grown {one.depth} deep within {limits.span}",
            lineage=one.lineage,
            key=one.key,
            tasks=one.tasks,
        )
        for one in facts
        if one.depth > limits.depth
    ]


class TickRun(NamedTuple):
    """A tick of the last hour."""

    chain: int
    started_at: int
    ended_at: int | None
    how: str | None


def _went_wrong(tick: TickRun, limits: Thresholds, now: int) -> bool:
    if tick.ended_at is None:
        return now - tick.started_at > limits.tick_ms
    return (tick.how or "").startswith("error")


def chain(ticks: Sequence[TickRun], limits: Thresholds) -> list[Finding]:
    """The chain limit reached in too many cycles. A cycle is a scheduled tick and those it has triggered."""
    cycles = sum(tick.chain == 0 for tick in ticks)
    reached = sum(tick.chain == limits.chain for tick in ticks)
    if limits.chain < 1 or len(ticks) < limits.samples or not cycles or reached / cycles <= limits.chain_share:
        return []
    sentence = (
        f"{reached:,} of {cycles:,} scheduled ticks have triggered all {limits.chain} others "
        f"that they may, within {limits.span}"
    )
    return [found("chain", "ticks", reached / cycles, limits.chain_share, sentence)]


def ticks(ticks: Sequence[TickRun], limits: Thresholds, now: int) -> list[Finding]:
    """Too many ticks that ended in an error, or never said how they ended."""
    bad = sum(_went_wrong(tick, limits, now) for tick in ticks)
    return _too_large_a_share("ticks", "ticks", bad, len(ticks), limits.error_share, "ended in an error", limits)


def workers(bad: int, ended: int, limits: Thresholds) -> list[Finding]:
    """Too many worker processes that did not end in good order."""
    what = "did not end in good order"
    return _too_large_a_share("workers", "workers", bad, ended, limits.error_share, what, limits)


def batches(failed: int, ended: int, tasks: Sequence[int], limits: Thresholds) -> list[Finding]:
    """Too many failed batches."""
    return _too_large_a_share("batches", "batches", failed, ended, limits.batch_share, "failed", limits, tasks)


def _too_large_a_share(
    rule: str,
    what: str,
    bad: int,
    ended: int,
    most: float,
    verb: str,
    limits: Thresholds,
    tasks: Sequence[int] = (),
) -> list[Finding]:
    if ended < limits.samples or bad / ended <= most:
        return []
    sentence = f"{bad:,} of {ended:,} {what} {verb} within {limits.span}: {bad / ended:.0%}, normal is up to {most:.0%}"
    return [found(rule, what, bad / ended, most, sentence, tasks=tasks)]


def timeouts(count: int, tasks: Sequence[int], limits: Thresholds) -> list[Finding]:
    """Too many tasks that ran out of time."""
    if count <= limits.timeouts or count < limits.samples:
        return []
    sentence = f"{count:,} tasks ran out of time within {limits.span}"
    return [found("time-outs", "tasks", count, limits.timeouts, sentence, tasks=tasks)]


class Silent(NamedTuple):
    """A worker that is counted among the living and has not renewed its leases."""

    worker: int
    name: str
    silent_ms: int
    lease_ms: int
    tasks: Sequence[int]


def leases(facts: Sequence[Silent], limits: Thresholds) -> list[Finding]:
    """Leases that are over, and that were not taken back for more checks than it should need."""
    return [
        found(
            "lease",
            f"{one.name} ({one.worker})",
            (one.silent_ms - one.lease_ms) // limits.check_ms,
            limits.expired_checks,
            f"the lease of worker {one.name} is over since {duration_text(one.silent_ms - one.lease_ms)}, "
            "and its tasks were not taken back",
            tasks=one.tasks,
        )
        for one in facts
        if one.silent_ms - one.lease_ms > limits.expired_checks * limits.check_ms
    ]


class Reclaimed(NamedTuple):
    """A task that was taken back from lost workers, the last time within the window."""

    task: int
    kind: str
    key: str | None
    lineage: uuid.UUID
    times: int


def reclaims(facts: Sequence[Reclaimed], limits: Thresholds) -> list[Finding]:
    """Tasks that were taken back again and again; a pipeline is told of once, for its worst."""
    by_kind: dict[str, list[Reclaimed]] = {}
    for one in sorted(facts, key=lambda fact: (-fact.times, fact.task)):
        if one.times >= limits.reclaims:
            by_kind.setdefault(one.kind, []).append(one)
    return [
        found(
            "reclaims",
            kind,
            those[0].times,
            limits.reclaims,
            f"{_tasks(len(those), kind)} taken back from lost workers up to {those[0].times} times",
            lineage=those[0].lineage,
            key=those[0].key,
            tasks=[one.task for one in those],
        )
        for kind, those in by_kind.items()
    ]


def _tasks(count: int, kind: str) -> str:
    return f"1 task of {kind} was" if count == 1 else f"{count:,} tasks of {kind} were"


class Disabled(NamedTuple):
    """A source, or an instance of one, that no task may use until an operator says so."""

    name: str
    streak: int
    why: str | None
    tasks: Sequence[int]


def sources(facts: Sequence[Disabled]) -> list[Finding]:
    """Disabled sources."""
    return [
        found(
            "source",
            one.name,
            one.streak,
            0,
            f"source {one.name} is disabled" + (f": {_cut(one.why, LONGEST_KEY)}" if one.why else ""),
            tasks=one.tasks,
        )
        for one in facts
    ]


class Spent(NamedTuple):
    """A budget for one scope in its present window: its ceiling, and what is spent or set aside."""

    name: str
    scope: str
    unit: str
    ceiling: int
    spent: int
    is_closed: bool
    tasks: Sequence[int]
    """Some of those that wait for it."""


def budgets(facts: Sequence[Spent], limits: Thresholds) -> list[Finding]:
    """Budgets that are nearly spent, and those that are; each is told of under one of the two rules."""
    made = []
    for one in facts:
        share = one.spent / one.ceiling if one.ceiling else 1.0
        if not one.spent or (share < limits.budget_share and not one.is_closed):
            continue
        is_spent = share >= 1 or one.is_closed
        whose = f"{one.name}/{one.scope}" if one.scope else one.name
        amounts = f"{amount_text(one.spent, one.unit)} of {amount_text(one.ceiling, one.unit)} spent or set aside"
        closed = ", and closed by a charge above its estimate" if one.is_closed else ""
        made.append(
            found(
                "budget" if is_spent else "budget nearly spent",
                whose,
                share,
                1.0 if is_spent else limits.budget_share,
                f"budget {whose} is at {share:.0%}: {amounts}{closed}",
                lineage=_as_lineage(one.scope),
                tasks=one.tasks,
            )
        )
    return made


def _as_lineage(scope: str) -> uuid.UUID | None:
    """The lineage for which a budget is, if it is for one."""
    try:
        return uuid.UUID(scope)
    except ValueError:
        return None


def backlog(samples: Mapping[str, Sequence[tuple[int, int]]], limits: Thresholds, now: int) -> list[Finding]:
    """Lines that have grown from look to look for the whole window: (when, how many) for each of them."""
    made = []
    for line, counted in sorted(samples.items()):
        seen = sorted((at, count) for at, count in counted if now - limits.window_ms <= at <= now)
        is_covered = bool(seen) and 2 * (seen[0][0] - now + limits.window_ms) <= 3 * limits.every_ms
        if len(seen) < FEWEST_LOOKS or not is_covered:
            continue
        counts = [count for _, count in seen]
        never_less = all(before <= after for before, after in pairwise(counts))
        if never_less and counts[-1] > counts[0] and counts[-1] >= limits.samples:
            sentence = f"the backlog of {line} only grows: from {counts[0]:,} to {counts[-1]:,} within {limits.span}"
            made.append(found("backlog", line, counts[-1], counts[0], sentence))
    return made


class Parked(NamedTuple):
    """Tasks of a pipeline whose stored data does not fit the code that has tried them."""

    kind: str
    number: int
    tasks: Sequence[int]


def parked(facts: Sequence[Parked]) -> list[Finding]:
    """Pipelines of which tasks wait for other code."""
    return [
        found(
            "code",
            one.kind,
            one.number,
            0,
            f"{_tasks(one.number, one.kind)} parked: their stored data does not fit the code",
            tasks=one.tasks,
        )
        for one in facts
    ]


class OldReader(NamedTuple):
    """A transaction of PostgreSQL that keeps the database from throwing away what is old."""

    program: str
    process: int
    age_ms: int


def snapshots(readers: Sequence[OldReader], log_bytes: int, limits: Thresholds) -> list[Finding]:
    """Old states of the database that a transaction still reads: by their age, or on SQLite by what has piled up."""
    made = []
    for reader in readers:
        sentence = (
            f"process {reader.process} of the server ({reader.program}) has had a transaction open for "
            f"{duration_text(reader.age_ms)}: nothing that was deleted or changed since then can be thrown away"
        )
        minutes = reader.age_ms / 60_000, limits.snapshot_ms / 60_000
        made.append(found("snapshot", f"process {reader.process}", *minutes, sentence))
    if log_bytes > limits.log_bytes:
        size = f"{log_bytes / 2**20:,.0f} MB"
        sentence = (
            f"the log of the database has grown to {size}: a transaction still reads a state older than all of it"
        )
        made.append(found("snapshot", "log", log_bytes, limits.log_bytes, sentence))
    return made


def _cut(text: str, most: int) -> str:
    """A text as any database takes it: not too long, no half characters, and no NUL."""
    whole = text[:most].encode(errors="replace").decode().replace("\x00", "?")
    return whole if len(text) <= most else f"{whole[:-1]}…"
