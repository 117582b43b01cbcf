"""Whether a task that was claimed begins here: its payload is read, what is stored of it compared with the code, its
place and its time looked at. If it does not begin, this says what becomes of it instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from onceward.authoring.registry import Registry
from onceward.authoring.worker_port import Desk
from onceward.model.budget import NOT_BEGUN
from onceward.model.decide import exhausted
from onceward.model.outcome import SchemaMismatch
from onceward.model.status import Status
from onceward.model.task import Effects, Expire, Finish, Move, Release
from onceward.model.time_limits import after_last_stage, exceeded
from onceward.worker.attempt import Attempt
from onceward.worker.decide_move import MoveDecider
from onceward.worker.source_reports import token_refunds

NOTHING_DONE = Effects(bill=NOT_BEGUN)
"""What is committed of a stage that has not begun: nothing, and what was set aside for it is free."""


class EarlyMove(NamedTuple):
    """What becomes of a task whose stage does not begin."""

    move: Move
    effects: Effects = NOTHING_DONE


class AttemptPreparer:
    """Makes the attempts of one process ready to run."""

    def __init__(
        self, registry: Registry, queues: frozenset[str], decider: MoveDecider, desk: Desk, now: Callable[[], int]
    ) -> None:
        self._registry = registry
        self._queues = queues
        self._decider = decider
        self._desk = desk
        self._now = now

    def prepare(self, attempt: Attempt) -> EarlyMove | None:
        """Give an attempt the stage that it begins with, and its context; or say what becomes of its task instead."""
        lease = attempt.lease
        if lease.kind not in self._registry:
            return EarlyMove(Release())  # it was put in a line of ours; from here it goes into that of its kind
        pipeline = attempt.pipeline = self._registry[lease.kind]
        if lease.expiry is not None:
            return self._prepare_last_stage(attempt)
        try:
            payload = pipeline._read(lease.payload, lease.version)
            attempt.stage = stage = pipeline._stage_named(lease.stage)
            if attempt.parts or stage is not pipeline.stages[0]:
                pipeline._check_stored(attempt.parts, stage)
            gates = pipeline._gates_of(stage, payload)
            belongs_elsewhere = stage.queue not in self._queues or gates != lease.gates
            estimate = stage.costs.estimate(payload) if belongs_elsewhere else None
        except (SchemaMismatch, Exception) as error:  # the application's own types may raise anything when read
            return EarlyMove(self._decider.after_error(attempt, error, attempt.place))
        if belongs_elsewhere:
            # It stood in a line of ours by an old place, or the code has another place for its stage now.
            return EarlyMove(Release(stage.queue, gates, estimate))
        if lease.fence > 1 and self._now() >= lease.clock_at + (limit_ms := self._decider.limit_ms(attempt)):
            reports = token_refunds(lease, self._registry.limits_of)
            return EarlyMove(Expire(stage.name, exceeded(limit_ms)), NOTHING_DONE._replace(reports=reports))
        retries = self._decider.retry(attempt).retries if lease.failures else None
        if retries is not None and lease.failures > retries:
            reason = exhausted(retries, "it ignored its time limit and its worker had to be killed")
            return EarlyMove(Finish(stage.name, None, Status.FAILED, reason))
        attempt.enter(stage, payload, self._desk)
        return None

    def _prepare_last_stage(self, attempt: Attempt) -> EarlyMove | None:
        """The time of a task was over: what its pipeline does then, if this code still has such a thing."""
        lease, pipeline, stage = attempt.lease, attempt.pipeline, attempt.pipeline.last_stage
        if stage is None:
            return EarlyMove(after_last_stage(None, lease, attempt.place))
        try:
            payload = pipeline._read(lease.payload, lease.version)
            gates = pipeline._gates_of(stage, payload)
            estimate = stage.costs.estimate(payload) if gates != lease.gates else None
        except (SchemaMismatch, Exception) as error:  # as above
            return EarlyMove(self._decider.after_error(attempt, error, stage.name))
        if gates != lease.gates:
            return EarlyMove(Release(lease.queue, gates, estimate))
        attempt.enter(stage, payload, self._desk)
        return None
