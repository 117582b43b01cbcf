"""Enqueues roots with limits of their own, or with an identity that is unique everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from onceward.errors import IllegalTransition
from onceward.model.lineage import EVERYWHERE, stays
from onceward.model.status import Status
from onceward.model.task import NewTask, lane_of
from onceward.store.governance.budgets import count_roots, open_lineage_budgets
from onceward.store.lineage.spawn_requests import Identity
from onceward.store.lines.enqueue import reserve_ids, store_values
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Many, Op, Query, Row
from onceward.store.rows import as_bytes


class RootResult(NamedTuple):
    """The task of a root: new, existing, or none, because a budget of tasks is spent."""

    task: int | None
    is_new: bool
    refused: str | None = None


def take_root_identities(tasks: Iterable[NewTask]) -> Op[dict[bytes, int]]:
    """Take the identities of several unique roots at once and sorted, against deadlocks with another order.

    Returns the new task number for each identity that was free."""
    wanted = list(dict.fromkeys(task.identity for task in tasks if task.unique == "everywhere"))
    if len(wanted) < 2:
        return {}
    numbers = dict(zip(wanted, (yield from reserve_ids(len(wanted))), strict=True))
    hashes = sorted(wanted)
    ours = {"scope": EVERYWHERE, "hashes": hashes, "tasks": [numbers[hashed] for hashed in hashes]}
    rows = yield Query("take_root_identities", ours)
    return {bytes(hashed): task for hashed, task in rows if task == numbers[bytes(hashed)]}


def enqueue_root(
    task: NewTask,
    now: int,
    batch: int | None = None,
    scopes: bytes | None = None,
    *,
    number: int | None = None,
) -> Op[RootResult]:
    """Enqueue a root with limits, or a unique one; an existing task is returned, and no budget counts it again. With a
    number, its identity is taken already under that."""
    if number is None:
        [number] = yield from reserve_ids(1)
    holder = number
    if task.unique == "everywhere":
        [(_, _, holder)] = yield Many("take_identities", [(EVERYWHERE, task.identity, number)])
        if holder != number:
            found = yield Query("holders", {"ids": [holder]})
            if found and stays(Status(found[0][2]), found[0][3], task.fresh_for_ms, now):
                return RootResult(holder, is_new=False)
    for why in (yield from count_roots({number: task}, batch, now)).values():
        if task.unique == "everywhere" and holder == number:
            yield Many("drop_identities", [(EVERYWHERE, task.identity, number)])
        return RootResult(None, is_new=False, refused=why)
    if holder != number:
        yield Many("take_over_identities", [(EVERYWHERE, task.identity, number)])
    bounds = task.bounds
    if bounds is not None:
        deadline_at = task.created_at + bounds.deadline_ms
        limits = (bounds.max_depth, bounds.max_tasks, bounds.max_children)
        yield Many("open_lineages", [(task.lineage, number, *limits, deadline_at, 1, task.created_at)])
        if bounds.budget is not None:
            yield from open_lineage_budgets([(str(task.lineage), bounds.budget, bounds.fails)])
    [payload] = yield from store_values([task.payload])
    yield Many(
        "insert_children",
        [
            (
                number, task.kind, task.version, task.queue, task.band, task.key, task.identity, *payload, task.lineage,
                None, 0, batch, task.due_at, None, None if bounds is None else msgspec.json.encode(bounds), scopes,
                0 if bounds is None else 1, task.gates, task.estimate,
            )
        ],
        (task.created_at,),
    )  # fmt: skip
    yield from put_in_line(
        [Placement(number, lane_of(task.queue, task.kind, task.gates), task.band, 0, task.due_at)], now
    )
    return RootResult(number, is_new=True)


def take_back_identities(task: int) -> Op[None]:
    """Take back the identities of a task before it is reopened; raises if another open task holds one."""
    rows = yield Query("identities_of", {"task": task})
    own = [identity for lineage, hashed, *got in rows for identity in _where(as_bytes(lineage), bytes(hashed), *got)]
    held: list[Row] = []
    if len(rows) == 1:
        held += yield Many("hold_identities", sorted(one for one, _ in own))
    else:
        for one, is_alias in sorted(own):  # in the order in which the spawn guard takes them
            if is_alias:
                held += yield Many("take_identities", [(*one, task)])
            else:
                held += yield Many("hold_identities", [one])
    taken = [row for row in held if row[2] != task]
    if not taken:
        return
    for holder, _, status, *_ in (yield Query("holders", {"ids": sorted({row[2] for row in taken})})):
        if not Status(status).is_terminal:
            raise IllegalTransition(f"task {task} cannot be opened again: task {holder} is at the same work now")
    yield Many("take_over_identities", [(bytes(scope), bytes(one), task) for scope, one, _ in taken])


def _where(lineage: bytes, hashed: bytes, here: int | None, everywhere: int | None) -> list[tuple[Identity, bool]]:
    """The scopes of an identity, and whether it is an alias. Those of the own key are not stored: both are tried."""
    scopes = [scope for scope, got in ((lineage, here), (EVERYWHERE, everywhere)) if got is None or got]
    return [((scope, hashed), here is not None) for scope in scopes]
