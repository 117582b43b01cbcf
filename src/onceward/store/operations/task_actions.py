"""Operations on tasks from outside: cancel, reopen, signal, wake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.errors import IllegalTransition, TaskNotFound
from onceward.model.decide import code_wait, safe_text, signal_wait
from onceward.model.status import Event, Status, check_transition
from onceward.model.task import lane_of
from onceward.store.history import Entry, log
from onceward.store.lineage.batches import count_reopened, lock_ended
from onceward.store.lineage.joins import EndedTask, WaitingTask, propagate_ends, wait_for_children
from onceward.store.lineage.pause_lineage import OPEN, paused_above
from onceward.store.lineage.reopen_waits import read_last_wait
from onceward.store.lineage.stage_batches import wait_for_batch
from onceward.store.lineage.trees import Head
from onceward.store.lineage.unique_roots import take_back_identities
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Op, Query, Rows


def cancel(task: int, reason: str, now: int) -> Op[None]:
    """Cancel a task that has not ended. After this nothing of it is written any more, also if it is running."""
    rows = yield Query("cancel", {"task": task, "reason": safe_text(reason), "now": now})
    if not rows:
        yield from _refuse(task, Event.CANCELLED, Status.CANCELLED)
    [(_, run, fence, stage, awaited, batch)] = rows
    yield from log([Entry(task, run, fence, Event.CANCELLED, Status.CANCELLED, stage, None, now, safe_text(reason))])
    yield Query("forget_joins", {"ids": [task]})
    yield from propagate_ends([EndedTask(task, Status.CANCELLED, awaited, batch)], now)
    yield Query("notify")


def cancel_all(head: Head, reason: str, now: int) -> Op[list[int]]:
    """Cancel the open tasks of a part of a lineage; returns them.

    Parents that are not cancelled yet may spawn meanwhile, so it looks until no task is open.
    """
    why = safe_text(reason)
    ended: list[EndedTask] = []
    while found := (yield Query("in_subtree", {**head.params, **OPEN, "paused": None})):
        ids = [row[0] for row in found]
        yield Query("lock_tasks", {"ids": ids})
        rows = yield Query("cancel_many", {"ids": ids, "reason": why, "now": now})
        yield from log(
            Entry(task, run, fence, Event.CANCELLED, Status.CANCELLED, stage, None, now, why)
            for task, run, fence, stage, _, _ in rows
        )
        ended += [EndedTask(task, Status.CANCELLED, awaited, batch) for task, *_, awaited, batch in rows]
    if ended:
        yield Query("forget_joins", {"ids": [one.task for one in ended]})
        yield from propagate_ends(ended, now)
        yield Query("notify")
    return sorted(one.task for one in ended)


class RetryResults(NamedTuple):
    """The reopened tasks, and the refused ones with the reason."""

    tasks: list[int]
    refused: dict[int, str]


def failed_tasks(head: Head) -> Op[list[int]]:
    """The failed tasks of a part of a lineage."""
    failed = {"least": int(Status.FAILED), "most": int(Status.FAILED), "paused": None}
    return [row[0] for row in (yield Query("in_subtree", {**head.params, **failed}))]


def reopen_failed(tasks: Sequence[int], now: int) -> Op[RetryResults]:
    """Reopen the failed ones of some tasks, keeping their finished stages; a refused one does not stop the others."""
    yield from paused_above(tasks)  # all are locked at once, and those above them
    retried = RetryResults([], {})
    for task in tasks:
        rows = yield Query("status_of", {"task": task})
        if not rows or rows[0][0] != Status.FAILED:
            continue  # another process was faster
        yield Query("savepoint")
        try:
            yield from reopen(task, fresh=False, stage=None, forget=(), now=now)
        except IllegalTransition as error:
            yield Query("rollback_to_savepoint")
            retried.refused[task] = str(error)
        else:
            retried.tasks.append(task)
        yield Query("release_savepoint")
    return retried


def reopen(
    task: int,
    *,
    fresh: bool,
    stage: str | None,
    forget: Sequence[str],
    now: int,
    queue: str | None = None,
    joins: bool = False,
) -> Op[None]:
    """Reopen an ended task: keeping its finished stages, fresh, or from a stage on, with its queue and join.

    A task that ended while it waited waits again, for what is still open; a task that still waits need not any more."""
    above = yield from paused_above([task])
    counted = yield from lock_ended(task)
    yield from take_back_identities(task)  # before batches are locked, as the spawn guard does
    wait = yield from read_last_wait(task)
    rows = yield Query("reopen", {"task": task, "fresh": int(fresh), "stage": stage, "queue": queue, "now": now})
    if not rows:
        yield from _refuse(task, Event.REOPENED, Status.PENDING)
    [(_, run, fence, kind, queue, band, rank, current)] = rows
    yield Query("forget_joins", {"ids": [task]})
    yield Query("drop_passing_parts", {"task": task})
    if fresh:  # what was approved was the run before this one
        yield Query("drop_signals", {"task": task})
    for name in forget:
        yield Query("drop_checkpoints", {"task": task, "run": run, "stage": name})
    note = "fresh" if fresh else "keeping finished stages"
    if stage:
        note = f"from stage {stage}, forgetting {', '.join(forget)}"
    yield from log([Entry(task, run, fence, Event.REOPENED, Status.PENDING, current, None, now, note)])
    if above[task]:
        yield Query("pause_tasks", {"ids": [task]})
    place = WaitingTask(task, run, fence, current)
    is_at_join = wait is not None and (joins if stage is not None else wait.children and not fresh)
    if wait is not None and wait.batch is not None:
        yield from wait_for_batch(place, wait.batch, now)
    elif not (is_at_join and (yield from wait_for_children(place, now))):
        yield from put_in_line([Placement(task, lane_of(queue, kind), band, rank, now)], now)
    yield from count_reopened(counted, now)  # children are locked before batches


def signal(task: int, name: str, value: bytes, now: int) -> Op[None]:
    """Store a signal for a task, before or while it waits for it, and wake it if it does."""
    rows = yield Query("count_signal", {"task": task})
    if not rows:
        raise TaskNotFound(task)
    [(_, status, waiting_for, number, run, fence, *_, stage)] = rows
    if Status(status).is_terminal:
        raise IllegalTransition(f"task {task} is {Status(status).word}; a signal cannot reach it any more")
    yield Query("store_signal", {"task": task, "name": name, "number": number, "value": value, "now": now})
    yield from log([Entry(task, run, fence, Event.SIGNALLED, Status(status), stage, None, now, name)])
    if waiting_for == signal_wait(name):
        yield from _woken((yield Query("wake", {"ids": [task], "now": now})), f"signal {name}", now)


def _woken(rows: Rows, note: str, now: int) -> Op[None]:
    """Put tasks that no longer wait back in line."""
    yield from log(
        Entry(task, run, fence, Event.WOKEN, Status.PENDING, stage, None, now, note)
        for task, run, fence, _, _, _, _, stage in rows
    )
    yield from put_in_line(
        (Placement(task, lane_of(queue, kind), band, rank, now) for task, _, _, kind, queue, band, rank, _ in rows), now
    )


def wake_for_code(kind: str, fingerprint: str, now: int) -> Op[int]:
    """Wake the tasks of a kind that wait for code, unless they have tried this very version."""
    present = code_wait(fingerprint)
    woken = 0
    while found := (yield Query("waiting_for_code", {"kind": kind, "present": present})):
        ids = [row[0] for row in found]
        rows = yield Query("wake_for_code", {"ids": ids, "present": present, "now": now})
        yield from _woken(rows, "the code has changed", now)
        woken += len(rows)
    return woken


def _refuse(task: int, event: Event, wanted: Status) -> Op[None]:
    rows = yield Query("status_of", {"task": task})
    if not rows:
        raise TaskNotFound(task)
    check_transition(event, Status(rows[0][0]), wanted)
    raise IllegalTransition(f"task {task} changed while it was looked at; try again")
