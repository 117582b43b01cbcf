"""The attempts of a task as its log tells them: what each stage came to, when, and what the task waited for between.

Pure: rows in, attempts out. A stage began when the one before it in the same attempt was committed, or with the claim;
where the row of the claim is gone, that is not known, and None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from onceward.model.status import Event, Status
from onceward.model.times import moment
from onceward.store.reports.tasks import LogRow


class Came(StrEnum):
    """What a stage came to in one attempt."""

    FINISHED = "finished"
    ENDED = "ended"
    """It ended the task as filtered or skipped."""
    FAILED = "failed"
    LOST = "lost"
    """Its worker, or a process of its own, died with it."""
    PUT_OFF = "put off"
    """It runs again later, or waits; nothing has failed."""
    GIVEN_BACK = "given back"
    """It had not begun when its worker stopped."""
    CANCELLED = "cancelled"
    RUNNING = "running"
    KEPT = "kept"
    """It had finished in an earlier attempt, and was not run again."""
    WAITS = "waits"
    """It has not begun: something holds it back."""
    TO_COME = "to come"


class Wait(StrEnum):
    """What a task waited for after a stage."""

    RETRY = "retry"
    LINE = "line"
    OTHER = "other"
    """A signal, a budget, children, a time: its note says it."""


@dataclass(frozen=True, slots=True)
class StageRun:
    """A stage in one attempt."""

    stage: str | None
    """None for the first stage, before the log has named it."""
    came: Came
    began_at: datetime | None = None
    ended_at: datetime | None = None
    note: str | None = None
    wait: Wait | None = None
    waited_until: datetime | None = None
    """Until when the task waited after it; None without a wait, or as long as it lasts."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One claim of a task, up to what it came to."""

    number: int
    """The number of the claim: 1, 2, 3 …"""
    run: int
    worker: str | None
    claimed_at: datetime | None
    ended_at: datetime | None
    stages: tuple[StageRun, ...]

    @property
    def outcome(self) -> StageRun | None:
        """The stage that says what came of it: the last that ran, or waits."""
        told = [one for one in self.stages if one.came not in (Came.KEPT, Came.TO_COME)]
        return told[-1] if told else None


_CAME = {
    Event.STAGE_COMMITTED: Came.FINISHED,
    Event.HANDED_OVER: Came.FINISHED,
    Event.RETRY_SCHEDULED: Came.FAILED,
    Event.TIMED_OUT: Came.FAILED,
    Event.EXPIRED: Came.FAILED,
    Event.RECLAIMED: Came.LOST,
    Event.CRASHED: Came.LOST,
    Event.DEFERRED: Came.PUT_OFF,
    Event.PARKED: Came.PUT_OFF,
    Event.RELEASED: Came.GIVEN_BACK,
    Event.CANCELLED: Came.CANCELLED,
}
_WAITS = {
    Event.RETRY_SCHEDULED: Wait.RETRY,
    Event.TIMED_OUT: Wait.RETRY,
    Event.DEFERRED: Wait.OTHER,
    Event.PARKED: Wait.OTHER,
    Event.HANDED_OVER: Wait.LINE,
    Event.RECLAIMED: Wait.LINE,
    Event.CRASHED: Wait.LINE,
    Event.RELEASED: Wait.LINE,
}
_ENDS = {Status.FAILED: Came.FAILED, Status.FILTERED: Came.ENDED, Status.SKIPPED: Came.ENDED}


@dataclass(slots=True)
class _Open:
    """An attempt while its rows are read."""

    number: int
    run: int
    worker: str | None = None
    claimed_at: int | None = None
    at: int | None = None
    """When its present stage began."""
    is_over: bool = False
    stages: list[StageRun] = field(default_factory=list)


def attempts(
    events: Iterable[LogRow],
    claimed: Mapping[int, int],
    *,
    running: tuple[int, str | None, str | None] | None = None,
    ended_at: int | None = None,
) -> list[Attempt]:
    """Tell the attempts of a task, oldest first.

    `running` is the number, the stage and the worker of the attempt that goes on now, `ended_at` when the task ended.
    """
    found: dict[int, _Open] = {}
    for row in events:
        _read(row, found, claimed)
    if running is not None:
        number, stage, worker = running
        one = found.setdefault(number, _begun(number, max((at.run for at in found.values()), default=1), claimed))
        one.worker = worker or one.worker
        if not one.is_over:
            one.stages.append(StageRun(stage, Came.RUNNING, _moment(one.at)))
    opened = [one for _, one in sorted(found.items())]
    return _with_waits(opened, ended_at)


def _begun(number: int, run: int, claimed: Mapping[int, int]) -> _Open:
    at = claimed.get(number)
    return _Open(number, run, claimed_at=at, at=at)


def _read(row: LogRow, found: dict[int, _Open], claimed: Mapping[int, int]) -> None:
    came = _ENDS.get(row.status, Came.FINISHED) if row.event is Event.FINISHED else _CAME.get(row.event)
    if row.fence < 1 or (came is None and row.event is not Event.WOKEN):
        return
    one = found.setdefault(row.fence, _begun(row.fence, row.run, claimed))
    one.worker = row.worker_name or one.worker
    at = moment(row.at)
    if row.event is Event.WOKEN or (one.is_over and came is Came.CANCELLED):
        if one.stages and one.stages[-1].wait is not None and one.stages[-1].waited_until is None:
            one.stages[-1] = replace(one.stages[-1], waited_until=at)
        return
    assert came is not None
    if one.is_over:  # held back before it was claimed again
        before = one.stages[-1] if one.stages else None
        if before is not None and before.wait is not None and before.waited_until is None:
            one.stages[-1] = replace(before, wait=None)
        one.stages.append(StageRun(row.stage, Came.WAITS, None, None, row.note, Wait.OTHER))
        one.stages[-1] = replace(one.stages[-1], began_at=at)
        return
    one.stages.append(StageRun(row.stage, came, _moment(one.at), at, row.note, _WAITS.get(row.event)))
    one.at = row.at
    one.is_over = row.event is not Event.STAGE_COMMITTED


def _with_waits(opened: Sequence[_Open], ended_at: int | None) -> list[Attempt]:
    """End each wait with the next claim, and name the stages that an attempt after a failure did not run again."""
    told: list[Attempt] = []
    done: list[str | None] = []
    for place, one in enumerate(opened):
        follows = opened[place + 1].claimed_at if place + 1 < len(opened) else ended_at
        if one.stages and one.stages[-1].wait is not None and one.stages[-1].waited_until is None:
            one.stages[-1] = replace(one.stages[-1], waited_until=_moment(follows))
        stages = one.stages
        before = told[-1] if told and told[-1].run == one.run else None
        if before is None:
            done = []
        elif before.outcome is not None and before.outcome.came in (Came.FAILED, Came.LOST):
            stages = [*(StageRun(stage, Came.KEPT, _moment(one.claimed_at)) for stage in done), *stages]
        done += [run.stage for run in one.stages if run.came is Came.FINISHED]
        ran = [run.ended_at for run in one.stages if run.ended_at is not None]
        told.append(
            Attempt(one.number, one.run, one.worker, _moment(one.claimed_at), ran[-1] if ran else None, tuple(stages))
        )
    return told


def _moment(at: int | None) -> datetime | None:
    return None if at is None else moment(at)
