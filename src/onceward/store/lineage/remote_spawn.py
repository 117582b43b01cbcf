"""Spawns children of a task at the request of another process, which names the task in its baggage.

The request holds no lease, so no fence protects it. Instead the row of the parent is locked here, and the guard reads
all facts from that row, none from the request. From then on it is a spawn like any other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from onceward.errors import NoLineage
from onceward.model.codec import digest128
from onceward.model.lineage import Bounds, Descent, Spawn, StageBatch
from onceward.model.status import Status
from onceward.model.task import Lease
from onceward.store.lineage.batches import count_in_batches
from onceward.store.lineage.joins import CHILDREN
from onceward.store.lineage.pause_lineage import paused_above
from onceward.store.lineage.spawn_requests import SpawnRequest
from onceward.store.lineage.stage_batches import BatchRequest, SpawnResults, spawn_all
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_bytes

HOP = "hop"
"""The stage that the log and the refusals of such a spawn name."""


class ParentCancelled(Exception):
    """The parent of a remote spawn was cancelled; no child is made."""


def spawn_remotely(
    task: int,
    lineage: uuid.UUID,
    wanted: Callable[[Lease], Sequence[Spawn]],
    defaults: Bounds,
    now: int,
    batch: StageBatch | None = None,
) -> Op[SpawnResults]:
    """Spawn children of a task, which may have ended; `wanted` names them once the task is locked. A given batch is
    opened for the children that name it."""
    seen = yield Query("status_of", {"task": task})
    if seen and Status(seen[0][0]).is_terminal:  # reads the marks of its ancestors, and locks the task with them
        above = (yield from paused_above([task])).get(task)
    else:
        above = None
        yield Query("lock_tasks", {"ids": [task]})
    rows = yield Query("far_task", {"task": task})
    if not rows or as_bytes(rows[0][0]) != lineage.bytes:
        raise NoLineage(f"this database knows no task {task} of lineage {lineage}")
    [(_, kind, version, queue, band, key, payload, run, fence, status, waiting_for, depth, parent, created_at,
      ancestry, limits, children)] = rows  # fmt: skip
    if status == Status.CANCELLED:
        raise ParentCancelled(f"task {task}, for which the request was sent, was cancelled")
    lease = Lease(
        task=task, fence=fence, token=b"", worker=None, run=run, kind=kind, version=version, queue=queue,  # type: ignore[arg-type]
        band=band, rank=0, stage=None, payload=bytes(payload), failures=0, crashes=0, company=0, deferrals=0, signals=0,
        touched=1, lineage_bytes=lineage.bytes, parent=parent, depth=depth, created_at=created_at, started_at=now,
        descent=Descent(ancestry, limits, children),
    )  # fmt: skip
    key_hash = digest128(bytes(payload) if key is None else key.encode())
    asked = [SpawnRequest(lease, HOP, key_hash, defaults, one) for one in wanted(lease)]
    spawned = yield from spawn_all(asked, [] if batch is None else [BatchRequest(lease, batch)], now)
    yield from count_in_batches((), spawned.added, now, opened=spawned.opened)
    yield Query("touch_task", {"task": task})
    new = sorted(one.task for _, one in spawned.decisions if one.is_new and one.task is not None)
    if new and Status(status).is_terminal:
        if above is None:  # it has ended since it was looked at
            above = (yield from paused_above([task]))[task]
        if above:
            yield Query("pause_tasks", {"ids": new})  # one that has ended does not carry the mark of its ancestors
    if new and status == Status.WAITING and waiting_for == CHILDREN:
        # It waits for its children already, so also for these. No other transaction can see them yet.
        yield Query("await_children", {"ids": new})
        yield Many("insert_joins", [(child, task) for child in new])
    return spawned
