"""What a person or a program does to a task from outside: cancel, retry, signal, wake."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.errors import IllegalTransition, TaskNotFound
from onceward.model.decide import code_wait, readable, signal_wait
from onceward.model.status import Event, Status, check_transition
from onceward.model.task import lane_of
from onceward.store.lines import Standing, stand
from onceward.store.log import Entry, log
from onceward.store.op import Op, Query, Rows


def cancel(task: int, reason: str, now: int) -> Op[None]:
    """Cancel a task that has not ended. After this nothing of it is written any more, also if it is running."""
    rows = yield Query("cancel", {"task": task, "reason": readable(reason), "now": now})
    if not rows:
        yield from _refuse(task, Event.CANCELLED, Status.CANCELLED)
    [(_, run, fence, stage)] = rows
    yield from log([Entry(task, run, fence, Event.CANCELLED, Status.CANCELLED, stage, None, now, readable(reason))])
    yield Query("notify")


def reopen(
    task: int, *, fresh: bool, stage: str | None, forget: Sequence[str], now: int, queue: str | None = None
) -> Op[None]:
    """Open an ended task again, keeping its finished stages, or fresh, or from a stage on, which has a queue."""
    rows = yield Query("reopen", {"task": task, "fresh": int(fresh), "stage": stage, "queue": queue, "now": now})
    if not rows:
        yield from _refuse(task, Event.REOPENED, Status.PENDING)
    [(_, run, fence, kind, queue, band, rank, current)] = rows
    if fresh:  # what was approved was the run before this one
        yield Query("drop_signals", {"task": task})
    for name in forget:
        yield Query("drop_checkpoints", {"task": task, "run": run, "stage": name})
    note = "fresh" if fresh else "keeping finished stages"
    if stage:
        note = f"from stage {stage}, forgetting {', '.join(forget)}"
    yield from log([Entry(task, run, fence, Event.REOPENED, Status.PENDING, current, None, now, note)])
    yield from stand([Standing(task, lane_of(queue, kind), band, rank, now)], now)


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
        yield from wake([task], f"signal {name}", now)


def wake(tasks: Sequence[int], note: str, now: int) -> Op[int]:
    """Put waiting tasks back in line; returns how many were waiting."""
    rows: Rows = yield Query("wake", {"ids": list(tasks), "now": now})
    yield from log(
        Entry(task, run, fence, Event.WOKEN, Status.PENDING, stage, None, now, note)
        for task, run, fence, _, _, _, _, stage in rows
    )
    yield from stand(
        (Standing(task, lane_of(queue, kind), band, rank, now) for task, _, _, kind, queue, band, rank, _ in rows), now
    )
    return len(rows)


def wake_for_code(kind: str, fingerprint: str, now: int) -> Op[int]:
    """Wake the tasks of a kind whose stored data did not fit code other than this."""
    woken = 0
    while rows := (yield Query("waiting_for_code", {"kind": kind, "present": code_wait(fingerprint)})):
        woken += yield from wake([row[0] for row in rows], "the code has changed", now)
    return woken


def _refuse(task: int, event: Event, wanted: Status) -> Op[None]:
    rows = yield Query("status_of", {"task": task})
    if not rows:
        raise TaskNotFound(task)
    check_transition(event, Status(rows[0][0]), wanted)
    raise IllegalTransition(f"task {task} changed while it was looked at; try again")
