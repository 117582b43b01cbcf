"""Batches: a counter of what is open, kept in the transactions that spawn and end tasks, and one end.

A transaction that spawns or ends tasks of a batch changes its counters in one statement. If two transactions end the
last two tasks at the same moment, the second waits for the row of the first, and it alone finds no task open: so a
batch ends once, and its follower is enqueued in the same transaction, exactly once.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from onceward.errors import ConfigError
from onceward.model.batch import BatchCounts, name_taken, outcome_of
from onceward.model.decide import batch_wait
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, NewTask, lane_of
from onceward.store.governance.budgets import count_roots, open_lineage_budgets, uncount_root
from onceward.store.history import Entry, log
from onceward.store.lineage.unique_roots import enqueue_root, take_root_identities
from onceward.store.lines.enqueue import reserve_ids, store_values
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Many, Op, Query, Rows

TASKS_AT_ONCE = 1_000
_ENDS = (Status.SUCCEEDED, Status.FILTERED, Status.SKIPPED, Status.FAILED, Status.CANCELLED)


class NewBatch(NamedTuple):
    """A batch that is about to be opened."""

    name: str
    then: NewTask | None = None
    deadline_ms: int | None = None
    max_tasks: int | None = None
    """Most tasks, with all that they spawn."""
    budget: int | None = None
    """What all of them may cost, in 10^-9 USD."""
    fails: bool = False
    """Whether tasks fail when that is spent."""


class OpenedBatch(NamedTuple):
    """A batch that has been opened, and the tasks that were made for it."""

    id: int
    tasks: list[int]


def open_batch(new: NewBatch, tasks: Sequence[NewTask], now: int) -> Op[OpenedBatch]:
    """Open a batch with all its tasks, or not at all. One without tasks has ended when this returns.

    Its follower is counted now by budgets of tasks: at the end of the batch no caller could be told of a refusal."""
    scope = None if (new.max_tasks, new.budget) == (None, None) else uuid.uuid4()
    then = None if new.then is None else msgspec.structs.replace(new.then, created_at=now)
    rows = yield Query(
        "insert_batch",
        {
            "name": new.name,
            "deadline_at": None if new.deadline_ms is None else now + new.deadline_ms,
            "scope": scope,
            "then_data": None if then is None else msgspec.json.encode(then),
            "opener": None,
            "now": now,
        },
    )
    if not rows:
        raise ConfigError(name_taken(new.name))
    batch: int = rows[0][0]
    if new.budget is not None:
        yield from open_lineage_budgets([(str(scope), new.budget, new.fails)])
    made = yield from _insert_roots(new.name, tasks, batch, scope, now)
    for why in (yield from count_roots({} if then is None else {0: then}, None, now)).values():
        raise ConfigError(f"batch {new.name!r} cannot be followed: {why}")
    if new.max_tasks is not None and made:
        if len(made) > new.max_tasks:
            raise ConfigError(
                f"batch {new.name!r} would begin with {len(made)} tasks, and its max_tasks is {new.max_tasks}"
            )
        yield Many("open_lineages", [(scope, made[0], 0, new.max_tasks, 0, NEVER, len(made), now)])
    yield from count_in_batches((), [batch] * len(made), now, opened=[batch])
    return OpenedBatch(batch, made)


def _insert_roots(name: str, tasks: Sequence[NewTask], batch: int, scope: uuid.UUID | None, now: int) -> Op[list[int]]:
    """Insert the roots of a batch: most at once, unique ones one by one. Returns the new ids, in the order given."""
    scopes = None if scope is None else scope.bytes
    made: dict[int, int] = {}
    refused: list[str] = []
    plain = []
    taken = yield from take_root_identities(tasks)
    for place, task in enumerate(tasks):
        if task.unique == "everywhere":
            mine = taken.pop(task.identity, None)
            number, is_new, why = yield from enqueue_root(task, now, batch, scopes, number=mine)
            if is_new and number is not None:
                made[place] = number
            refused += [] if why is None else [why]
        else:
            plain.append(place)
    refused += (yield from count_roots({place: tasks[place] for place in plain}, batch, now)).values()
    if refused:
        raise ConfigError(f"batch {name!r} cannot begin with {len(tasks)} tasks: {refused[0]}")
    for start in range(0, len(plain), TASKS_AT_ONCE):
        places = plain[start : start + TASKS_AT_ONCE]
        some = [tasks[place] for place in places]
        numbers = yield from reserve_ids(len(some))
        payloads = yield from store_values([task.payload for task in some])
        yield Many(
            "insert_children",
            [
                (
                    number, task.kind, task.version, task.queue, task.band, task.key, task.identity, *payload,
                    task.lineage, None, 0, batch, task.due_at, None,
                    None if task.bounds is None else msgspec.json.encode(task.bounds), scopes,
                    0 if task.bounds is None else 1, task.gates, task.estimate,
                )
                for number, task, payload in zip(numbers, some, payloads, strict=True)
            ],
            (now,),
        )  # fmt: skip
        line = {"lane": lane_of(some[0].queue, some[0].kind, some[0].gates), "band": some[0].band}
        [(rank,)] = yield Query("line_rank", line)  # one rank each: it takes turns (decision 29)
        yield from put_in_line(
            (
                Placement(number, lane_of(task.queue, task.kind, task.gates), task.band, rank + place, task.due_at)
                for place, (number, task) in enumerate(zip(numbers, some, strict=True), start)
            ),
            now,
        )
        made.update(zip(places, numbers, strict=True))
    return [made[place] for place in sorted(made)]


def count_in_batches(
    ended: Iterable[tuple[int, Status]], added: Iterable[int], now: int, *, opened: Iterable[int] = ()
) -> Op[None]:
    """Count added and ended tasks in their batches, and end the batches without an open task.

    Added and ended tasks change a counter together: a batch never ends while a task of it ends and leaves children.
    A batch that is opened without tasks ends at once.
    """
    changes = {batch: [0] * (1 + len(_ENDS)) for batch in opened}
    for batch in added:
        changes.setdefault(batch, [0] * (1 + len(_ENDS)))[0] += 1
    for batch, status in ended:
        changes.setdefault(batch, [0] * (1 + len(_ENDS)))[1 + _ENDS.index(status)] += 1
    yield from _change(changes, now)


def _change(changes: dict[int, list[int]], now: int) -> Op[None]:
    """Change the counters of batches and of the batches around them, which count the same tasks.

    Newest first, so inner batches before outer ones. The follower of an inner batch is woken before outer ones are
    locked: a cancellation locks a task before its batch, and locks have one order (decision 46).
    """
    if not changes:
        return
    total = {batch: list(numbers) for batch, numbers in changes.items()}
    around = set()
    for batch, outer in (yield Query("batches_around", {"ids": sorted(changes)})):
        mine = total.setdefault(outer, [0] * (1 + len(_ENDS)))
        total[outer] = [one + other for one, other in zip(mine, changes[batch], strict=True)]
        around.add(outer)
    together: list[list[int]] = []
    for batch in sorted(total, reverse=True):
        if not together or batch in around:
            together.append([])
        together[-1].append(batch)
    for some in together:
        rows = yield Many("count_batches", [(batch, *total[batch]) for batch in some])
        for batch in sorted([row[0] for row in rows if row[1] == 0], reverse=True):
            yield from _end(batch, now)


def _end(batch: int, now: int) -> Op[None]:
    """End a batch without an open task, and enqueue or wake its follower."""
    [(*numbers, name, reason, then_data, then_task)] = yield Query("ending_batch", {"batch": batch})
    if then_task is not None:
        yield from _wake(then_task, name, now)
    elif then_data is not None:
        asked = msgspec.json.decode(then_data, type=NewTask)
        then = msgspec.structs.replace(asked, created_at=now, due_at=now, counted=())
        then_task, is_new, _ = yield from enqueue_root(then, now)
        if not is_new:
            yield from uncount_root(asked, asked.created_at)
    status = outcome_of(BatchCounts(*numbers), is_overdue=reason is not None)
    yield Query("end_batch", {"batch": batch, "status": int(status), "then_task": then_task, "now": now})


def _wake(task: int, name: str, now: int) -> Op[None]:
    """Wake the follower of a batch if it still waits for that; it may have been cancelled, or be linked work."""
    rows = yield Query("wake_follower", {"task": task, "waiting_for": batch_wait(name), "now": now})
    yield from log(
        Entry(task, run, fence, Event.WOKEN, Status.PENDING, stage, None, now, "its batch has ended")
        for task, run, fence, _, _, _, _, stage in rows
    )
    yield from put_in_line(
        (Placement(task, lane_of(queue, kind), band, rank, now) for task, _, _, kind, queue, band, rank, _ in rows), now
    )


def lock_ended(task: int) -> Op[tuple[int, Status] | None]:
    """Lock an ended task; returns the batch that counts its end, and the status counted. None if there is none."""
    rows = yield Query("lock_standing", {"task": task})
    if not rows or rows[0][0] is None or not Status(rows[0][1]).is_terminal:
        return None
    return rows[0][0], Status(rows[0][1])


def count_reopened(before: tuple[int, Status] | None, now: int) -> Op[None]:
    """Count a reopened task as open again, unless its batch has ended: that stays as it ended."""
    if before is not None:
        numbers = [0] * (1 + len(_ENDS))
        numbers[1 + _ENDS.index(before[1])] = -1
        yield from _change({before[0]: numbers}, now)


def read_batches(*, name: str | None = None, status: int | None = None, limit: int = 20) -> Op[Rows]:
    """Batches as they stand, newest first; with a name, that one."""
    return (yield Query("report_batches", {"name": name, "status": status, "limit": limit}))
