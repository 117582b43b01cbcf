"""Pausing a lineage or a part of it: what has begun ends its stage, and nothing of it begins before it is resumed.

A paused task carries a mark, and the claim does not lease what is marked; that is the only gate. So a task may move as
ever while it is paused: a signal comes, its children end, its retry becomes due. It only does not run. Its places in
line are harmless: a claim takes them away, and resuming makes new ones. A task that goes on from stage to stage hears
of the mark when a stage commits, and gives its lease back.

What holds at every moment: **whoever is open and has a marked ancestor is marked.** Three ways could break it.

- A marked task spawns: its children are marked as they are made. Its row is locked by its fence, so that nobody marks
  it in between.
- Tasks are made while a pause is under way: whoever spawned them was locked by the pause or has committed before it,
  so the pause looks again, until it finds nobody who is open and not marked. Resuming does the same.
- An ended task is opened again: it locks its ancestors and looks at their marks. Therefore the head of what is paused
  is marked too, and first, even if it has ended.

For a lineage that nobody has paused this costs a comparison with a column of a row that is read anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceward.errors import IllegalTransition
from onceward.model.lineage import read_ancestry
from onceward.model.status import CLAIMABLE, Event, Status
from onceward.model.task import lane_of
from onceward.store.history import Entry, log
from onceward.store.lineage.trees import Head
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Op, Query, Row

OPEN = {"least": int(Status.PENDING), "most": int(Status.WAITING)}
ANY = {"least": int(Status.PENDING), "most": int(Status.CANCELLED)}


def pause(head: Head, now: int) -> Op[int]:
    """Let nothing of a part of a lineage begin any more; returns how many open tasks that concerns."""
    found = yield Query("in_subtree", {**head.params, **OPEN, "paused": 0})
    yield Query("lock_tasks", {"ids": sorted({head.task, *(row[0] for row in found)})})  # all at once, in their order
    if (yield Query("paused_among", {"ids": [head.task]})):
        raise IllegalTransition(f"{head.name} is paused already")
    [told] = yield Query("pause_head", {"task": head.task})
    while rows := (yield Query("in_subtree", {**head.params, **OPEN, "paused": 0})):
        ids = [row[0] for row in rows]
        yield Query("lock_tasks", {"ids": ids})
        yield Query("pause_tasks", {"ids": ids})
    paused = len((yield Query("in_subtree", {**head.params, **OPEN, "paused": 1})))
    if not paused:
        raise IllegalTransition(f"nothing of {head.name} is open: there is nothing to pause")
    yield from _tell(head, Event.PAUSED, told, f"{paused} open tasks are paused", now)
    return paused


def resume(head: Head, now: int) -> Op[int]:
    """Let a part of a lineage go on, and whatever was paused below it; returns how many open tasks that concerns."""
    found = yield Query("in_subtree", {**head.params, **ANY, "paused": 1})
    above = yield from paused_above([head.task], [row[0] for row in found])
    if above[head.task]:
        raise IllegalTransition(f"task {head.task} is paused because task {above[head.task][0]} is: resume that")
    freed: list[Row] = []
    while rows := (yield Query("in_subtree", {**head.params, **ANY, "paused": 1})):
        ids = [row[0] for row in rows]
        yield Query("lock_tasks", {"ids": ids})
        freed += yield Query("resume_tasks", {"ids": ids})
    if not freed:
        raise IllegalTransition(f"{head.name} is not paused")
    open_ones = sum(not Status(row[1]).is_terminal for row in freed)
    [told] = yield Query("read_to_log", {"task": head.task})
    yield from _tell(head, Event.RESUMED, told, f"{open_ones} open tasks go on", now)
    yield from put_in_line(
        (
            Placement(task, lane_of(queue, kind, suspect=company > 0), band, company or rank, due_at)
            for task, status, kind, queue, band, rank, company, due_at in sorted(freed, key=lambda row: int(row[0]))
            if status in CLAIMABLE
        ),
        now,
    )
    return open_ones


def paused_above(tasks: Sequence[int], others: Sequence[int] = ()) -> Op[dict[int, list[int]]]:
    """The ancestors of tasks that are paused, the oldest first; they are locked, so that they stay as they are. So are
    the tasks, and some others, all at once: there is one order for that."""
    rows = yield Query("read_descent", {"ids": list(tasks)})
    ancestors = {row[0]: [one.task for one in read_ancestry(row[1])] for row in rows}
    everybody = sorted({one for above in ancestors.values() for one in above})
    yield Query("lock_tasks", {"ids": sorted({*everybody, *tasks, *others})})
    if not everybody:
        return {task: [] for task in tasks}
    paused = {row[0] for row in (yield Query("paused_among", {"ids": everybody}))}
    return {task: [one for one in ancestors.get(task, []) if one in paused] for task in tasks}


def _tell(head: Head, event: Event, told: Row, note: str, now: int) -> Op[None]:
    run, fence, status, stage = told
    yield from log([Entry(head.task, run, fence, event, Status(status), stage, None, now, note)])
