"""Parents and children after the spawn: what a parent may know of its children, waiting for them, and its end.

A parent whose next stage joins holds no slot while it waits: it has a row for every child that is open. Who ends a
child locks the parents, deletes its rows, and only then looks whether any row of theirs is left: of two who end the
last two children at the same moment, the second sees that it is the last. The lock comes first because whoever cancels
a parent, or opens it again, has locked it when it deletes its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.model.lineage import Child, Family
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, HandOver, Lease, lane_of
from onceward.store.history import Entry, log
from onceward.store.lineage.batches import count
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Many, Op, Query

CHILDREN = "children"
"""What a task that joins waits for."""

OWN, OTHER_NAME = 1, 2
"""How children are read: as made by the task that asked, or once more by another key; what is left are links."""


class Ended(NamedTuple):
    """A task that has just ended: whether anybody waits for it, and the batch it belongs to."""

    task: int
    status: Status
    awaited: int
    batch: int | None


class Place(NamedTuple):
    """Where a task has come to that is about to wait: its run, its fence, its next stage, and who has seen to that."""

    task: int
    run: int
    fence: int
    stage: str | None
    worker: int | None = None

    def parked(self, note: str, now: int) -> Entry:
        """What the log says of it."""
        return Entry(self.task, self.run, self.fence, Event.PARKED, Status.WAITING, self.stage, self.worker, now, note)


def read_families(tasks: Sequence[int]) -> Op[dict[int, Family]]:
    """What tasks may know of the children they have asked for."""
    ids = {"ids": list(tasks)}
    found: dict[int, list[Child]] = {}
    rows = yield Query("read_children", ids)
    succeeded = sorted({row[1] for row in rows if row[5] == Status.SUCCEEDED})
    values: dict[int, bytes] = {}
    if succeeded:
        values = {task: bytes(value) for task, value in (yield Query("read_last_results", {"ids": succeeded}))}
    for parent, task, identity, kind, key, status, reason, standing in rows:
        child = Child(
            task, bytes(identity), kind, key, status, reason, None, standing == OWN, values.get(task),
            standing == OTHER_NAME,
        )  # fmt: skip
        found.setdefault(parent, []).append(child)
    for parent, existing, identity, kind, key, rule, reason in (yield Query("read_refusals", ids)):
        child = Child(existing, bytes(identity), kind, key, None, reason, rule, is_own=False)
        found.setdefault(parent, []).append(child)
    return {task: Family(tuple(children)) for task, children in found.items()}


def join(lease: Lease, move: HandOver, now: int) -> Op[None]:
    """Let a task that was handed over to a stage that joins wait for its open children, or go on if there are none."""
    place = Place(lease.task, lease.run, lease.fence, move.next_stage, lease.worker)
    if not (yield from wait_for_children(place, now)):
        lane = lane_of(move.queue, lease.kind, move.gates)
        yield from put_in_line([Placement(lease.task, lane, lease.band, lease.rank, now)], now)


def wait_for_children(place: Place, now: int) -> Op[bool]:
    """Let a task that is pending wait for its open children; false if there are none, and it may stand in line."""
    children = sorted(row[0] for row in (yield Query("child_ids", {"task": place.task})))
    open_ones = sorted(row[0] for row in (yield Query("await_children", {"ids": children})))
    if not open_ones:
        return False
    yield Many("insert_joins", [(child, place.task) for child in open_ones])
    yield Query("wait_for_children", {"task": place.task, "never": NEVER})
    yield from log([place.parked(f"{CHILDREN}: {len(open_ones)} have not ended", now)])
    return True


def lock_parents(ended: Sequence[Ended]) -> Op[None]:
    """Lock those who wait for tasks that have ended. Nobody can come to wait for them any more: their rows are ours."""
    if awaited := sorted(one.task for one in ended if one.awaited):
        yield Query("lock_parents", {"ids": awaited})


def after_end(ended: Sequence[Ended], now: int) -> Op[None]:
    """Tasks have ended: tell those who wait for them, and count them in their batches."""
    yield from lock_parents(ended)
    yield from tell_of_end(ended, now)


def tell_of_end(ended: Sequence[Ended], now: int, added: Sequence[int] = (), opened: Sequence[int] = ()) -> Op[None]:
    """Tell those who wait for tasks that have ended, and are locked; then count these in their batches, with the
    children that were added to batches in the same transaction, and the batches that were opened."""
    if awaited := sorted(one.task for one in ended if one.awaited):
        yield from _end_joins(awaited, now)
    yield from count(((one.batch, one.status) for one in ended if one.batch is not None), added, now, opened=opened)


def _end_joins(awaited: Sequence[int], now: int) -> Op[None]:
    """Nobody waits any more for tasks that have ended; whoever waits for nobody else goes on."""
    parents = sorted({row[0] for row in (yield Query("end_joins", {"ids": awaited}))})
    if not parents:
        return
    still = yield Query("still_joined", {"ids": parents})
    free = sorted(set(parents) - {row[0] for row in still})
    if not free:
        return
    woken = yield Query("wake_joined", {"ids": free, "now": now})
    yield from log(
        Entry(task, run, fence, Event.WOKEN, Status.PENDING, stage, None, now, "its children have ended")
        for task, run, fence, _, _, _, _, stage in woken
    )
    yield from put_in_line(
        (Placement(task, lane_of(queue, kind), band, rank, now) for task, _, _, kind, queue, band, rank, _ in woken),
        now,
    )
