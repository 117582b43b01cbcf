"""Ends tasks at their time limits, and the open tasks of batches and lineages at their deadlines.

Every worker looks now and then; repeated looks do no harm. What fails together fails in one transaction: a batch and
its open tasks, as long as they are not too many to be locked at once. The fence refuses a late success: its token is
gone.

A started task whose pipeline has an expiry stage does not end at once: it goes back in line for that stage alone, and
then fails with the reason of its expiry, whatever the stage returns.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from onceward.model.status import Event, Status
from onceward.model.task import lane_of
from onceward.model.time_limits import exceeded, limit_at_expiry
from onceward.store.attempts.engine_failures import EngineFailure
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import TryAgainLater
from onceward.store.history import Entry, log
from onceward.store.lineage.joins import EndedTask, propagate_ends
from onceward.store.lineage.trees import Head
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.lines.pause_scopes import read_pauses
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_uuid
from onceward.support.logs import EngineLog

TASKS_AT_ONCE = 5_000

ReportEnded = Callable[[Sequence[EngineFailure]], None]
"""Receives the ended tasks after the transaction has committed."""

logger = EngineLog("onceward.expiry")


class ExpiryResult(NamedTuple):
    """The number of tasks at their limit, and those of them that have ended."""

    tasks: int = 0
    ended: tuple[EngineFailure, ...] = ()


class _Locked(Exception):
    """Another transaction has locked a task that is to fail; the next look tries again."""


def _report_nothing(_: Sequence[EngineFailure]) -> None:
    pass


def expire(ids: Sequence[int], reason: str, now: int, batch: int | None = None) -> Op[tuple[EngineFailure, ...]]:
    """Fail the open ones of some tasks, or send them into their expiry stage; returns those that have ended. A given
    batch is marked as overdue."""
    yield Query("lock_tasks", {"ids": sorted(ids)})
    yield Query("leave_waiting_room", {"ids": sorted(ids)})
    last = yield Query("expire_into_last_stage", {"ids": sorted(ids), "reason": reason, "now": now})
    going_on = {row[0] for row in last}
    ended = yield Query("expire_tasks", {"ids": sorted(set(ids) - going_on), "reason": reason, "now": now})
    entries = [
        Entry(task, run, fence, Event.EXPIRED, Status.PENDING, stage, None, now, reason)
        for task, run, fence, stage, *_ in last
    ]
    entries += [
        Entry(task, run, fence, Event.EXPIRED, Status.FAILED, stage, None, now, said)
        for task, run, fence, stage, _, _, said in ended
    ]
    yield from log(entries)
    yield Query("forget_joins", {"ids": [one.task for one in entries]})
    if batch is not None:
        yield Query("mark_overdue", {"batch": batch, "reason": reason})
    yield from propagate_ends(
        [EndedTask(task, Status.FAILED, awaited, of) for task, _, _, _, awaited, of, _ in ended], now
    )
    yield from put_in_line(
        (Placement(task, lane_of(queue, kind), band, rank, now) for task, *_, kind, queue, band, rank in last), now
    )
    yield Query("notify")
    return tuple(EngineFailure(task, Status.FAILED, said) for task, _, _, _, _, _, said in ended)


# Batches


def expire_batches(session: Session, now: int, report_ended: ReportEnded = _report_nothing) -> int:
    """Fail overdue batches with their open tasks; returns the number of tasks."""
    expired = 0
    for batch, name, created_at, deadline_at in session.read(Query("overdue_batches", {"now": now})):
        reason = exceeded(deadline_at - created_at, "batch")
        before = expired
        try:
            while (failed := session.transact(partial(expire_batch, batch, reason, now))).tasks:
                expired += failed.tasks
                report_ended(failed.ended)
        except _Locked as error:
            logger.warning("an overdue batch cannot be ended yet", batch=name, error=str(error))
        if expired > before:
            logger.warning("batch failed at its deadline", batch=name, reason=reason, tasks=expired - before)
    return expired


def expire_batch(batch: int, reason: str, now: int) -> Op[ExpiryResult]:
    """Fail a batch and its open tasks; at most as many as can be locked at once."""
    yield Query("wait_briefly")
    try:
        found = yield Query("open_in_batch", {"batch": batch, "after": 0, "count": TASKS_AT_ONCE})
        ended = (yield from expire([row[0] for row in found], reason, now, batch)) if found else ()
    except TryAgainLater as error:
        raise _Locked("a task of it is in the middle of a transaction") from error
    return ExpiryResult(len(found), ended)


# Lineages


def expire_lineages(session: Session, now: int, report_ended: ReportEnded = _report_nothing) -> int:
    """Fail the open tasks of overdue lineages and branches; returns their number."""
    expired = 0
    for found, root, created_at, deadline_at in session.read(Query("overdue_lineages", {"now": now})):
        lineage = as_uuid(found)
        head = session.ask(partial(_head, lineage, root))
        what = "lineage" if head.lineage == lineage else "branch"
        reason = exceeded(deadline_at - created_at, what)
        before = expired
        try:
            while not session.transact(partial(close_lineage, lineage, head, now)):
                failed = session.transact(partial(expire_lineage, lineage, head, reason, now))
                expired += failed.tasks
                report_ended(failed.ended)
        except _Locked as error:
            logger.warning(f"an overdue {what} cannot be ended yet", lineage=str(head.lineage), error=str(error))
        if expired > before:
            logger.warning(f"{what} failed at its deadline", lineage=str(head.lineage), tasks=expired - before)
    return expired


def _head(lineage: uuid.UUID, root: int) -> Op[Head]:
    """The head of a lineage, or of a branch whose deadline stands under an id of its own."""
    rows = yield Query("head_by_task", {"task": root})
    of, depth = (as_uuid(rows[0][0]), rows[0][2]) if rows else (lineage, 0)
    return Head(of, root, depth, whole=of == lineage)


def _still_open(head: Head, count: int) -> Query:
    if head.whole:
        return Query("open_in_lineage", {"lineage": head.lineage, "after": 0, "count": count})
    return Query("open_in_branch", {**head.params, "count": count})


def close_lineage(lineage: uuid.UUID, head: Head, now: int) -> Op[bool]:
    """Close an overdue lineage or branch to spawns if no task of it is open. False while tasks are open; true if it is
    closed, or no longer overdue."""
    if not (yield Query("close_lineage", {"lineage": lineage, "overdue": 1, "now": now})):
        return True
    if not (yield _still_open(head, 1)):
        return True
    yield Query("close_lineage", {"lineage": lineage, "overdue": 0, "now": now})
    return False


def expire_lineage(lineage: uuid.UUID, head: Head, reason: str, now: int) -> Op[ExpiryResult]:
    """Fail open tasks of a lineage or branch; at most as many as can be locked at once."""
    yield Query("wait_briefly")
    try:
        found = yield _still_open(head, TASKS_AT_ONCE)
        ids = [row[0] for row in found]
        yield Query("lock_tasks", {"ids": ids})
        if not (yield Query("is_overdue", {"lineage": lineage, "now": now})):
            return ExpiryResult()
        ended = yield from expire(ids, reason, now)
    except TryAgainLater as error:
        raise _Locked("a task of it is in the middle of a transaction") from error
    return ExpiryResult(len(found), ended)


# Tasks


def expire_tasks(
    session: Session, limits_ms: Mapping[str, int], now: int, report_ended: ReportEnded = _report_nothing
) -> int:
    """Fail the tasks in line of these kinds that are at their own time limit; returns their number.

    The limit of a running task is checked by its worker.
    """
    expired = 0
    while True:
        wanted = {"now": now, "kinds": sorted(limits_ms), "count": TASKS_AT_ONCE}
        rows = session.read(Query("due_time_limits", wanted))
        if not rows:
            return expired
        looked_at = [(at, task) for at, task, _ in rows]
        try:
            failed = session.transact(partial(expire_overdue, looked_at, limits_ms, now))
            expired += failed.tasks
            report_ended(failed.ended)
        except _Locked as error:
            logger.warning("a task whose time is over cannot be ended yet", error=str(error))
            return expired


def expire_overdue(looked_at: Sequence[tuple[int, int]], limits_ms: Mapping[str, int], now: int) -> Op[ExpiryResult]:
    """Check tasks whose time may be over: fail those at their limit, and schedule the next check of the others. A pause
    stops the clock (decision 27)."""
    yield Query("wait_briefly")
    try:
        ids = sorted({task for _, task in looked_at})
        yield Query("lock_tasks", {"ids": ids})
        over: dict[str, list[int]] = {}
        ended: tuple[EngineFailure, ...] = ()
        later: list[tuple[int, int]] = []
        held: list[int] = []
        pauses = yield from read_pauses()
        for task, kind, queue, gates, paused, clock_at, expiry in (yield Query("read_clocks", {"ids": ids})):
            over_at = clock_at + (limits_ms[kind] if expiry is None else limit_at_expiry(limits_ms[kind]))
            if paused or (pauses and pauses.hold(lane_of(queue, kind), gates)):
                held.append(task)
            elif over_at <= now:
                over.setdefault(kind, []).append(task)
            else:
                later.append((over_at, task))
        if held:
            yield Query("stop_clocks", {"ids": held})
        yield Many("drop_time_limits", sorted(set(looked_at)))
        yield Many("limit_times", sorted(later))
        for kind, tasks in sorted(over.items()):
            ended += yield from expire(tasks, exceeded(limits_ms[kind]), now)
    except TryAgainLater as error:
        raise _Locked("it is in the middle of a transaction") from error
    return ExpiryResult(sum(map(len, over.values())), ended)


def schedule_time_checks(ids: Sequence[int], now: int) -> Op[None]:
    """Schedule a check of the time limits of tasks that are back in line, by a worker that knows their kinds."""
    yield Many("limit_times", [(now, task) for task in sorted(ids)])


def next_time_check() -> Op[int | None]:
    """The time of the next check of a time limit; None without one."""
    [(at,)] = yield Query("next_time_limit")
    return None if at is None else int(at)


def store_kinds_at_expiry(having: Sequence[str], others: Sequence[str]) -> Op[None]:
    """Store which kinds of a worker have an expiry stage, and which have none."""
    yield Many("add_kinds_at_expiry", [(kind,) for kind in sorted(having)])
    yield Query("drop_kinds_at_expiry", {"kinds": sorted(others)})
