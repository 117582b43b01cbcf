"""Reads tasks, their results and log, workers and the backlog, for people and programs.

Reading only. Nothing here decodes a payload or a result.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

import msgspec

from onceward.model.payload import identity
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, band_of
from onceward.store.lineage.same_work import find_same_work
from onceward.store.op import Op, Query, Row, Rows
from onceward.store.rows import as_uuid

MOST_FIELDS = 100_000
"""How many secret fields are read of all kinds together."""


class TaskRow(msgspec.Struct, frozen=True, gc=False):
    """A task as it stands. The worker is the last one that held it, also after its lease has ended."""

    id: int
    kind: str
    key: str | None
    status: Status
    stage: str | None
    run: int
    queue: str
    priority: int
    failures: int
    crashes: int
    deferrals: int
    worker: int | None
    worker_name: str | None
    beat_at: int | None
    """When that worker last renewed its leases."""
    lineage: uuid.UUID
    parent: int | None
    depth: int
    due_at: int
    created_at: int
    started_at: int | None
    ended_at: int | None
    waiting_for: str | None
    reason: str | None
    payload: bytes
    paused: bool
    scheduled_at: int | None
    cost: int = 0
    fence: int = 0
    secret: frozenset[str] | None = None
    """The fields of its payload that viewers do not see; None where nothing is known of its kind."""


class StoredPart(msgspec.Struct, frozen=True, gc=False):
    """A stored value of a task's present run; the part of a stage's result is empty."""

    stage: str
    part: str
    value: bytes
    at: int


class LogRow(msgspec.Struct, frozen=True, gc=False):
    """Something that happened to a task."""

    id: int
    run: int
    fence: int
    event: Event
    status: Status
    stage: str | None
    worker: int | None
    worker_name: str | None
    at: int
    note: str | None
    trace: str | None = None


class Progress(msgspec.Struct, frozen=True, gc=False):
    """How far a stage says it has come."""

    stage: str
    done: int
    total: int | None
    note: str | None
    at: int


class WorkerRow(msgspec.Struct, frozen=True, gc=False):
    """A worker that has neither stopped nor been declared dead, and how many tasks it holds."""

    id: int
    name: str
    host: str
    pid: int
    kinds: str
    queues: str
    lease_ms: int
    started_at: int
    beat_at: int
    holds: int
    presence: str | None = None
    """The file in which it says what it runs."""
    running: int | None = None
    threads: int | None = None
    """How many stages run there, and how many of them in threads; None if it is on another machine."""
    slots: int | None = None
    """How many stages may run there at once, as far as this machine can tell; it takes as many threads as are set."""
    is_dead: bool = False
    """Whether its process has ended, as is seen on its own machine; the next worker takes over what it held."""

    def is_silent(self, now: int) -> bool:
        """Whether its heartbeats have stayed away for half its lease; after the whole it is declared dead."""
        return now - self.beat_at > self.lease_ms // 2


class HeldRow(msgspec.Struct, frozen=True, gc=False):
    """A task that a living worker holds."""

    worker: int
    task: int
    kind: str
    key: str
    stage: str | None
    """The stage that is to run, or runs; None before the first."""
    since: int
    """When it was claimed."""


class ReadyLine(msgspec.Struct, frozen=True, gc=False):
    """A line of tasks that could run now."""

    lane: str
    priority: int
    tasks: int
    since: int
    """When the first of them was put there."""


class DueLater(msgspec.Struct, frozen=True, gc=False):
    """Tasks of a lane that may run at a due time."""

    lane: str
    tasks: int
    next_at: int


class Backlog(msgspec.Struct, frozen=True):
    """What is to be done: now, and later."""

    ready: list[ReadyLine]
    later: list[DueLater]
    parked: int = 0
    """How many tasks wait for code that fits what is stored of them."""

    @property
    def ready_tasks(self) -> int:
        """How many tasks could run now."""
        return sum(line.tasks for line in self.ready)

    @property
    def later_tasks(self) -> int:
        """How many tasks may run later."""
        return sum(lane.tasks for lane in self.later)

    def oldest_ready_ms(self, now: int) -> int | None:
        """For how long the oldest of those that could run has been waiting."""
        return max((now - line.since for line in self.ready), default=None)


def task(task_id: int) -> Op[TaskRow | None]:
    """One task, or None."""
    rows = yield from read_tasks([task_id])
    return rows[0] if rows else None


def tasks(
    *,
    status: Status | None = None,
    kind: str | None = None,
    key: str | None = None,
    lineage: uuid.UUID | None = None,
    min_depth: int | None = None,
    stuck_at: int | None = None,
    before: int | None = None,
    limit: int = 20,
) -> Op[list[TaskRow]]:
    """Tasks, newest first. A `key` that ends in `*` is a prefix; `before` is an id, to go on after a page.

    A lineage has an index, and so have a kind and a key of its own together; the rest is looked for among all tasks,
    newest first.

    `stuck_at`, the present time, asks for running tasks alone whose worker has been silent for longer than its lease.
    """
    prefix = key[:-1] if key is not None and key.endswith("*") else None
    exact = key if prefix is None else None
    by_identity = bool(kind and exact) and stuck_at is None
    wanted = frozenset(Status) if status is None else frozenset({status})
    if stuck_at is not None:
        rows = yield Query("find_stuck", {"now": stuck_at})
        wanted &= {Status.RUNNING}
    else:
        asked = {
            "before": NEVER if before is None else before,
            "status": None if status is None else int(status),
            "min_depth": min_depth,
            "limit": limit,
        }
        names = {"kind": kind, "key": exact, "prefix": prefix}
        if kind and exact:
            sought = identity(kind, exact)
            # All fields of a payload are an object of JSON, or an array; most keys are neither.
            found_ids = yield from find_same_work(
                sought, lineage, own_key=True, fields=exact[0] in "{[",
                before=NEVER if before is None else before, limit=limit,
                status=None if status is None else int(status), min_depth=min_depth,
            )  # fmt: skip
            rows = [(number,) for number in found_ids]
        elif lineage is not None:
            rows = yield Query("find_in_lineage", {**asked, **names, "lineage": lineage})
        else:
            rows = yield Query("find_tasks", {**asked, **names})
    found = yield from read_tasks([row[0] for row in rows])
    # The rows are read by id after they were found: a status may have moved on, and stuck ones have met no filter yet.
    return [
        one
        for one in found
        if one.status in wanted
        and kind in (None, one.kind)
        and lineage in (None, one.lineage)
        and (by_identity or exact in (None, one.key or ""))
        and (min_depth is None or one.depth >= min_depth)
        and (prefix is None or (one.key or "").startswith(prefix))
        and (before is None or one.id < before)
    ][:limit]


def results(task_id: int) -> Op[list[StoredPart]]:
    """What is stored of the present run of a task: results of stages, cursors, parts."""
    rows = yield Query("report_results", {"task": task_id})
    return [StoredPart(stage, part, bytes(value), at) for stage, part, value, at in rows]


def events(task_id: int) -> Op[list[LogRow]]:
    """All that ever happened to a task, oldest first."""
    rows = yield Query("report_events", {"task": task_id})
    return [
        LogRow(number, run, fence, Event(event), Status(status), stage, worker, name, at, note, trace)
        for number, run, fence, event, status, stage, worker, name, at, note, trace in rows
    ]


def progress(task_id: int) -> Op[Progress | None]:
    """How far a task says it has come, if it ever said."""
    rows = yield Query("report_progress_of", {"task": task_id})
    return Progress(*rows[0]) if rows else None


def counts() -> Op[dict[Status, int]]:
    """How many tasks stand where; every status has its number."""
    rows = yield Query("count_by_status")
    found = {Status(status): count for status, count in rows}
    return {status: found.get(status, 0) for status in Status}


def ended_since(at: int) -> Op[dict[Status, int]]:
    """How many tasks have ended since a time, by the status in which they have."""
    rows = yield Query("count_ended_since", {"at": at})
    return {Status(status): count for status, count in rows}


def workers() -> Op[list[WorkerRow]]:
    """The living workers. One that died a moment ago is among them until it is missed."""
    rows = yield Query("report_workers")
    return [WorkerRow(*row) for row in rows]


def held(limit: int) -> Op[list[HeldRow]]:
    """What living workers hold, the oldest claims of each first; at most so many tasks."""
    return [HeldRow(*row) for row in (yield Query("held_tasks", {"limit": limit}))]


def backlog() -> Op[Backlog]:
    """What could run now, line by line, and what may run later."""
    ready = yield Query("report_ready")
    later = yield Query("report_due")
    [(parked,)] = yield Query("count_parked")
    return Backlog(
        [ReadyLine(lane, priority_of(band), count, since) for lane, band, count, since in ready],
        [DueLater(*row) for row in later],
        parked,
    )


def priority_of(band: int) -> int:
    """The priority of a band: `band_of` is its own inverse."""
    return band_of(band)


def read_tasks(ids: Sequence[int]) -> Op[list[TaskRow]]:
    """Tasks by their ids, newest first; those that are gone are left out."""
    rows = (yield Query("report_tasks", {"ids": list(ids)})) if ids else []
    secret = yield from secret_fields({row[1] for row in rows})
    return [_as_task(row, secret.get(row[1])) for row in rows]


def secret_fields(kinds: Collection[str]) -> Op[dict[str, frozenset[str]]]:
    """The fields that viewers do not see, of those of some kinds that are known."""
    rows = (yield Query("secret_fields_of", {"kinds": sorted(kinds)})) if kinds else []
    return _by_kind(rows)


def all_secret_fields() -> Op[dict[str, frozenset[str]]]:
    """The fields that viewers do not see, of every kind that is known."""
    return _by_kind((yield Query("all_secret_fields", {"limit": MOST_FIELDS})))


def _by_kind(rows: Rows) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for kind, field in rows:
        found.setdefault(kind, set()).update([field] if field else [])
    return {kind: frozenset(fields) for kind, fields in found.items()}


def _as_task(row: Row, secret: frozenset[str] | None) -> TaskRow:
    (task_id, kind, key, status, stage, run, queue, band, failures, crashes, deferrals, worker, worker_name, beat_at,
     lineage, parent, depth, due_at, created_at, started_at, ended_at, waiting_for, reason, payload,
     paused, scheduled_at, cost, fence) = row  # fmt: skip
    return TaskRow(
        task_id, kind, key, Status(status), stage, run, queue, priority_of(band), failures, crashes, deferrals, worker,
        worker_name, beat_at, as_uuid(lineage), parent, depth, due_at, created_at, started_at, ended_at, waiting_for,
        reason, bytes(payload), bool(paused), scheduled_at, cost, fence, secret,
    )  # fmt: skip
