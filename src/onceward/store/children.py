"""Children that the guard lets in come to be: their rows, their places in line, and what the log says.

What the children of one stage mostly have in common is sent to the database once. The log has one row for all that a
stage spawns, in the history of the task that spawned; a child says itself who its parent is, and how deep it is.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from onceward.logs import EngineLog
from onceward.model.decide import readable, signal_wait
from onceward.model.lineage import NOT_UNIQUE, Refused, parked_note, spawn_note
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, lane_of
from onceward.store.asking import Asked, Decision, Parent
from onceward.store.budgets import open_lineage_budgets
from onceward.store.enqueue import kept
from onceward.store.lines import Standing, stand
from onceward.store.log import Entry, log
from onceward.store.op import Many, Op
from onceward.store.rows import as_bytes

REFUSALS_KEPT = 100
"""How many refusals are stored for one parent; the others are counted."""

MANY_ALIKE = 8
"""From how many children on that differ in little a statement of their own is worth its way to the database."""

New = tuple[Asked, Parent, int]
"""A child that is let in, the task that asked for it, and its number."""

logger = EngineLog("onceward.spawning")


class _InCommon(NamedTuple):
    """What children that one stage asks for mostly have in common, in the order of their columns."""

    kind: str
    version: int
    queue: str
    band: int
    due_at: int
    lineage: uuid.UUID
    parent: int
    depth: int
    batch: int | None
    ancestry: bytes
    limits: bytes | None
    scopes: bytes | None


def _in_common(one: Asked, parent: Parent, due_at: int) -> _InCommon:
    child = one.spawn
    return _InCommon(
        child.kind, child.version, child.queue, child.band, due_at,
        parent.counted_in[0], one.lease.task, parent.depth + 1, parent.batch, parent.below,
        parent.limits if child.bounds is None else msgspec.json.encode(child.bounds),
        parent.scopes if child.scope is None else (parent.scopes or b"") + child.scope.bytes,
    )  # fmt: skip


def make(new: Sequence[New], now: int) -> Op[None]:
    """Make children and put them in line."""
    narrower = [one for one in new if one[0].spawn.scope is not None]
    if narrower:
        yield from _open_scopes(narrower, now)
    payloads = yield from kept([one.spawn.payload for one, _, _ in new])
    alike: dict[tuple[Any, ...], tuple[_InCommon, list[tuple[Any, ...]]]] = {}
    for (one, parent, task), payload in zip(new, payloads, strict=True):
        child = one.spawn
        apart = task if child.bounds is not None or child.scope is not None else None
        due_at = max(child.due_at, now)  # it was asked for a moment ago, but nobody could have run it
        same = (one.lease.task, parent.batch, child.kind, child.version, child.queue, child.band, due_at, apart)
        if (some := alike.get(same)) is None:
            some = alike[same] = _in_common(one, parent, due_at), []
        some[1].append((task, child.key, child.identity, *payload, child.gates, child.estimate))
    few = [(common, mine) for common, rows in alike.values() if len(rows) < MANY_ALIKE for mine in rows]
    if few:
        yield from _insert_few(few, now)
    for common, rows in alike.values():
        if len(rows) >= MANY_ALIKE:
            yield Many("insert_alike", rows, (now, *common))
    yield from _tell(new, now)
    yield from _stand_fairly(new, now)


def _open_scopes(narrower: Sequence[New], now: int) -> Op[None]:
    """Children with limits of their own get counters of their own."""
    rows, budgets = [], []
    for one, parent, task in narrower:
        scope, bounds = one.spawn.scope, one.spawn.bounds
        if scope is not None and bounds is not None:
            rows.append((scope, task, bounds.max_depth, bounds.max_tasks, bounds.max_children, NEVER, 1, now))
            if bounds.budget is not None and bounds.budget != parent.bounds.budget:
                budgets.append((str(scope), bounds.budget))
    yield Many("open_lineages", rows)
    yield from open_lineage_budgets(budgets)


def _insert_few(few: Sequence[tuple[_InCommon, tuple[Any, ...]]], now: int) -> Op[None]:
    """Children of many parents or kinds, in one statement with a column for everything."""
    yield Many(
        "insert_children",
        [
            (
                task, at.kind, at.version, at.queue, at.band, key, identity, payload, blob, at.lineage, at.parent,
                at.depth, at.batch, at.due_at, at.ancestry, at.limits, at.scopes, 0, gates, estimate,
            )
            for at, (task, key, identity, payload, blob, gates, estimate) in few
        ],
        (now,),
    )  # fmt: skip


def _tell(new: Sequence[New], now: int) -> Op[None]:
    """One row for all that a stage has spawned. A child that took no identity says so itself: `verify` asks it."""
    by_stage: dict[tuple[int, str], list[New]] = {}
    for one in new:
        by_stage.setdefault((one[0].lease.task, one[0].stage), []).append(one)
    entries = []
    for (task, stage), some in by_stage.items():
        asked, parent, _ = some[0]
        note = spawn_note([child for _, _, child in some], parent.depth + 1, asked.lease.lineage)
        lease = asked.lease
        entries.append(
            Entry(task, lease.run, lease.fence, Event.SPAWNED, Status.RUNNING, stage, lease.worker, now, note)
        )
    entries += [
        Entry(task, 1, 0, Event.SPAWNED, Status.PENDING, None, one.lease.worker, now, NOT_UNIQUE)
        for one, _, task in new
        if one.spawn.unique == "no"
    ]
    yield from log(entries)


def _stand_fairly(new: Sequence[New], now: int) -> Op[None]:
    """Put new children in line, each at the next rank of its lineage: a large one stands there like everybody else."""
    of_lineage: dict[bytes, list[New]] = {}
    for one in new:
        of_lineage.setdefault(one[0].lease.lineage_bytes, []).append(one)
    wanted = []
    for some in of_lineage.values():
        asked, parent, _ = some[0]
        first = asked.spawn
        wanted.append((parent.counted_in[0], lane_of(first.queue, first.kind, first.gates), first.band, len(some)))
    rows = yield Many("advance_ranks", sorted(wanted))
    next_ranks = {as_bytes(lineage): rank for lineage, rank in rows}
    standings = []
    for lineage, some in of_lineage.items():
        for rank, (asked, _, task) in enumerate(some, next_ranks[lineage] - len(some)):
            child = asked.spawn
            lane = lane_of(child.queue, child.kind, child.gates)
            standings.append(Standing(task, lane, child.band, rank, child.due_at))
    yield from stand(standings, now)


def park(new: Sequence[tuple[Asked, int, Sequence[Refused]]], now: int) -> Op[None]:
    """Let new children wait for approval. Their places in line do no harm: nobody leases a task that waits."""
    if new:
        waiting = [
            (task, readable(f"waits for approval: {'; '.join(refused.reason for refused in parked)}"))
            for _, task, parked in new
        ]
        yield Many("park_new", waiting, (signal_wait("approved"), NEVER))
        yield from log(
            Entry(
                task, 1, 0, Event.PARKED, Status.WAITING, None, one.lease.worker, now, readable(parked_note(parked)),
            )
            for one, task, parked in new
        )  # fmt: skip


def record(decided: Sequence[tuple[Asked, Decision]], parents: dict[int, Parent], now: int) -> Op[None]:
    """Count children and refusals at their parents, and keep the first refusals."""
    counts: dict[int, list[int]] = {}
    refusals: list[tuple[object, ...]] = []
    entries: list[Entry] = []
    for one, decision in decided:
        lease, refused = one.lease, decision.refused
        mine = counts.setdefault(lease.task, [0, 0])
        mine[0] += decision.is_new
        if refused is None:
            continue
        if parents[lease.task].refusals + mine[1] < REFUSALS_KEPT:
            refusals.append(
                (
                    lease.lineage, lease.task, one.stage, one.spawn.kind, one.spawn.key, one.spawn.identity,
                    refused.rule.value, refused.reason, refused.ancestor, refused.existing, now,
                )
            )  # fmt: skip
            entries.append(
                Entry(
                    lease.task, lease.run, lease.fence, Event.REFUSED, Status.RUNNING, one.stage, lease.worker, now,
                    f"{refused.rule.value}: {refused.reason}",
                )
            )  # fmt: skip
        mine[1] += 1
        logger.warning(
            "spawn refused", rule=refused.rule.value, reason=refused.reason, task=lease.task, lineage=str(lease.lineage)
        )
    changed = [(task, children, refused) for task, (children, refused) in sorted(counts.items()) if children or refused]
    if changed:
        yield Many("count_family", changed)
    if refusals:
        yield Many("insert_refusals", refusals)
        yield from log(entries)
