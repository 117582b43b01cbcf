"""One lease being worked on: the stage that runs, what is stored of the earlier ones, and its time limit."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from onceward.authoring.context import Context
from onceward.authoring.pipeline import Pipeline
from onceward.authoring.stage import Stage
from onceward.authoring.worker_port import Desk
from onceward.model.budget import Bill, Charge
from onceward.model.lineage import Family
from onceward.model.pause import Pauses
from onceward.model.task import CURSOR_PART, NEVER, RESULT_PART, Advance, HandOver, Lease, Move, Part, Release, lane_of
from onceward.store.attempts.commit_results import CommitResult


class StageTimeout(TimeoutError):
    """A stage took longer than its time limit."""


class Attempt:
    """One lease being worked on."""

    # What holds for most attempts from beginning to end stands here, and costs none of them anything.
    pipeline: Pipeline[Any]
    stage: Stage[Any, Any]
    context: Context[Any]
    task: asyncio.Task[None] | None = None
    ticket: list[None] | None = None
    """While a stage waits for a thread, one thing to take: by that thread, or to give the task back."""
    slot: int | None = None
    limit_at: int | None = None
    timeout_ms: int | None = None
    over_at = NEVER
    """When the time of the task is over, whatever its stage may take."""
    started_at = 0
    reported_at = 0
    waits_since = 0
    """Since when it waits for a slot."""
    refusals = 0
    observed: Any = None
    """What an observer has noted of its stage."""
    error: BaseException | None = None
    """What its stage has raised, if that decided what becomes of it."""
    bill: Bill | None = None
    ended = False
    lost = False
    timed_out = False
    timed_out_at = 0

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self.parts: dict[tuple[str, str], bytes] = {}
        self.signals: dict[str, bytes] = {}

    def resume(self, parts: list[Part], signals: dict[str, bytes]) -> None:
        """Know what is stored of the task: it has run before, or was sent a signal."""
        self.parts = {(part.stage, part.part): part.value for part in parts}
        self.signals = signals

    def take_ticket(self) -> bool:
        """Whether the stage had not begun, and now never will, or will be begun by the caller alone."""
        try:
            (self.ticket or []).pop()
        except IndexError:
            return False
        return True

    @property
    def place(self) -> str:
        """The stage at which the task stands, whatever runs for it now."""
        return self.lease.stage or self.pipeline.stages[0].name

    def limit_from(self, now: int) -> int:
        """When a stage that begins, or has just shown that it gets on, must have ended."""
        if self.timeout_ms is None or self.over_at < now + self.timeout_ms:
            return self.over_at
        return now + self.timeout_ms

    @property
    def charges(self) -> tuple[Charge, ...]:
        """What its stage has charged, once it has ended."""
        return () if self.bill is None else self.bill.charges

    def enter(self, stage: Stage[Any, Any], payload: Any, desk: Desk) -> None:
        """Stand at a stage that is to run now."""
        self.stage = stage
        self.context = Context(payload, self.lease, stage, self.parts, self.signals, desk)

    def go_on(self, move: Advance, desk: Desk, now: int) -> None:
        """Stand at the next stage, under the same lease. The one before is durable; its cursor is of no more use."""
        self.parts[move.stage, RESULT_PART] = move.value
        self.parts.pop((move.stage, CURSOR_PART), None)
        self.lease = msgspec.structs.replace(
            self.lease,
            stage=move.next_stage,
            queue=move.queue or self.lease.queue,
            gates=move.gates,
            failures=0,
            crashes=0,
            company=0,
            touched=1,
            clock_at=now,
        )
        self.enter(self.pipeline._stage_named(move.next_stage), self.context.payload, desk)

    def is_paused(self, move: Advance, result: CommitResult, pauses: Pauses) -> bool:
        """Whether the task, its queue, its pipeline or everything is paused, so that its next stage does not begin."""
        if isinstance(result, Family) and result.is_paused:
            return True
        return (
            bool(pauses.scopes) and pauses.of_line(lane_of(move.queue or self.lease.queue, self.lease.kind)) is not None
        )

    def may_have_woken(self, move: Move) -> bool:
        """Whether a task may stand in line by the commit of a move, without a notification of it.

        It may be this task, if it has no children to wait for, or one that waited for it.
        """
        if self.lease.gates is not None:
            return True
        if type(move) is HandOver:
            return move.joins or move.gates is not None
        if type(move) is Release:  # nothing has ended, and the pipeline of a task given back unread is not known
            return False
        return self.lease.parent is not None or self.pipeline.unique == "everywhere"
