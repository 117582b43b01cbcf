"""The deadline of a batch: when it is over, the batch has failed, and so has every task of it that is still open.

Looked at now and then by every worker; more than once does no harm. The batch is marked first, in a transaction of its
own, because tasks are locked before batches; then its tasks fail in portions, and with the last of them it ends.
"""

from __future__ import annotations

from functools import partial

from onceward.logs import EngineLog
from onceward.model.batch import overdue_reason
from onceward.model.status import Event, Status
from onceward.store.families import Ended, after_end
from onceward.store.log import Entry, log
from onceward.store.op import Op, Query
from onceward.store.session import Session, TryAgainLater

TASKS_AT_ONCE = 500

logger = EngineLog("onceward.batches")


class _Locked(Exception):
    """Somebody is in the middle of a transaction with a task that is to fail: it can wait until the next look."""


def expire_batches(session: Session, now: int) -> int:
    """Fail the batches whose deadline is over, with their open tasks; returns how many tasks that were."""
    expired = 0
    for batch, name, created_at, deadline_at in session.run(Query("overdue_batches", {"now": now})):
        reason = overdue_reason(deadline_at - created_at)
        session.transact(partial(mark_overdue, batch, reason))
        after = 0
        try:
            # Whoever comes to be behind us, by a commit that was late, fails at the next look.
            while failed := session.transact(partial(expire_tasks, batch, reason, now, after)):
                expired += len(failed)
                after = failed[-1]
        except _Locked as error:
            logger.warning("an overdue batch cannot be ended yet", batch=name, error=str(error))
        else:
            logger.warning("batch failed at its deadline", batch=name, reason=reason)
    return expired


def mark_overdue(batch: int, reason: str) -> Op[None]:
    """A batch has exceeded its deadline: however its last task ends, it has failed."""
    yield Query("mark_overdue", {"batch": batch, "reason": reason})


def expire_tasks(batch: int, reason: str, now: int, after: int = 0) -> Op[list[int]]:
    """Fail the next open tasks of a batch, after an id; returns theirs.

    Nothing of them is written any more, also of those that are running.
    """
    yield Query("wait_briefly")
    try:
        found = yield Query("open_in_batch", {"batch": batch, "after": after, "count": TASKS_AT_ONCE})
        ids = sorted(row[0] for row in found)
        yield Query("lock_parents", {"ids": ids})
        rows = yield Query("expire_tasks", {"ids": ids, "reason": reason, "now": now})
        yield from log(
            Entry(task, run, fence, Event.EXPIRED, Status.FAILED, stage, None, now, reason)
            for task, run, fence, stage, _, _ in rows
        )
        yield Query("forget_joins", {"ids": ids})
        yield from after_end([Ended(task, Status.FAILED, awaited, of) for task, _, _, _, awaited, of in rows], now)
        yield Query("notify")
    except TryAgainLater as error:
        raise _Locked("a task of it is in the middle of a transaction") from error
    return ids
