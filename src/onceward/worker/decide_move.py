"""What becomes of a task whose stage has returned or raised: the move, and what is committed with it.

Nothing is written here. A move is a value that one can print.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from onceward.authoring.stage import NOTHING
from onceward.errors import ConfigError, PayloadError
from onceward.model.budget import Bill
from onceward.model.decide import after_crash, after_error, after_fault, safe_text
from onceward.model.gates import BUDGET, SourceReport
from onceward.model.outcome import Failed, Filtered, SchemaMismatch, Skipped, Waiting
from onceward.model.retry import Retry, retry_in_force
from onceward.model.status import Status
from onceward.model.task import NO_EFFECTS, Advance, Effects, Finish, HandOver, Move, TryAgain
from onceward.model.time_limits import after_last_stage, in_time, limit_at_expiry
from onceward.model.tracebacks import trace_of
from onceward.settings.config import Config
from onceward.worker.attempt import Attempt
from onceward.worker.isolated import ProcessDied, RemoteError, StoredResult
from onceward.worker.source_reports import report_in_force, report_of, success_effects

_KEEPS_EFFECTS = (Filtered, Skipped, Failed, Waiting)


class MoveDecider:
    """Decides for the tasks of one process, which serves some queues."""

    def __init__(
        self, config: Config, queues: frozenset[str], now: Callable[[], int], dice: random.Random | None
    ) -> None:
        self.config = config
        self._queues = queues
        self._now = now
        self._dice = dice or random.Random()

    def limit_ms(self, attempt: Attempt) -> int:
        """How long the task of an attempt may take from its last finished stage on."""
        limit_ms = attempt.pipeline.deadline_ms
        if limit_ms is None:
            limit_ms = self.config.task_limit_ms
        return limit_ms if attempt.lease.expiry is None else limit_at_expiry(limit_ms)

    def retry(self, attempt: Attempt) -> Retry:
        """How the pipeline of an attempt tries again."""
        return retry_in_force(attempt.pipeline.retry, self.config.usual_retries)

    def after_stage(
        self, attempt: Attempt, value: Any, error: BaseException | None, effects: Effects
    ) -> tuple[Move, Effects]:
        """What follows when a stage has returned a value or raised an error, and what is committed with that."""
        gates, source = attempt.lease.gates, attempt.stage.source
        if gates is None and not effects.reports:
            if error is None:
                return self._advanced(attempt, value), effects
            reports: tuple[SourceReport, ...] = ()
        elif error is None and effects is NO_EFFECTS and gates is not None and source is not None:
            return self._advanced(attempt, value), success_effects(gates, source.gate.breaker)
        else:
            reports = self._source_reports(attempt, error, effects.reports)
        if error is None:
            return self._advanced(attempt, value), _to_commit(attempt, effects, reports, frees=True)
        keeps = isinstance(error, _KEEPS_EFFECTS)
        move = self.after_error(attempt, error, attempt.stage.name)
        return move, _to_commit(attempt, effects if keeps else NO_EFFECTS, reports, frees=keeps)

    def _source_reports(
        self, attempt: Attempt, error: BaseException | None, noted: tuple[SourceReport, ...]
    ) -> tuple[SourceReport, ...]:
        """What the sources hear of a stage: of each call that was noted, or of the stage as a whole."""
        as_a_whole = report_of(attempt.lease, attempt.stage, attempt.pipeline.retry, error, self._now)
        if noted:
            noted = tuple([report_in_force(one, self.config.usual_breaker) for one in noted])
        if as_a_whole is not None:
            as_a_whole = report_in_force(as_a_whole, self.config.usual_breaker)
        if as_a_whole is None or (noted and any(one.gate == as_a_whole.gate for one in noted)):
            return noted
        return (*noted, as_a_whole)

    def _advanced(self, attempt: Attempt, value: Any) -> Move:
        stage = attempt.stage
        if attempt.lease.expiry is not None:
            return self._ended_at_expiry(attempt, value)
        try:
            data = value.data if type(value) is StoredResult else stage._stored(value)
        except (PayloadError, ConfigError) as error:
            return Finish(stage.name, None, Status.FAILED, safe_text(str(error)))
        except Exception as error:  # the application's own types may raise anything when read back
            return self.after_error(attempt, error, stage.name)
        following = attempt.pipeline._stage_after(stage)
        if following is None:
            return Finish(stage.name, None if data == NOTHING else data, Status.SUCCEEDED, None)
        try:
            gates = attempt.pipeline._gates_of(following, attempt.context.payload)
            estimate = following.costs.estimate(attempt.context.payload) if following.costs.is_governed else None
        except Exception as error:  # the application's own functions say which instance of a source it is, and its cost
            return self.after_error(attempt, error, stage.name)
        passes_anew = following.source is not None or following.costs.is_governed
        stays = gates is None or (gates == attempt.lease.gates and not passes_anew)
        if following.queue in self._queues and stays and not following.joins:
            queue = None if following.queue == attempt.lease.queue else following.queue
            return Advance(stage.name, data, following.name, queue, gates)
        place = (following.queue, following.joins, gates, estimate)
        return HandOver(stage.name, data, following.name, *place)

    def _ended_at_expiry(self, attempt: Attempt, value: Any) -> Move:
        try:
            attempt.stage._check_returned(value)
        except ConfigError as error:
            return self.after_error(attempt, error, attempt.stage.name)
        return after_last_stage(None, attempt.lease, attempt.place)

    def after_error(self, attempt: Attempt, error: BaseException, stage: str) -> Move:
        """What becomes of a task whose stage has raised; its time is looked at wherever it would be tried again."""
        lease = attempt.lease
        move = in_time(self._move_after(attempt, error, stage), lease, self.limit_ms(attempt), self._now())
        move = move if lease.expiry is None else after_last_stage(move, lease, attempt.place)
        attempt.error = error
        if isinstance(move, Finish | TryAgain) and not isinstance(error, Filtered | Skipped):
            trace = error.fault.trace if isinstance(error, RemoteError) else trace_of(error)
            return move if trace is None else msgspec.structs.replace(move, trace=trace)
        return move

    def _move_after(self, attempt: Attempt, error: BaseException, stage: str) -> Move:
        pipeline, retry = attempt.pipeline, self.retry(attempt)
        if isinstance(error, ProcessDied):
            return after_crash(attempt.lease, stage, self.config.max_lost_workers, str(error))
        if isinstance(error, RemoteError):
            return after_fault(error.fault, attempt.lease, stage, retry, self._now(), self._dice)
        fingerprint = pipeline._fingerprint if isinstance(error, SchemaMismatch) else ""
        return after_error(error, attempt.lease, stage, retry, fingerprint, self._now(), self._dice)


def _to_commit(attempt: Attempt, effects: Effects, reports: tuple[SourceReport, ...], *, frees: bool) -> Effects:
    """What is committed with the end of a stage. What it has charged is, also where everything else is dropped."""
    bill = effects.bill
    if attempt.charges or BUDGET in (attempt.lease.gates or ""):
        settlements = () if effects.bill is None else effects.bill.settlements
        bill = Bill(attempt.charges, frees, settlements)
    elif not reports:
        return effects
    return effects._replace(reports=reports, bill=bill)
