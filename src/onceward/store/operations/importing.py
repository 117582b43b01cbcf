"""Tasks that another system has begun: each gets a lineage of its own, once, however often it is imported.

The primary key of identities decides. An import has a scope of its own there, and every old item a mark in it: a
second import of the item finds the task of the first.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onceward.model.lineage import EVERYWHERE, stays
from onceward.model.status import Event, Status
from onceward.model.task import NewTask, lane_of
from onceward.store.history import Entry, log
from onceward.store.lines.enqueue import reserve_ids, store_values
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Many, Op, Query


class OldTask(msgspec.Struct, frozen=True, gc=False):
    """A task of another system, as it will stand here."""

    task: NewTask
    mark: bytes
    """What it is known by in its import: a hash of its own id or key."""
    status: Status
    """Pending, or how it has ended."""
    ended_at: int | None
    reason: str | None
    note: str
    """What it was before, for its log."""


def import_tasks(scope: bytes, old: Sequence[OldTask], now: int) -> Op[list[tuple[int, bool]]]:
    """Import old tasks once; returns the task of each, and whether it is new."""
    ids = yield from reserve_ids(len(old))
    by_mark: dict[bytes, int] = {}
    for number, one in zip(ids, old, strict=True):
        by_mark.setdefault(one.mark, number)
    rows = yield Many("take_identities", [(scope, mark, number) for mark, number in sorted(by_mark.items())])
    holders = {bytes(mark): task for _, mark, task in rows}
    new = {number: one for number, one in zip(ids, old, strict=True) if holders[one.mark] == number}
    folded = yield from _fold(new, now)
    if folded:
        marks = sorted((scope, new[number].mark, holder) for number, holder in folded.items())
        yield Many("take_over_identities", marks)
        new = {number: one for number, one in new.items() if number not in folded}
    if new:
        yield from _insert(new, now)
    found: list[tuple[int, bool]] = []
    for number, one in zip(ids, old, strict=True):
        task = holders[one.mark]
        found.append((folded.get(task, task), number in new))
    return found


def _fold(new: dict[int, OldTask], now: int) -> Op[dict[int, int]]:
    """Take identities that are unique everywhere; returns the present holder for each new task that folds into one."""
    folded: dict[int, int] = {}
    wanted = [number for number, one in new.items() if one.task.unique == "everywhere"]
    for number in sorted(wanted, key=lambda number: new[number].task.identity):
        one = new[number]
        [(_, _, holder)] = yield Many("take_identities", [(EVERYWHERE, one.task.identity, number)])
        if holder == number or one.status.is_terminal:
            continue  # an old task that has ended takes no identity from a holder
        if holder in new:
            met = [(new[holder].status, new[holder].ended_at)]
        else:
            rows = yield Query("holders", {"ids": [holder]})
            met = [(Status(row[2]), row[3]) for row in rows]
        if any(stays(status, ended_at, one.task.fresh_for_ms, now) for status, ended_at in met):
            folded[number] = holder
        else:
            yield Many("take_over_identities", [(EVERYWHERE, one.task.identity, number)])
    return folded


def _insert(new: dict[int, OldTask], now: int) -> Op[None]:
    payloads = yield from store_values([one.task.payload for one in new.values()])
    yield Many(
        "insert_children",
        [
            (
                number, one.task.kind, one.task.version, one.task.queue, one.task.band, one.task.key,
                one.task.identity, *payload, one.task.lineage, None, 0, None, one.task.due_at, None, None, None, 0,
                one.task.gates, one.task.estimate,
            )
            for (number, one), payload in zip(new.items(), payloads, strict=True)
        ],
        (now,),
    )  # fmt: skip
    yield Many(
        "date_imported",
        [(number, one.task.created_at, int(one.status), one.ended_at, one.reason) for number, one in new.items()],
    )
    yield from log(
        Entry(number, 1, 0, Event.IMPORTED, one.status, None, None, now, one.note) for number, one in new.items()
    )
    yield from put_in_line(
        (
            Placement(number, lane_of(one.task.queue, one.task.kind, one.task.gates), one.task.band, 0, one.task.due_at)
            for number, one in new.items()
            if not one.status.is_terminal
        ),
        now,
    )
