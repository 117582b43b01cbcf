"""Reads lineages for people: the tree of a lineage or a part, lists of lineages, and the tasks of one identity.

It takes a fixed number of queries, whatever the size of a lineage.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from onceward.errors import LineageNotFound, TaskNotFound
from onceward.model.lineage import ANCESTOR_SIZE
from onceward.model.status import Status
from onceward.model.task import NEVER
from onceward.store.lineage.same_work import find_same_work
from onceward.store.op import Op, Query, Row, Rows
from onceward.store.rows import as_uuid

REFUSALS_SHOWN = 10_000
"""How many refusals of a lineage are read; there is a count of them all."""

_NUMBER = struct.Struct(">q")


class Head(NamedTuple):
    """Where a part of a lineage begins; the part is a task and all that descend from it."""

    lineage: uuid.UUID
    task: int
    depth: int
    whole: bool
    """Whether everything of the lineage is meant."""

    @property
    def params(self) -> dict[str, Any]:
        """What a query needs to find that part."""
        return {
            "lineage": self.lineage,
            "task": self.task,
            "whole": int(self.whole),
            "offset": self.depth * ANCESTOR_SIZE + 1,
            "mark": _NUMBER.pack(self.task),
        }

    @property
    def name(self) -> str:
        """What a person would call it."""
        return f"lineage {self.lineage}" if self.whole else f"task {self.task} and what descends from it"


def head_of(wanted: int | uuid.UUID, *, whole: bool = False) -> Op[Head]:
    """Resolve a task or a lineage id to a part of a lineage: the task with its descendants, or all."""
    if isinstance(wanted, uuid.UUID):
        rows = yield Query("head_by_lineage", {"lineage": wanted})
        if not rows:
            raise LineageNotFound(wanted)
        return Head(as_uuid(rows[0][0]), rows[0][1], rows[0][2], whole=True)
    rows = yield Query("head_by_task", {"task": wanted})
    if not rows:
        raise TaskNotFound(wanted)
    [(lineage, task, depth)] = rows
    if whole and depth:
        return (yield from head_of(as_uuid(lineage)))
    return Head(as_uuid(lineage), task, depth, whole=depth == 0)


class TreeRow(msgspec.Struct, frozen=True, gc=False):
    """A task in its lineage."""

    id: int
    parent: int | None
    depth: int
    kind: str
    key: str
    """Its own key, or its fields; the first thousand letters of them."""
    status: Status
    stage: str | None
    attempts: int
    failures: int
    reason: str | None
    waiting_for: str | None
    paused: bool
    refusals: int
    due_at: int
    created_at: int
    ended_at: int | None
    cost: int = 0


class RefusalRow(msgspec.Struct, frozen=True, gc=False):
    """A spawn that was refused."""

    lineage: uuid.UUID
    parent: int
    stage: str
    kind: str
    key: str | None
    rule: str
    reason: str
    ancestor: int | None
    existing: int | None
    at: int


class LinkRow(msgspec.Struct, frozen=True, gc=False):
    """A task that another one was linked to instead of making it."""

    parent: int
    task: int
    stage: str
    lineage: uuid.UUID
    kind: str
    key: str | None
    status: Status


class LimitsRow(msgspec.Struct, frozen=True, gc=False):
    """The limits of a lineage, and how many tasks were counted against them."""

    max_depth: int
    max_children: int
    max_tasks: int
    deadline_at: int
    tasks: int
    created_at: int


class Counts(msgspec.Struct, frozen=True, gc=False):
    """Numbers of tasks by status, and sums over them."""

    by_status: dict[Status, int]
    deepest: int = 0
    refusals: int = 0
    paused: int = 0
    cost: int = 0

    @property
    def tasks(self) -> int:
        """How many there are."""
        return sum(self.by_status.values())


class Tree(msgspec.Struct, frozen=True, gc=False):
    """A lineage or a part of it, the oldest tasks first."""

    head: Head
    tasks: list[TreeRow]
    refusals: list[RefusalRow]
    links: list[LinkRow]
    limits: LimitsRow | None
    """None as long as its root has neither spawned nor been given limits."""
    own_limits: bytes | None
    counts: Counts


def read_tree(wanted: int | uuid.UUID, *, subtree: bool, limit: int) -> Op[Tree]:
    """The lineage of a task, or the part that begins with it; at most `limit` tasks, the oldest."""
    head = yield from head_of(wanted, whole=not subtree)
    rows = yield Query("report_subtree", {**head.params, "limit": limit})
    tasks = [_as_tree_row(row) for row in rows]
    ids = [task.id for task in tasks]
    refusing = [task.id for task in tasks if task.refusals]
    refusals: Rows = []
    if refusing:
        refusals = yield Query("refusals_of_tasks", {"ids": refusing, "limit": REFUSALS_SHOWN})
    links = yield Query("links_of_tasks", {"ids": ids})
    found = yield Query("read_lineage", {"lineage": head.lineage})
    own = yield Query("limits_of_head", {"task": head.task})
    counted = yield Query("count_subtree", head.params)
    return Tree(
        head,
        tasks,
        [_as_refusal(row) for row in refusals],
        [
            LinkRow(parent, child, stage, as_uuid(lineage), kind, key, Status(status))
            for parent, child, stage, lineage, kind, key, status in links
        ],
        LimitsRow(*found[0]) if found else None,
        bytes(own[0][0]) if own and own[0][0] is not None else None,
        as_counts(counted),
    )


class LineageRow(msgspec.Struct, frozen=True, gc=False):
    """A lineage in a list."""

    id: uuid.UUID
    root: int
    kind: str
    key: str
    status: Status
    paused: bool
    tasks: int
    max_tasks: int
    deadline_at: int
    created_at: int
    counts: Counts


def read_lineages(*, limit: int, largest: bool) -> Op[list[LineageRow]]:
    """Read the newest or the largest lineages. Only those whose root has spawned or has limits are listed."""
    rows = yield Query("largest_lineages" if largest else "newest_lineages", {"limit": limit})
    counted: dict[int, list[Row]] = {}
    if rows:
        for root, *count in (yield Query("count_lineages", {"ids": sorted(row[1] for row in rows)})):
            counted.setdefault(root, []).append(count)
    return [
        LineageRow(
            as_uuid(lineage), root, kind, shown_key(key, fields), Status(status), bool(paused), tasks, max_tasks,
            deadline_at, created_at, as_counts(counted.get(root, [])),
        )
        for lineage, root, kind, key, fields, status, paused, tasks, max_tasks, deadline_at, created_at in rows
    ]  # fmt: skip


def find_work(
    identity: bytes, lineage: uuid.UUID | None, limit: int, *, own_key: bool
) -> Op[tuple[list[int], list[RefusalRow]]]:
    """The tasks that are this work, newest first, and the refusals of it: in one lineage, or everywhere."""
    found = yield from find_same_work(identity, lineage, own_key=own_key, fields=not own_key, before=NEVER, limit=limit)
    also = yield Query("find_by_alias", {"identity": identity, "lineage": lineage, "limit": limit})
    refusals = yield Query("refusals_of_identity", {"identity": identity, "lineage": lineage, "limit": limit})
    tasks = {*found, *(row[0] for row in also)}
    return sorted(tasks, reverse=True)[:limit], [_as_refusal(row) for row in refusals]


def _as_tree_row(row: Row) -> TreeRow:
    (task, parent, depth, kind, key, fields, status, stage, fence, failures, reason, waiting_for, paused, refusals,
     due_at, created_at, ended_at, cost) = row  # fmt: skip
    return TreeRow(
        task, parent, depth, kind, shown_key(key, fields), Status(status), stage, fence, failures, reason, waiting_for,
        bool(paused), refusals, due_at, created_at, ended_at, cost,
    )  # fmt: skip


def _as_refusal(row: Row) -> RefusalRow:
    return RefusalRow(as_uuid(row[0]), *row[1:])


def as_counts(rows: Sequence[Row]) -> Counts:
    """From rows of status, count, deepest, refusals, paused, cost."""
    statuses, counts, deepest, refusals, paused, costs = zip(*rows, strict=True) if rows else ((),) * 6
    return Counts(
        dict(sorted(zip(map(Status, statuses), counts, strict=True))),
        max(deepest, default=0),
        sum(map(int, refusals)),
        sum(map(int, paused)),
        sum(map(int, costs)),
    )


def shown_key(key: str | None, fields: bytes | None) -> str:
    return key if key is not None else bytes(fields or b"").decode(errors="ignore")
