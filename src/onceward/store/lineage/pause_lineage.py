"""Pauses a lineage or a part of it: a running stage ends, and no other begins before the resume.

A paused task carries a mark, and the claim leases no marked task; that is the only gate. Everything else goes on: a
signal comes, children end, a retry becomes due. Places in line do no harm: a claim takes them away, and resuming makes
new ones. An attempt reads the mark when a stage commits, and gives its lease back.

What holds at every moment: **an open task with a marked ancestor is marked.** Three events could break it.

- A marked task spawns: its children are inserted with the mark. The fence has locked its row, so that no pause can mark
  it in between.
- A task spawns during a pause: it has committed before the pause locks it, or the pause has marked it. So the pause
  looks again until it finds no open task without the mark. Resuming does the same.
- An ended task is reopened: it locks its ancestors and reads their marks. Therefore a pause marks the head first, even
  if the head has ended.

A lineage that is not paused pays one comparison with a column of a row that is read anyway.
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
    """Pause a part of a lineage; returns the number of its open tasks."""
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
    """Resume a part of a lineage, with all that was paused below it; returns the number of its open tasks."""
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
    """Lock tasks, their ancestors and some others, all at once and in one order; returns the paused ancestors of each,
    oldest first."""
    rows = yield Query("read_descent", {"ids": list(tasks)})
    ancestors = {row[0]: [one.task for one in read_ancestry(row[1])] for row in rows}
    all_above = sorted({one for above in ancestors.values() for one in above})
    yield Query("lock_tasks", {"ids": sorted({*all_above, *tasks, *others})})
    if not all_above:
        return {task: [] for task in tasks}
    paused = {row[0] for row in (yield Query("paused_among", {"ids": all_above}))}
    return {task: [one for one in ancestors.get(task, []) if one in paused] for task in tasks}


def _tell(head: Head, event: Event, told: Row, note: str, now: int) -> Op[None]:
    run, fence, status, stage = told
    yield from log([Entry(head.task, run, fence, event, Status(status), stage, None, now, note)])
