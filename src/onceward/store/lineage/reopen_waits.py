"""What a task that is opened again still has to wait for.

Whoever waited for children, or for the end of a batch, when it was cancelled or ran out of time has not had what its
next stage begins with. Its log tells what it waited for last. So it waits again, for those that are open now. Only
whoever opens a task that still waits lets it go on without them.
"""

from __future__ import annotations

from typing import NamedTuple

from onceward.model.status import Event, Status
from onceward.store.lineage.joins import CHILDREN
from onceward.store.lineage.stage_batches import BATCH, NOT_ENDED
from onceward.store.op import Op, Query


class Awaited(NamedTuple):
    """What a task waited for when it ended: its children, or a batch that has not ended."""

    children: bool = False
    batch: str | None = None


def awaited(task: int) -> Op[Awaited | None]:
    """What a task that has ended waited for last and never got; None if it has not ended. A batch that has not ended is
    locked, so that this stays true."""
    status = yield Query("status_of", {"task": task})
    if not status or not Status(status[0][0]).is_terminal:
        return None
    rows = yield Query("last_wait", {"task": task})
    if not rows or rows[0][0] != Event.PARKED:
        return Awaited()
    what, _, rest = (rows[0][1] or "").partition(": ")
    if what == CHILDREN:
        return Awaited(children=True)
    name = rest.removesuffix(NOT_ENDED)
    if what == BATCH and (yield Query("lock_open_batch", {"name": name})):
        return Awaited(batch=name)
    return Awaited()
