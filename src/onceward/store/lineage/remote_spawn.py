"""Work that arrives from another process and belongs to a lineage: the child of a task that runs, or ran, elsewhere.

No fence stands behind it, because whoever asks holds no lease. So the row of the parent is locked here, and what the
guard needs to know is read from it, never from the request. From then on it is a spawn like any other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from onceward.errors import NoLineage
from onceward.model.codec import digest128
from onceward.model.lineage import Bounds, Descent, Spawn, StageBatch
from onceward.model.status import Status
from onceward.model.task import Lease
from onceward.store.lineage.batches import count
from onceward.store.lineage.joins import CHILDREN
from onceward.store.lineage.pause_lineage import paused_above
from onceward.store.lineage.spawn_requests import Asked
from onceward.store.lineage.stage_batches import Opening, Spawned, spawn_all
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_bytes

HOP = "hop"
"""Where a refusal says which stage asked."""


class Cancelled(Exception):
    """The task for which work arrives was cancelled: nothing of it comes to be any more."""


def arrive(
    task: int,
    lineage: uuid.UUID,
    wanted: Callable[[Lease], Sequence[Spawn]],
    defaults: Bounds,
    now: int,
    batch: StageBatch | None = None,
) -> Op[Spawned]:
    """Make children of a task that may have ended meanwhile; `wanted` is asked for them once the task is locked. With a
    batch, that is opened for those of them that name it."""
    seen = yield Query("status_of", {"task": task})
    if seen and Status(seen[0][0]).is_terminal:  # its ancestors are asked, and who locks those locks it with them
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
        raise Cancelled(f"task {task}, for which the request was sent, was cancelled")
    lease = Lease(
        task=task, fence=fence, token=b"", worker=None, run=run, kind=kind, version=version, queue=queue,  # type: ignore[arg-type]
        band=band, rank=0, stage=None, payload=bytes(payload), failures=0, crashes=0, company=0, deferrals=0, signals=0,
        touched=1, lineage_bytes=lineage.bytes, parent=parent, depth=depth, created_at=created_at, started_at=now,
        descent=Descent(ancestry, limits, children),
    )  # fmt: skip
    key_hash = digest128(bytes(payload) if key is None else key.encode())
    asked = [Asked(lease, HOP, key_hash, defaults, one) for one in wanted(lease)]
    spawned = yield from spawn_all(asked, [] if batch is None else [Opening(lease, batch)], now)
    yield from count((), spawned.added, now, opened=spawned.opened)
    yield Query("touch_task", {"task": task})
    new = sorted(one.task for _, one in spawned.decisions if one.is_new and one.task is not None)
    if new and Status(status).is_terminal:
        if above is None:  # it has ended since it was looked at
            above = (yield from paused_above([task]))[task]
        if above:
            yield Query("pause_tasks", {"ids": new})  # one that has ended does not carry the mark of its ancestors
    if new and status == Status.WAITING and waiting_for == CHILDREN:
        # It waits for its children already, and these are some. Nobody else can have seen them yet.
        yield Query("await_children", {"ids": new})
        yield Many("insert_joins", [(child, task) for child in new])
    return spawned
