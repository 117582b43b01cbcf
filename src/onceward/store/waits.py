"""What holds a task back, as far as the database tells."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onceward.model.lineage import read_ancestry
from onceward.model.status import CLAIMABLE, Status
from onceward.model.task import lane_of
from onceward.store.op import Op, Query, Rows


class Server(msgspec.Struct, frozen=True, gc=False):
    """A living worker, as far as it matters to who waits for one."""

    name: str
    kinds: str
    queues: str
    beat_at: int
    lease_ms: int

    def serves(self, kind: str, queue: str, now: int) -> bool:
        """Whether it would take such a task. One that has just begun has not said yet what it takes."""
        if self.beat_at + self.lease_ms < now:
            return False
        return not self.kinds or (kind in self.kinds.split(",") and queue in self.queues.split(","))


class Standing(msgspec.Struct, frozen=True, gc=False):
    """A task, and what stands between it and its next stage."""

    id: int
    kind: str
    queue: str
    company: int
    status: Status
    stage: str | None
    due_at: int
    waiting_for: str | None
    reason: str | None
    paused_by: int | None
    """The oldest of its ancestors, or itself, that is paused."""
    failures: int
    ended_at: int | None
    worker: str | None
    open_children: Sequence[int]
    servers: Sequence[Server]
    ahead: int
    """How many stand before it in its line."""


def standing(task: int, now: int) -> Op[Standing | None]:
    """How a task stands, or None if there is none."""
    rows = yield Query("why_task", {"task": task})
    if not rows:
        return None
    (_, kind, queue, band, company, number, stage, due_at, waiting_for, reason, paused, ancestry, failures, ended_at,
     worker) = rows[0]  # fmt: skip
    status = Status(number)
    paused_by = None
    if paused:
        family = [*(one.task for one in read_ancestry(ancestry)), task]
        paused_by = next((row[0] for row in (yield Query("paused_among", {"ids": family}))), task)
    children: Rows = []
    if status is Status.WAITING:
        children = yield Query("open_joins", {"task": task})
    servers: Rows = []
    ahead = 0
    if status in CLAIMABLE:
        servers = yield Query("serving_workers")
        if due_at <= now:
            lane = lane_of(queue, kind, suspect=company > 0)
            [(ahead,)] = yield Query("ahead_in_line", {"lane": lane, "band": band, "task": task})
    return Standing(
        task, kind, queue, company, status, stage, due_at, waiting_for, reason, paused_by, failures, ended_at, worker,
        [row[0] for row in children], [Server(*row) for row in servers], ahead,
    )  # fmt: skip
