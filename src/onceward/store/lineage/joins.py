"""Joins: a parent reads its children, waits for the open ones, and goes on after the last has ended.

A parent that waits holds no slot: it has a row for every open child (decision 20). A transaction that ends a child
locks the parents, deletes the rows of the child, and only then looks for rows that are left: if two transactions end
the last two children at the same moment, the second finds none left. The lock comes first because a cancellation or a
reopening of a parent has locked it, too, when it deletes its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.model.lineage import Child, Family
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, HandOver, Lease, lane_of
from onceward.store.history import Entry, log
from onceward.store.lineage.batches import count_in_batches
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Many, Op, Query

CHILDREN = "children"
"""What a task that joins waits for."""

OWN, OTHER_NAME = 1, 2
"""How children are read: as made by the task that asked, or once more by another key; what is left are links."""


class EndedTask(NamedTuple):
    """A task that has just ended: whether a parent waits for it, and the batch it belongs to."""

    task: int
    status: Status
    awaited: int
    batch: int | None


class WaitingTask(NamedTuple):
    """A task that is about to wait: its run, fence, next stage, and the worker that parks it."""

    task: int
    run: int
    fence: int
    stage: str | None
    worker: int | None = None

    def parked(self, note: str, now: int) -> Entry:
        """The log row of its parking."""
        return Entry(self.task, self.run, self.fence, Event.PARKED, Status.WAITING, self.stage, self.worker, now, note)


def read_families(tasks: Sequence[int]) -> Op[dict[int, Family]]:
    """Read what tasks may know of their children, links and refusals."""
    ids = {"ids": list(tasks)}
    found: dict[int, list[Child]] = {}
    rows = yield Query("read_children", ids)
    succeeded = sorted({task for _, task, _, _, _, status, *_ in rows if status == Status.SUCCEEDED})
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
    """Let a task before a joining stage wait for its open children, or stand in line if there are none."""
    place = WaitingTask(lease.task, lease.run, lease.fence, move.next_stage, lease.worker)
    if not (yield from wait_for_children(place, now)):
        lane = lane_of(move.queue, lease.kind, move.gates)
        yield from put_in_line([Placement(lease.task, lane, lease.band, lease.rank, now)], now)


def wait_for_children(place: WaitingTask, now: int) -> Op[bool]:
    """Let a pending task wait for its open children; false if there are none, and it may stand in line."""
    children = sorted(row[0] for row in (yield Query("child_ids", {"task": place.task})))
    open_ones = sorted(row[0] for row in (yield Query("await_children", {"ids": children})))
    if not open_ones:
        return False
    yield Many("insert_joins", [(child, place.task) for child in open_ones])
    yield Query("wait_for_children", {"task": place.task, "never": NEVER})
    yield from log([place.parked(f"{CHILDREN}: {len(open_ones)} have not ended", now)])
    return True


def lock_parents(ended: Sequence[EndedTask]) -> Op[None]:
    """Lock the parents that wait for ended tasks. No other can begin to wait: the rows of the ended tasks are ours."""
    if awaited := sorted(one.task for one in ended if one.awaited):
        yield Query("lock_parents", {"ids": awaited})


def propagate_ends(ended: Sequence[EndedTask], now: int) -> Op[None]:
    """Wake the parents of ended tasks, and count these in their batches."""
    yield from lock_parents(ended)
    yield from propagate_locked_ends(ended, now)


def propagate_locked_ends(
    ended: Sequence[EndedTask], now: int, added: Sequence[int] = (), opened: Sequence[int] = ()
) -> Op[None]:
    """Wake the locked parents of ended tasks, then count these in their batches, with the children and the batches that
    the same transaction has added."""
    if awaited := sorted(one.task for one in ended if one.awaited):
        yield from _end_joins(awaited, now)
    yield from count_in_batches(
        ((one.batch, one.status) for one in ended if one.batch is not None), added, now, opened=opened
    )


def _end_joins(awaited: Sequence[int], now: int) -> Op[None]:
    """Delete the joins of ended tasks, and wake the parents that have none left."""
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
