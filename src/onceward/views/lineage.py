"""Lineages as people and programs look at them: trees of tasks with their refusals, and lists of lineages."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import msgspec

from onceward.errors import ConfigError
from onceward.model import arguments
from onceward.model.budget import read_amount
from onceward.model.lineage import Bounds, Rule
from onceward.model.status import Status
from onceward.model.times import moment
from onceward.store.lineage import trees as rows
from onceward.views.task import Task

LineageId = int | str | uuid.UUID
"""The number of a task, or the id of a lineage; either may be text."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A child that a stage asked for and did not get."""

    lineage: uuid.UUID
    parent: int
    """The task that asked."""
    stage: str
    kind: str
    key: str | None
    rule: Rule
    reason: str
    ancestor: int | None
    """The ancestor that is the same work, if that is why."""
    existing: int | None
    """The task that is the same work, if that is why."""
    at: datetime


@dataclass(frozen=True, slots=True)
class Link:
    """A task that was there already when a stage asked for it."""

    task: int
    stage: str
    lineage: uuid.UUID
    kind: str
    key: str | None
    status: Status


@dataclass(frozen=True, slots=True)
class Branch:
    """A task in its lineage, with what descends from it."""

    id: int
    parent: int | None
    depth: int
    kind: str
    key: str
    """Its own key, or its fields; the first thousand letters of it."""
    status: Status
    stage: str | None
    attempts: int
    """How often a worker has taken it."""
    failures: int
    """Failed attempts of its present stage."""
    reason: str | None
    waiting_for: str | None
    is_paused: bool
    due_at: datetime | None
    created_at: datetime
    ended_at: datetime | None
    refusals: tuple[Refusal, ...]
    refusals_only_counted: int
    """How many more children it was refused, of which nothing else is kept."""
    links: tuple[Link, ...]
    children: tuple[Branch, ...]
    cost: Decimal = Decimal(0)
    """What its stages have charged, in USD."""

    def walk(self) -> Iterator[Branch]:
        """This task and all below it, each after its parent."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Lineage:
    """A lineage, or the part of it that begins with one task, at one moment."""

    id: uuid.UUID
    roots: tuple[Branch, ...]
    """Its root; where that is gone, the oldest that are left."""
    is_whole: bool
    """Whether it is the whole lineage, not a part."""
    counts: dict[Status, int]
    """How many of its tasks stand where; a status in which none stands is left out."""
    deepest: int
    refusals: int
    paused: int
    """How many of its tasks carry the mark of a pause."""
    tasks_counted: int
    """How many tasks were counted against `max_tasks`, also those that have been pruned."""
    max_tasks: int
    max_depth: int
    max_children: int
    deadline_at: datetime
    left_out: int
    """How many tasks are there besides those in the tree."""
    cost: Decimal = Decimal(0)
    """What all of it has charged, in USD."""

    @property
    def root(self) -> Branch:
        """Where it begins."""
        return self.roots[0]

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return sum(self.counts.values())

    @property
    def is_paused(self) -> bool:
        """Whether all of it is paused."""
        return self.root.is_paused

    def walk(self) -> Iterator[Branch]:
        """All tasks of the tree, each after its parent."""
        for root in self.roots:
            yield from root.walk()


@dataclass(frozen=True, slots=True)
class LineageSummary:
    """A lineage in a list."""

    id: uuid.UUID
    root: int
    kind: str
    key: str
    status: Status
    """That of its root."""
    counts: dict[Status, int]
    tasks_counted: int
    max_tasks: int
    deepest: int
    refusals: int
    is_paused: bool
    deadline_at: datetime
    created_at: datetime
    cost: Decimal = Decimal(0)
    """What its tasks have charged, in USD."""


@dataclass(frozen=True, slots=True)
class Found:
    """Where a piece of work is to be found: its tasks and its refusals, newest first. Truthy if it has a task."""

    tasks: tuple[Task, ...]
    refusals: tuple[Refusal, ...]

    def __bool__(self) -> bool:
        return bool(self.tasks)

    @property
    def active(self) -> Task | None:
        """The newest task of it that has not ended."""
        return next((task for task in self.tasks if not task.status.is_terminal), None)

    @property
    def done(self) -> Task | None:
        """The newest task of it that has ended and was not cancelled."""
        return next((one for one in self.tasks if one.status.is_terminal and one.status is not Status.CANCELLED), None)

    @property
    def is_refused(self) -> bool:
        """Whether it was refused, and no task of it is there."""
        return bool(self.refusals) and not self.tasks


def as_id(wanted: LineageId) -> int | uuid.UUID:
    """The number of a task or the id of a lineage, whichever is meant."""
    if isinstance(wanted, uuid.UUID):
        return wanted
    if not isinstance(wanted, str):
        return arguments.task_number(wanted)
    text = wanted.strip()
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    try:
        return uuid.UUID(text)
    except ValueError:
        raise ConfigError(
            f"{arguments.shown(wanted)} is neither the number of a task nor the id of a lineage"
        ) from None


def as_lineage_id(wanted: str | uuid.UUID) -> uuid.UUID:
    """The id of a lineage."""
    found = as_id(wanted)
    if not isinstance(found, uuid.UUID):
        raise ConfigError(f"{arguments.shown(wanted)} is not the id of a lineage, which looks like {uuid.UUID(int=0)}")
    return found


def as_lineage(tree: rows.Tree, defaults: Bounds) -> Lineage:
    """A lineage, from its rows."""
    refusals: dict[int, list[Refusal]] = {}
    for row in tree.refusals:
        refusals.setdefault(row.parent, []).append(as_refusal(row))
    links: dict[int, list[Link]] = {}
    for link in tree.links:
        one = Link(link.task, link.stage, link.lineage, link.kind, link.key, link.status)
        links.setdefault(link.parent, []).append(one)
    present = {task.id for task in tree.tasks}
    below: dict[int | None, list[rows.TreeRow]] = {}
    for task in tree.tasks:
        below.setdefault(task.parent if task.parent in present else None, []).append(task)

    def branch(task: rows.TreeRow) -> Branch:
        kept = tuple(refusals.get(task.id, ()))
        return Branch(
            task.id, task.parent, task.depth, task.kind, task.key, task.status, task.stage, task.attempts,
            task.failures, task.reason, task.waiting_for, task.paused,
            moment(task.due_at) if task.status in (Status.PENDING, Status.RETRYABLE) else None,
            moment(task.created_at), None if task.ended_at is None else moment(task.ended_at),
            kept, max(0, task.refusals - len(kept)), tuple(links.get(task.id, ())),
            tuple(branch(child) for child in below.get(task.id, ())), read_amount(task.cost),
        )  # fmt: skip

    roots = tuple(branch(task) for task in below[None])
    limits = tree.limits or limits_to_come(tree.own_limits, defaults, tree.tasks[0].created_at)
    return Lineage(
        id=tree.head.lineage,
        roots=roots,
        is_whole=tree.head.whole,
        counts=tree.counts.by_status,
        deepest=tree.counts.deepest,
        refusals=tree.counts.refusals,
        paused=tree.counts.paused,
        tasks_counted=limits.tasks,
        max_tasks=limits.max_tasks,
        max_depth=limits.max_depth,
        max_children=limits.max_children,
        deadline_at=moment(limits.deadline_at),
        left_out=tree.counts.tasks - len(tree.tasks),
        cost=read_amount(tree.counts.cost),
    )


def limits_to_come(own_limits: bytes | None, defaults: Bounds, created_at: int) -> rows.LimitsRow:
    """Return the limits that a lineage gets when its root first spawns."""
    bounds = defaults if own_limits is None else msgspec.json.decode(own_limits, type=Bounds)
    deadline_at = created_at + bounds.deadline_ms
    return rows.LimitsRow(bounds.max_depth, bounds.max_children, bounds.max_tasks, deadline_at, 1, created_at)


def as_refusal(row: rows.RefusalRow) -> Refusal:
    """A refusal, from its row."""
    return Refusal(
        row.lineage, row.parent, row.stage, row.kind, row.key, Rule(row.rule), row.reason, row.ancestor, row.existing,
        moment(row.at),
    )  # fmt: skip


def as_summary(row: rows.LineageRow) -> LineageSummary:
    """A lineage in a list, from its row."""
    return LineageSummary(
        row.id, row.root, row.kind, row.key, row.status, row.counts.by_status, row.tasks, row.max_tasks,
        row.counts.deepest, row.counts.refusals, row.paused, moment(row.deadline_at), moment(row.created_at),
        read_amount(row.counts.cost),
    )  # fmt: skip
