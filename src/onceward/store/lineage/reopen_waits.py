"""Finds what a reopened task still has to wait for.

A task that was cancelled or expired while it waited for children, or for a batch, lacks the input of its next stage.
Its log tells what it waited for last. So it waits again, for what is open now. Only a reopening of a task that still
waits lets it go on without them.
"""

from __future__ import annotations

from typing import NamedTuple

from onceward.model.status import Event, Status
from onceward.store.lineage.joins import CHILDREN
from onceward.store.lineage.stage_batches import BATCH, NOT_ENDED
from onceward.store.op import Op, Query


class LastWait(NamedTuple):
    """What a task waited for when it ended: its children, or a batch that has not ended."""

    children: bool = False
    batch: str | None = None


def read_last_wait(task: int) -> Op[LastWait | None]:
    """Read what an ended task waited for last and never got; None if it has not ended. A batch that is open gets
    locked, so that it stays open."""
    status = yield Query("status_of", {"task": task})
    if not status or not Status(status[0][0]).is_terminal:
        return None
    rows = yield Query("last_wait", {"task": task})
    if not rows or rows[0][0] != Event.PARKED:
        return LastWait()
    what, _, rest = (rows[0][1] or "").partition(": ")
    if what == CHILDREN:
        return LastWait(children=True)
    name = rest.removesuffix(NOT_ENDED)
    if what == BATCH and (yield Query("lock_open_batch", {"name": name})):
        return LastWait(batch=name)
    return LastWait()
