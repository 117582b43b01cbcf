"""What ends by time: tasks, and those of batches and lineages whose deadline is over.

Looked at now and then by every worker; more than once does no harm. What fails together fails in one transaction: a
batch and its open tasks, as long as they are not too many to be locked at once. A late success comes to nothing: the
token of its attempt is gone.

A task that had begun, and whose pipeline has something to do at expiry, does not end at once: it goes back in line for
that alone, and whatever comes of it, fails with the reason for which it came there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from onceward.model.status import Event, Status
from onceward.model.task import lane_of
from onceward.model.time_limits import exceeded, limit_at_expiry
from onceward.store.attempts.fallen import Fallen
from onceward.store.drivers.session import Session, TryAgainLater
from onceward.store.history import Entry, log
from onceward.store.lineage.joins import Ended, after_end
from onceward.store.lineage.trees import Head
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.lines.pause_scopes import read_pauses
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_uuid
from onceward.support.logs import EngineLog

TASKS_AT_ONCE = 5_000

Tell = Callable[[Sequence[Fallen]], None]
"""Who hears of the tasks that have ended, once that is committed."""

logger = EngineLog("onceward.expiry")


class Expired(NamedTuple):
    """How many tasks were found whose time is over, and those of them that have ended by that."""

    tasks: int = 0
    ended: tuple[Fallen, ...] = ()


class _Locked(Exception):
    """Somebody is in the middle of a transaction with a task that is to fail: it can wait until the next look."""


def _tell_nobody(_: Sequence[Fallen]) -> None:
    pass


def expire(ids: Sequence[int], reason: str, now: int, batch: int | None = None) -> Op[tuple[Fallen, ...]]:
    """End those of some tasks that are open, because time is over; returns which have ended. With the batch whose time
    that is."""
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
    yield from after_end([Ended(task, Status.FAILED, awaited, of) for task, _, _, _, awaited, of, _ in ended], now)
    yield from put_in_line(
        (Placement(task, lane_of(queue, kind), band, rank, now) for task, *_, kind, queue, band, rank in last), now
    )
    yield Query("notify")
    return tuple(Fallen(task, Status.FAILED, said) for task, _, _, _, _, _, said in ended)


# Batches


def expire_batches(session: Session, now: int, tell: Tell = _tell_nobody) -> int:
    """Fail the batches whose deadline is over, with their open tasks; returns how many tasks that were."""
    expired = 0
    for batch, name, created_at, deadline_at in session.read(Query("overdue_batches", {"now": now})):
        reason = exceeded(deadline_at - created_at, "batch")
        before = expired
        try:
            while (failed := session.transact(partial(expire_batch, batch, reason, now))).tasks:
                expired += failed.tasks
                tell(failed.ended)
        except _Locked as error:
            logger.warning("an overdue batch cannot be ended yet", batch=name, error=str(error))
        if expired > before:
            logger.warning("batch failed at its deadline", batch=name, reason=reason, tasks=expired - before)
    return expired


def expire_batch(batch: int, reason: str, now: int) -> Op[Expired]:
    """Fail a batch and its open tasks; at most so many as can be locked at once."""
    yield Query("wait_briefly")
    try:
        found = yield Query("open_in_batch", {"batch": batch, "after": 0, "count": TASKS_AT_ONCE})
        ended = (yield from expire([row[0] for row in found], reason, now, batch)) if found else ()
    except TryAgainLater as error:
        raise _Locked("a task of it is in the middle of a transaction") from error
    return Expired(len(found), ended)


# Lineages


def expire_lineages(session: Session, now: int, tell: Tell = _tell_nobody) -> int:
    """Fail the open tasks of lineages, and of branches of them, whose deadline is over; returns how many that were."""
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
                tell(failed.ended)
        except _Locked as error:
            logger.warning(f"an overdue {what} cannot be ended yet", lineage=str(head.lineage), error=str(error))
        if expired > before:
            logger.warning(f"{what} failed at its deadline", lineage=str(head.lineage), tasks=expired - before)
    return expired


def _head(lineage: uuid.UUID, root: int) -> Op[Head]:
    """Where a lineage begins, or the branch of one that has its deadline under an id of its own."""
    rows = yield Query("head_by_task", {"task": root})
    of, depth = (as_uuid(rows[0][0]), rows[0][2]) if rows else (lineage, 0)
    return Head(of, root, depth, whole=of == lineage)


def _still_open(head: Head, count: int) -> Query:
    if head.whole:
        return Query("open_in_lineage", {"lineage": head.lineage, "after": 0, "count": count})
    return Query("open_in_branch", {**head.params, "count": count})


def close_lineage(lineage: uuid.UUID, head: Head, now: int) -> Op[bool]:
    """Let nobody spawn in a lineage or branch any more, if nothing of it is open; whether that was so, or its deadline
    is no longer over: then nothing is left to be done."""
    if not (yield Query("close_lineage", {"lineage": lineage, "overdue": 1, "now": now})):
        return True
    if not (yield _still_open(head, 1)):
        return True
    yield Query("close_lineage", {"lineage": lineage, "overdue": 0, "now": now})
    return False


def expire_lineage(lineage: uuid.UUID, head: Head, reason: str, now: int) -> Op[Expired]:
    """Fail open tasks of a lineage or branch; at most so many as can be locked at once."""
    yield Query("wait_briefly")
    try:
        found = yield _still_open(head, TASKS_AT_ONCE)
        ids = [row[0] for row in found]
        yield Query("lock_tasks", {"ids": ids})
        if not (yield Query("is_overdue", {"lineage": lineage, "now": now})):
            return Expired()
        ended = yield from expire(ids, reason, now)
    except TryAgainLater as error:
        raise _Locked("a task of it is in the middle of a transaction") from error
    return Expired(len(found), ended)


# Tasks


def expire_tasks(session: Session, limits_ms: Mapping[str, int], now: int, tell: Tell = _tell_nobody) -> int:
    """Fail the tasks of these kinds that are back in line and whose own time is over; returns how many that were.

    Those that are running are looked at by whoever runs them.
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
            tell(failed.ended)
        except _Locked as error:
            logger.warning("a task whose time is over cannot be ended yet", error=str(error))
            return expired


def expire_overdue(looked_at: Sequence[tuple[int, int]], limits_ms: Mapping[str, int], now: int) -> Op[Expired]:
    """Look at tasks whose time may be over: fail those where it is, and look at the others when it will be. What an
    operator has paused keeps its time."""
    yield Query("wait_briefly")
    try:
        ids = sorted({task for _, task in looked_at})
        yield Query("lock_tasks", {"ids": ids})
        over: dict[str, list[int]] = {}
        ended: tuple[Fallen, ...] = ()
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
    return Expired(sum(map(len, over.values())), ended)


def look_again_at(ids: Sequence[int], now: int) -> Op[None]:
    """Whoever knows how long these tasks may take looks at them: they are back in line, and may have had their time."""
    yield Many("limit_times", [(now, task) for task in sorted(ids)])


def next_look_at() -> Op[int | None]:
    """When the time of a task may be over next."""
    [(at,)] = yield Query("next_time_limit")
    return None if at is None else int(at)


def know_last_stages(having: Sequence[str], others: Sequence[str]) -> Op[None]:
    """Remember which kinds have something to do at expiry, of those that a worker knows."""
    yield Many("add_kinds_at_expiry", [(kind,) for kind in sorted(having)])
    yield Query("drop_kinds_at_expiry", {"kinds": sorted(others)})
