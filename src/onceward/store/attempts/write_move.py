"""One commit at a time: its fence first, then what follows from its move.

Moves that many commits of a transaction share are written in groups, in `commits`.
"""

from __future__ import annotations

from onceward.model.cache import AnswerTaken
from onceward.model.decide import SameErrors, after_same_errors, signal_of
from onceward.model.lineage import Family
from onceward.model.source import NotYet
from onceward.model.status import Event, Status
from onceward.model.task import (
    CURSOR_PART,
    NEVER,
    RESULT_PART,
    WAIT_PREFIX,
    Advance,
    Commit,
    Crash,
    Defer,
    Expire,
    Fill,
    Filled,
    Finish,
    HandOver,
    Hold,
    Keep,
    Lease,
    Move,
    Park,
    Part,
    Release,
    Report,
    Take,
    TryAgain,
    lane_of,
)
from onceward.store.attempts.commit_batch import CommitBatch, place_after_release, place_after_stage
from onceward.store.attempts.commit_results import PAUSED, GivenUp
from onceward.store.governance.budgets import reserve_more
from onceward.store.governance.cache import begin_fill, end_fill
from onceward.store.governance.gate_use import close_gate, take_tokens
from onceward.store.lineage.joins import EndedTask
from onceward.store.lines.lines import Placement
from onceward.store.op import Many, Op, Query, Rows


def write_move(one: Commit, batch: CommitBatch) -> Op[bool | Family | GivenUp | NotYet | AnswerTaken]:
    """Write the move of one commit with statements of its own; False if its fence refused it, else its answer."""
    lease = one.lease
    move = (yield from _decide_retry(lease, one.move)) if isinstance(one.move, TryAgain) else one.move
    now = batch.now
    rows = (yield from _park(lease, move, now)) if isinstance(move, Park) else (yield _fenced_query(lease, move, now))
    if not rows:
        batch.note_refusal(lease, move)
        return False
    _collect(lease, move, batch)
    batch.add_effects(one)
    if lease.gates is not None or one.reports or one.bill is not None:
        batch.leave(one, move)
    if isinstance(move, Report):
        told = {"stage": move.stage, "done": move.done, "total": move.total, "note": move.note}
        yield Query("report_progress", {"task": lease.task, **told, "now": now})
    if isinstance(move, Take):
        return (yield from _take(lease, move, now)) or True
    if isinstance(move, Fill):
        return (yield from begin_fill(lease, move, now)) or True
    if isinstance(move, Filled):
        yield from end_fill(lease, move, now)
    if isinstance(move, Finish | Crash) and move.status.is_terminal:
        [(task, awaited, of)] = rows
        batch.ended.append(EndedTask(task, move.status, awaited, of))
        if isinstance(move, Finish) and move.fingerprint:
            yield Query("record_failure", {"task": task, "fingerprint": move.fingerprint, "now": now})
        if move is not one.move:
            return GivenUp(move.reason or "")
    return PAUSED if isinstance(move, Advance) and rows[0][1] else True


def _fenced_query(lease: Lease, move: Move, now: int) -> Query:
    """The statement that changes the row of a task as its move says, and returns no row if its lease was lost."""
    fence = {"task": lease.task, "token": lease.token}
    group = {"ids": [lease.task], "token": lease.token, "now": now}
    match move:
        case Finish(stage, _, status, reason):
            query = Query("finish", {**group, "stage": stage, "status": int(status), "reason": reason})
        case Advance(_, _, next_stage, queue, gates):
            query = Query("advance", {**group, "stage": next_stage, "queue": queue, "gates": gates})
        case HandOver(_, _, next_stage, queue):
            place = {"queue": queue, "gates": move.gates, "estimate": move.estimate}
            query = Query("hand_over", {**fence, "stage": next_stage, **place, "now": now})
        case TryAgain(stage, due_at, reason):
            change = {"stage": stage, "due_at": due_at, "reason": reason, "error": move.fingerprint}
            query = Query("try_again", {**fence, **change, "counted": int(not move.is_transient)})
        case Defer(stage, due_at, reason):
            query = Query("defer", {**fence, "stage": stage, "due_at": due_at, "reason": reason})
        case Crash(_, reason, status):
            ended_at = now if status.is_terminal else None
            change = {"status": int(status), "company": 0, "reason": reason, "ended_at": ended_at}
            query = Query("record_crash", {**fence, **change})
        case Keep() | Take() | Hold() | Fill() | Filled() | Expire() | Report():
            query = Query("touch", fence)
        case Release(queue, gates, estimate):
            query = Query("release", {**group, "queue": queue, "gates": gates, "estimate": estimate})
        case _:
            raise TypeError(f"not a move: {move!r}")
    return query


def _take(lease: Lease, move: Take, now: int) -> Op[NotYet | None]:
    if move.pause_ms is not None:
        return (yield from close_gate(move.gate, move.pause_ms, now))
    closed = yield from take_tokens(lease, move.gate, move.limits, move.tokens, now)
    if closed is None and move.budgets:
        return (yield from reserve_more(lease, move.budgets, now))
    return closed


def _decide_retry(lease: Lease, move: TryAgain) -> Op[TryAgain | Finish]:
    """Read how often a task has failed like this, and decide on its retry by that."""
    rows = yield Query("error_history", {"task": lease.task, "fingerprint": move.fingerprint})
    return after_same_errors(move, lease.kind, SameErrors(*rows[0])) if rows else move


def _park(lease: Lease, move: Park, now: int) -> Op[Rows]:
    """Park a task; it is due at once if its signal came after its attempt had looked."""
    rows = yield Query(
        "park",
        {
            "task": lease.task,
            "token": lease.token,
            "stage": move.stage,
            "waiting_for": move.waiting_for,
            "due_at": move.due_at,
            "reason": move.reason,
            "now": now,
        },
    )
    name = signal_of(move.waiting_for)
    if rows and name and (yield Query("newer_signal", {"task": lease.task, "name": name, "seen": lease.signals})):
        # The log shows it as parked; its due time brings it back in the same transaction.
        yield Query("end_wait", {"task": lease.task, "now": now})
        lane = lane_of(lease.queue, lease.kind, lease.gates)
        yield Many("wait_until_due", [(now, lease.task, lane, lease.band, lease.rank)])
        yield Query("notify")
    return rows


def _collect(lease: Lease, move: Move, batch: CommitBatch) -> None:
    """Collect what an accepted commit writes besides its task row."""
    match move:
        case Finish(stage, value, status, reason):
            if value is not None:
                batch.parts.append((lease, Part(stage, RESULT_PART, value)))
            batch.note(lease, Event.FINISHED, status, stage, reason, move.trace)
        case Advance(stage, value):
            batch.parts.append((lease, Part(stage, RESULT_PART, value)))
            batch.note(lease, Event.STAGE_COMMITTED, Status.RUNNING, stage)
        case HandOver(stage, value, _, queue):
            batch.parts.append((lease, Part(stage, RESULT_PART, value)))
            batch.note(lease, Event.HANDED_OVER, Status.PENDING, stage, queue)
            if move.joins:
                batch.joins.append((lease, move))
                return
            lane = lane_of(queue, lease.kind, move.gates)
            batch.placements.append(Placement(lease.task, lane, lease.band, lease.rank, batch.now))
        case TryAgain(stage, due_at, reason):
            batch.note(lease, Event.RETRY_SCHEDULED, Status.RETRYABLE, stage, reason, move.trace)
            batch.requeue(lease, due_at, move.over_at)
        case Defer(stage, due_at, reason):
            batch.note(lease, Event.DEFERRED, Status.PENDING, stage, reason)
            batch.requeue(lease, due_at, move.over_at)
        case Park(stage, waiting_for, due_at, _):
            batch.note(lease, Event.PARKED, Status.WAITING, stage, waiting_for)
            if due_at < NEVER:
                if (signal := signal_of(waiting_for)) is not None:  # the stage can see that the time ran out
                    batch.parts.append((lease, Part(stage, WAIT_PREFIX + signal, str(due_at).encode())))
                # Never straight into line: a task is woken only when it leaves the waiting room.
                batch.placements.append(place_after_stage(lease, max(due_at, batch.now + 1)))
        case Crash(stage, reason, status):
            batch.note(lease, Event.CRASHED, status, stage, reason)
            if not status.is_terminal:
                batch.requeue(lease, batch.now, move.over_at)
        case Expire(_, reason):
            batch.expired.setdefault(reason, []).append(lease.task)
        case Release():
            batch.note(lease, Event.RELEASED, Status.PENDING, lease.stage)
            batch.placements.append(place_after_release(lease, move, batch.now))
        case Keep(stage, parts):
            batch.parts += [(lease, part) for part in parts]
            if any(part.part == CURSOR_PART for part in parts):
                batch.note(lease, Event.PROGRESSED, Status.RUNNING, stage)
