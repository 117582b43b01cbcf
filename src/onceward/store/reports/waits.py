"""Reads what holds a task back, as far as the database tells."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onceward.model.budget import CALLS, Account, is_budget_wait
from onceward.model.decide import batch_wait
from onceward.model.gates import Gate, read_gates
from onceward.model.lineage import read_ancestry
from onceward.model.status import CLAIMABLE, Event, Status
from onceward.model.task import lane_of
from onceward.store.governance.budget_waits import budget_waited_for
from onceward.store.governance.sources import GateFacts, gate_facts
from onceward.store.lines.pause_scopes import read_pauses
from onceward.store.op import Op, Query, Rows

_BATCH = batch_wait("")


class ServingWorker(msgspec.Struct, frozen=True, gc=False):
    """A living worker, with the kinds and queues it serves."""

    name: str
    kinds: str
    queues: str
    beat_at: int
    lease_ms: int
    host: str = ""
    pid: int = 0
    presence: str | None = None
    """The file of its process, and its machine."""

    def serves(self, kind: str, queue: str, now: int) -> bool:
        """Whether it would take such a task. One that has just begun has not said yet what it takes."""
        if self.beat_at + self.lease_ms < now:
            return False
        # Not split at commas: a name may hold one.
        return not self.kinds or (f",{kind}," in f",{self.kinds}," and f",{queue}," in f",{self.queues},")


class WaitFacts(msgspec.Struct, frozen=True, gc=False):
    """A task with all that stands between it and its next stage."""

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
    servers: Sequence[ServingWorker]
    ahead: int
    """Number of tasks before it in its line."""
    held_by: str | None = None
    """The scope of an operator's pause that holds its line."""
    gates: Sequence[tuple[Gate, GateFacts]] = ()
    """What its next stage has to pass."""
    budget: Account | None = None
    """The budget that it waits for."""
    estimate: int | None = None
    """What it needs of that, if it is money or tokens."""
    created_at: int = 0
    host: str | None = None
    presence: str | None = None
    """The machine of its worker, and the file in which that says what it runs."""
    held_before: Sequence[tuple[int, Event, str | None]] = ()
    """The last events of its log that put it off, newest first: when, what, why."""
    beat_at: int | None = None
    lease_ms: int | None = None
    """The last heartbeat of its worker, and for how long that may be silent."""


def read_wait_facts(task: int, now: int) -> Op[WaitFacts | None]:
    """Read what holds a task back; None if there is no such task."""
    rows = yield Query("why_task", {"task": task})
    if not rows:
        return None
    (_, kind, queue, band, company, number, stage, due_at, waiting_for, reason, paused, ancestry, failures, ended_at,
     gates, worker, estimate, created_at, host, presence, beat_at, lease_ms) = rows[0]  # fmt: skip
    status = Status(number)
    paused_by = None
    if paused:
        family = [*(one.task for one in read_ancestry(ancestry)), task]
        paused_by = next((row[0] for row in (yield Query("paused_among", {"ids": family}))), task)
    children: Rows = []
    if status is Status.WAITING:
        children = yield Query("open_joins", {"task": task})
        if not children and (waiting_for or "").startswith(_BATCH):
            children = yield Query("still_open_in_batch", {"name": (waiting_for or "").removeprefix(_BATCH)})
    put_off = yield Query("put_off_before", {"task": task})
    budget = (yield from budget_waited_for(waiting_for, now)) if is_budget_wait(waiting_for) else None
    servers: Rows = []
    ahead = 0
    held_by = None
    facing: list[tuple[Gate, GateFacts]] = []
    if status in CLAIMABLE:
        pauses = yield from read_pauses()
        held_by = pauses.of_line(lane_of(queue, kind))
        if gates is not None:
            wanted = read_gates(gates)
            facts = yield from gate_facts([gate.name for gate in wanted], pauses)
            facing = [(gate, facts[gate.name]) for gate in wanted]
        servers = yield Query("serving_workers")
        if due_at <= now:
            lane = lane_of(queue, kind, gates, suspect=company > 0)
            [(ahead,)] = yield Query("ahead_in_line", {"lane": lane, "band": band, "task": task})
    return WaitFacts(
        task, kind, queue, company, status, stage, due_at, waiting_for, reason, paused_by, failures, ended_at, worker,
        [row[0] for row in children], [ServingWorker(*row) for row in servers], ahead, held_by, facing,
        budget, None if budget is None or budget.unit == CALLS else estimate, created_at, host, presence,
        [(at, Event(event), note) for at, event, note in put_off], beat_at, lease_ms,
    )  # fmt: skip
