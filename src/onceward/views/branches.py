"""Lineages as pages draw them: every task with the figures of its branch, and what was refused in it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from onceward.model.budget import Account, read_amount
from onceward.model.lineage import Bounds
from onceward.model.status import Status
from onceward.model.times import moment
from onceward.store.lineage import branches as rows
from onceward.store.lineage.trees import LineageRow
from onceward.views.lineage import LineageSummary, Link, Refusal, as_refusal, as_summary, limits_to_come


@dataclass(slots=True, eq=False)
class TreeTask:
    """A task in the tree of its lineage, with the figures of its branch: of itself and all that descends from it."""

    id: int
    parent: int | None
    depth: int
    kind: str
    status: Status
    is_paused: bool
    is_parked: bool
    """Whether it waits for an operator's approval."""
    refusals: int
    """How many spawns of its own were refused."""
    began_at: int
    """When it was made, in milliseconds; `ends_at` is when the last task of its branch ended, or now."""
    ends_at: int
    cost: int
    """What its branch has charged, in 10^-9 USD."""
    tasks: int = 1
    open: int = 0
    failed: int = 0
    parked: int = 0
    refused: int = 0
    """How many spawns were refused in its branch."""
    children: list[TreeTask] = field(default_factory=list)

    @property
    def length_ms(self) -> int:
        """From its enqueue to the last end in its branch."""
        return max(0, self.ends_at - self.began_at)

    def walk(self) -> Iterator[TreeTask]:
        """This task and all below it, each after its parent."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.children))


@dataclass(frozen=True, slots=True)
class RefusedSpawns:
    """Spawns that one rule has refused, of one kind, with an example."""

    rule: str
    """Empty for those of which only the number is kept."""
    kind: str
    times: int
    parent: int
    """One of the tasks that asked: the one that was refused most."""
    key: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class LineageBudget:
    """What a lineage may spend, and has."""

    name: str
    unit: str
    limit: Decimal
    spent: Decimal
    reserved: Decimal
    left: Decimal
    is_closed: bool


@dataclass(frozen=True, slots=True)
class LineageTree:
    """A lineage, or the part of it that begins with one task: as many of its tasks as are read, the oldest."""

    id: uuid.UUID
    is_whole: bool
    """Whether it is the whole lineage, not a part."""
    roots: tuple[TreeTask, ...]
    tasks: Mapping[int, TreeTask]
    counts: dict[Status, int]
    """By status, of those that were read."""
    left_out: int
    """How many tasks were counted and not read: pruned, or beyond the most that is read."""
    tasks_counted: int
    max_tasks: int
    max_depth: int
    max_children: int
    deepest: int
    created_at: datetime
    deadline_at: datetime
    refused: tuple[RefusedSpawns, ...]
    """By rule and kind, most frequent first."""
    refused_of: Mapping[int, Mapping[str, int]]
    """By task and rule, as far as they are kept."""
    budget: LineageBudget | None

    @property
    def root(self) -> TreeTask:
        """Where it begins."""
        return self.roots[0]

    @property
    def open(self) -> int:
        """How many tasks have not ended."""
        return sum(count for status, count in self.counts.items() if not status.is_terminal)

    @property
    def refusals(self) -> int:
        """How many spawns were refused."""
        return sum(root.refused for root in self.roots)

    @property
    def parked(self) -> int:
        """How many tasks wait for an operator's approval."""
        return sum(root.parked for root in self.roots)


@dataclass(frozen=True, slots=True)
class DrawnTask:
    """The rest of a task that is drawn."""

    key: str
    stage: str | None
    attempts: int
    failures: int
    reason: str | None
    waiting_for: str | None


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is to be known of the tasks that are drawn."""

    tasks: Mapping[int, DrawnTask]
    refusals: Mapping[int, tuple[Refusal, ...]]
    """The first refusals of each."""
    links: Mapping[int, tuple[Link, ...]]


@dataclass(frozen=True, slots=True)
class ListedLineage:
    """A lineage in a list; where `is_counted` is false it is so large that its tasks were not counted by status."""

    summary: LineageSummary
    is_counted: bool


def as_tree(found: rows.BranchRows, defaults: Bounds, now: int) -> LineageTree:
    """Return a lineage with the figures of every branch, from its rows: one pass down, one pass up."""
    tasks: dict[int, TreeTask] = {}
    roots: list[TreeTask] = []
    counts: dict[Status, int] = {}
    for row in found.tasks:
        task = _as_task(row, now)
        tasks[row.id] = task
        counts[task.status] = counts.get(task.status, 0) + 1
        above = None if row.parent is None else tasks.get(row.parent)
        (roots if above is None else above.children).append(task)
    for task in reversed(tasks.values()):
        above = None if task.parent is None else tasks.get(task.parent)
        if above is not None:
            above.tasks += task.tasks
            above.open += task.open
            above.failed += task.failed
            above.parked += task.parked
            above.refused += task.refused
            above.cost += task.cost
            above.ends_at = max(above.ends_at, task.ends_at)
    limits = found.limits or limits_to_come(found.own_limits, defaults, found.tasks[0].created_at)
    return LineageTree(
        found.head.lineage, found.head.whole, tuple(roots), tasks, dict(sorted(counts.items())),
        max(0, limits.tasks - len(tasks)) if found.head.whole else 0, limits.tasks, limits.max_tasks,
        limits.max_depth, limits.max_children, max(task.depth for task in tasks.values()),
        moment(found.tasks[0].created_at), moment(limits.deadline_at),
        _refused(found, sum(one.refused for one in roots)), _by_task(found.refused), _budget(found.budget),
    )  # fmt: skip


_STATUSES = {int(status): (status, not status.is_terminal) for status in Status}
"""Looked up instead of made: a large lineage has ten thousand of them."""


def _as_task(row: rows.BranchRow, now: int) -> TreeTask:
    status, is_open = _STATUSES[row.status]
    return TreeTask(
        row.id, row.parent, row.depth, row.kind, status, bool(row.paused), bool(row.parked), row.refusals,
        row.created_at, row.ended_at if row.ended_at is not None else now, row.cost, 1, int(is_open),
        int(status is Status.FAILED), int(row.parked), row.refusals,
    )  # fmt: skip


def _refused(found: rows.BranchRows, total: int) -> tuple[RefusedSpawns, ...]:
    times: dict[tuple[str, str], int] = {}
    examples: dict[tuple[str, str], rows.RefusedRow] = {}
    for row in found.refused:
        what = row.rule, row.kind
        times[what] = times.get(what, 0) + row.times
        if what not in examples or examples[what].times < row.times:
            examples[what] = row
    listed = [
        RefusedSpawns(rule, kind, count, example.parent, example.key, example.reason)
        for (rule, kind), count in times.items()
        for example in [examples[rule, kind]]
    ]
    listed.sort(key=lambda one: (-one.times, one.rule, one.kind))
    unknown = total - sum(times.values())
    if unknown > 0:
        most = max(found.tasks, key=lambda task: task.refusals)
        listed.append(RefusedSpawns("", "", unknown, most.id, None, "of these only the number is kept"))
    return tuple(listed)


def _by_task(refused: list[rows.RefusedRow]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    for row in refused:
        of_task = found.setdefault(row.parent, {})
        of_task[row.rule] = of_task.get(row.rule, 0) + row.times
    return found


def _budget(accounts: list[Account]) -> LineageBudget | None:
    if not accounts:
        return None
    one = accounts[0]
    limit, spent, reserved = read_amount(one.ceiling), read_amount(one.spent), read_amount(one.reserved)
    return LineageBudget(one.name, one.unit, limit, spent, reserved, read_amount(one.left), bool(one.is_closed))


def as_drawn(found: rows.DrawnRows) -> Drawn:
    """Return what is to be known of the drawn tasks, from their rows."""
    refusals: dict[int, list[Refusal]] = {}
    for row in found.refusals:
        refusals.setdefault(row.parent, []).append(as_refusal(row))
    links: dict[int, list[Link]] = {}
    for one in found.links:
        link = Link(one.task, one.stage, one.lineage, one.kind, one.key, one.status)
        links.setdefault(one.parent, []).append(link)
    return Drawn(
        {number: DrawnTask(*row[1:]) for number, row in found.tasks.items()},
        {parent: tuple(some) for parent, some in refusals.items()},
        {parent: tuple(some) for parent, some in links.items()},
    )


def as_listed(found: tuple[LineageRow, bool]) -> ListedLineage:
    """Return a lineage in a list, from its row."""
    return ListedLineage(as_summary(found[0]), found[1])
