"""Deletes tasks that ended long enough ago, in small transactions, while workers go on.

A task goes whole: its row, checkpoints, log, signals, progress and places in gates in one transaction. A claim goes
when all its tasks are gone, a worker when its claims are, a large value when nothing points at it. So what is left is
always a history that `verify` can replay. A child stays as long as its parent may ask for its outcome (decision 47).
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from functools import partial

from onceward.errors import StoreUnavailable
from onceward.model.lineage import EVERYWHERE
from onceward.model.times import NEVER, StoreClock
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.lineage.spawn_requests import scopes_in
from onceward.store.op import Many, Op, Query, Row, Rows
from onceward.store.operations.access import prune_audit
from onceward.store.operations.bulk import prune_bulk
from onceward.store.operations.intake import prune_intake
from onceward.store.operations.ticks import prune_ticks
from onceward.store.rows import as_uuid

TASKS_AT_ONCE = 500
CLAIMS_AT_ONCE = 500
RECEIPTS_KEPT_MS = 3_600_000
RECEIPTS_KEPT_UNWATCHED_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows of each kind were deleted."""

    tasks: int = 0
    checkpoints: int = 0
    events: int = 0
    blobs: int = 0
    places: int = 0
    claims: int = 0
    workers: int = 0
    batches: int = 0
    gates: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


def prune(
    session: Session,
    before: int,
    now: int,
    *,
    limit: int | None = None,
    is_thorough: bool = True,
    goes_on: Callable[[], bool] = lambda: True,
) -> Pruned:
    """Delete tasks that ended before a time, at most `limit` of them, and all that only they had needed.

    Unless thorough, it ends at the first younger task: later ones are younger, too, but for imported ones. So a
    repeated call walks over old rows alone. `goes_on` is called between two transactions.
    """
    total = Pruned()
    after, upto = 0, NEVER
    if not is_thorough:
        [(first,)] = _read(session, Query("first_younger_task", {"before": before}))
        upto = NEVER if first is None else first
    while (limit is None or total.tasks < limit) and goes_on():
        count = TASKS_AT_ONCE if limit is None else min(TASKS_AT_ONCE, limit - total.tasks)
        wanted = {"after": after, "upto": upto, "before": before, "count": count}
        rows = _read(session, Query("prunable_tasks", wanted))
        if not rows:
            break
        ids = [row[0] for row in rows]
        after = ids[-1]
        total += session.transact(partial(prune_tasks, ids, before))
    if total.tasks or is_thorough:
        total += session.transact(prune_places)
    total += _prune_claims(session, before)
    total += session.transact(partial(prune_workers, before))
    total += session.transact(partial(prune_batches, before))
    session.transact(partial(prune_ticks, before))
    session.transact(partial(prune_intake, before))
    session.transact(partial(prune_bulk, before))
    total += session.transact(partial(prune_gates, before))
    session.transact(partial(prune_budgets, before))
    session.transact(partial(prune_receipts, session.clock))
    session.transact(partial(prune_audit, before))
    return total


def prune_tasks(ids: list[int], before: int) -> Op[Pruned]:
    """Delete those of some tasks that ended before a time, with everything that is stored of them."""
    gone = yield Query("prune_tasks", {"ids": ids, "before": before})
    if not gone:
        return Pruned()
    mine = {"ids": sorted(row[0] for row in gone)}
    aliases = yield Query("aliases_of", mine)
    yield from _close_lineages(gone)  # before identities, as the spawn guard locks them
    known_as = [(task, hashed) for task, *_, hashed in gone] + [(task, hashed) for task, hashed, _ in aliases]
    yield Many("drop_identities", sorted((EVERYWHERE, bytes(hashed), task) for task, hashed in known_as))
    yield Query("prune_links", mine)
    yield Query("prune_refusals", mine)
    checkpoints = yield Query("prune_checkpoints", mine)
    events = yield Query("prune_log", mine)
    yield Query("prune_signals", mine)
    yield Query("prune_progress", mine)
    yield Query("leave_gates", mine)  # a task that was cancelled inside has left a place there
    large = {bytes(row[1]) for row in gone if row[1] is not None}
    large |= {bytes(row[0]) for row in checkpoints if row[0] is not None}
    locked = yield Many("lock_blobs", [(hashed,) for hashed in sorted(large)])
    blobs = yield Many("prune_blobs", [(bytes(row[0]),) for row in locked])
    return Pruned(len(gone), len(checkpoints), len(events), len(blobs))


def _close_lineages(gone: Rows) -> Op[None]:
    """Count pruned tasks in their lineages, and delete lineages without a task left.

    The identities of a lineage stay as long as one of its tasks: to the spawn guard a pruned task is done work.
    """
    counted = Counter(scope for row in gone for scope in (as_uuid(row[2]), *scopes_in(row[3])))
    yield Many("count_pruned", sorted(counted.items()))
    scopes = [(scope,) for scope in sorted(counted)]
    over = {as_uuid(row[0]) for row in (yield Many("close_lineages", scopes))}
    left = {as_uuid(row[0]) for row in (yield Many("lineages_left", scopes))}
    closed = sorted({as_uuid(row[2]) for row in gone} - left)
    yield Many("drop_lineage_identities", [(lineage.bytes,) for lineage in closed])
    yield Many("drop_lineage_aliases", [(lineage,) for lineage in closed])
    yield Many("drop_lineage_failures", [(lineage,) for lineage in closed])
    yield from drop_budgets({*closed, *over})


def prune_places() -> Op[Pruned]:
    """Delete places in line whose task is gone."""
    ready = yield Query("prune_places")
    due = yield Query("prune_due")
    return Pruned(places=len(ready) + len(due))


def prune_claims(after: int, upto: int, before: int) -> Op[Pruned]:
    """Delete claims of a stretch, made before a time, of which every task is gone."""
    rows = yield Query("prune_claims", {"after": after, "upto": upto, "before": before})
    return Pruned(claims=len(rows))


def prune_workers(before: int) -> Op[Pruned]:
    """Delete workers that stopped before a time and of which no claim is left."""
    rows = yield Query("prune_workers", {"before": before})
    return Pruned(workers=len(rows))


def prune_batches(before: int) -> Op[Pruned]:
    """Delete batches that ended before a time and of which no task is left, with their counters and budgets; their
    names are free again. One that lay inside another goes first."""
    gone: list[Row] = []
    while rows := (yield Query("prune_batches", {"before": before})):
        gone += rows
    counters = [as_uuid(scope) for _, scope in gone if scope is not None]
    if counters:
        yield Many("drop_counters", [(scope,) for scope in sorted(counters)])
    # What a batch may cost as a whole stands under its counter, what a `Budget` gives each batch under its number.
    yield from drop_budgets([*counters, *(number for number, _ in gone)])
    return Pruned(batches=len(gone))


def prune_gates(before: int) -> Op[Pruned]:
    """Delete gates of keys and of source instances that were not used since a time and that no task needs."""
    yield from sweep_slots()
    rows = yield Query("prune_gates", {"before": before})
    return Pruned(gates=len(rows))


def sweep_slots() -> Op[int]:
    """Delete places in gates that no longer count: of lost workers and cancelled tasks. Returns their number."""
    return len((yield Query("prune_slots")))


def prune_budgets(before: int) -> Op[None]:
    """Delete windows of budgets that were over before a time."""
    yield Query("prune_budgets", {"before": before})


def drop_budgets(scopes: Iterable[uuid.UUID | int]) -> Op[None]:
    """Delete the budgets of lineages, branches and batches of which nothing is left."""
    names = sorted(map(str, scopes))
    if names:
        yield Query("drop_budgets", {"scopes": names})
        yield Query("drop_budget_limits", {"scopes": names})


def prune_receipts(clock: StoreClock) -> Op[None]:
    """Delete receipts that no connection can still need (decision 3).

    Where the clock was set within the last hour, or has been watched for less, those of the last day stay: a receipt
    of a moment ago could seem to be old."""
    kept_ms = RECEIPTS_KEPT_MS if clock.steady_ms >= RECEIPTS_KEPT_MS else RECEIPTS_KEPT_UNWATCHED_MS
    yield Query("prune_receipts", {"before": clock.now() - kept_ms})


def _prune_claims(session: Session, before: int) -> Pruned:
    total = Pruned()
    after = 0
    while True:
        [(upto,)] = _read(session, Query("next_claims", {"after": after, "before": before, "count": CLAIMS_AT_ONCE}))
        if upto is None:
            return total
        total += session.transact(partial(prune_claims, after, upto, before))
        after = upto


def _read(session: Session, query: Query) -> Rows:
    """Read in a transaction that blocks no writer."""
    try:
        with session.reading():
            return session.run(query)
    except (ConnectionLost, TryAgainLater) as error:
        session.discard()
        raise StoreUnavailable(f"the database could not be read: {error}") from error
