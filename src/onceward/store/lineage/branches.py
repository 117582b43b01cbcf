"""Reads lineages for pages: every task of one in a few columns, and the rest for the tasks that are drawn.

What is read is bounded, however large a lineage is: so many tasks, the oldest, and so many tasks that were refused
spawns.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

from onceward.errors import LineageNotFound
from onceward.model.budget import Account
from onceward.model.status import Status
from onceward.model.task import NEVER
from onceward.store.lineage.trees import (
    Counts,
    Head,
    LimitsRow,
    LineageRow,
    LinkRow,
    RefusalRow,
    as_counts,
    head_of,
    shown_key,
)
from onceward.store.op import Op, Query, Row
from onceward.store.rows import as_uuid

MOST_TASKS = 20_000
"""How many tasks of a lineage are read: the oldest."""
MOST_REFUSING = 2_000
"""For how many tasks their refusals are counted by rule: those with the most."""
MOST_COUNTED = 20_000
"""How many tasks the lineages of one page may have together before the tasks of the larger ones are not counted."""
LOOKED_AT = 5_000
"""Among how many lineages, the newest, the largest are found."""


class BranchRow(NamedTuple):
    """A task of a lineage, in as few columns as its place in the tree needs."""

    id: int
    parent: int | None
    depth: int
    kind: str
    status: int
    refusals: int
    paused: int
    cost: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    parked: int
    """1 if it waits for an operator's approval."""


class DrawnRow(NamedTuple):
    """The rest of a task that is drawn."""

    id: int
    key: str
    stage: str | None
    attempts: int
    failures: int
    reason: str | None
    waiting_for: str | None


class RefusedRow(NamedTuple):
    """The refusals of one task by one rule and kind, as far as they are kept."""

    parent: int
    rule: str
    kind: str
    times: int
    key: str | None
    reason: str


class BranchRows(NamedTuple):
    """A lineage, or the part of it that begins with one task."""

    head: Head
    tasks: list[BranchRow]
    limits: LimitsRow | None
    own_limits: bytes | None
    refused: list[RefusedRow]
    budget: list[Account]


class DrawnRows(NamedTuple):
    """What is to be known of the tasks that are drawn."""

    tasks: dict[int, DrawnRow]
    refusals: list[RefusalRow]
    links: list[LinkRow]


def read_branches(wanted: int | uuid.UUID, *, now: int, limit: int = MOST_TASKS) -> Op[BranchRows]:
    """Read the lineage with that id, or the part that begins with that task; at most `limit` tasks, the oldest."""
    head = yield from head_of(wanted)
    tasks = [BranchRow(*row) for row in (yield Query("branches_of_lineage", {**head.params, "limit": limit}))]
    if not tasks:
        raise LineageNotFound(head.lineage)
    refusing = sorted((task for task in tasks if task.refusals), key=lambda task: -task.refusals)[:MOST_REFUSING]
    refused: Sequence[Row] = ()
    if refusing:
        refused = yield Query("refused_spawns", {"ids": [task.id for task in refusing]})
    found = yield Query("read_lineage", {"lineage": head.lineage})
    own = yield Query("limits_of_head", {"task": head.task})
    accounts = yield Query("accounts_of_scope", {"scope": str(head.lineage), "now": now})
    return BranchRows(
        head,
        tasks,
        LimitsRow(*found[0]) if found else None,
        bytes(own[0][0]) if own and own[0][0] is not None else None,
        [RefusedRow(*row) for row in refused],
        [Account(*row) for row in accounts],
    )


def read_drawn(ids: Sequence[int], refusing: Sequence[int], *, each: int) -> Op[DrawnRows]:
    """Read the rest of the tasks that are drawn, with the first refusals of each, and the tasks linked to them."""
    rows = (yield Query("drawn_branches", {"ids": list(ids)})) if ids else ()
    tasks = {row[0]: DrawnRow(row[0], shown_key(row[1], row[2]), *row[3:]) for row in rows}
    refusals = (yield Query("first_refusals", {"ids": list(refusing), "each": each})) if refusing else ()
    links = (yield Query("links_of_tasks", {"ids": list(ids)})) if ids else ()
    return DrawnRows(
        tasks,
        [RefusalRow(as_uuid(row[0]), *row[1:]) for row in refusals],
        [
            LinkRow(parent, child, stage, as_uuid(lineage), kind, key, Status(status))
            for parent, child, stage, lineage, kind, key, status in links
        ],
    )


def read_page(*, limit: int, largest: bool, before: int | None) -> Op[list[tuple[LineageRow, bool]]]:
    """Read the newest lineages before a time, or the largest, each with whether its tasks were counted."""
    if largest:
        rows = yield Query("large_lineages", {"limit": limit, "looked_at": LOOKED_AT})
    else:
        rows = yield Query("page_of_lineages", {"limit": limit, "before": NEVER if before is None else before})
    room, small = MOST_COUNTED, []
    for row in sorted(rows, key=lambda row: int(row[7])):
        room -= row[7]
        if room >= 0:
            small.append(row[1])
    counted: dict[int, list[Row]] = {}
    if small:
        for root, *count in (yield Query("count_lineages", {"ids": sorted(small)})):
            counted.setdefault(root, []).append(count)
    return [
        (
            LineageRow(
                as_uuid(lineage), root, kind, shown_key(key, fields), Status(status), bool(paused), tasks, max_tasks,
                deadline_at, created_at, as_counts(counted[root]) if root in counted else Counts({}),
            ),
            root in counted,
        )
        for lineage, root, kind, key, fields, status, paused, tasks, max_tasks, deadline_at, created_at in rows
    ]  # fmt: skip
