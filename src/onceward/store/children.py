"""Children that the guard lets in come to be: their rows, their places in line, and what the log says.

What the children of one stage mostly have in common is sent to the database once. The log has one row for all that a
stage spawns, in the history of the task that spawned; a child says itself who its parent is, and how deep it is.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from onceward.logs import EngineLog
from onceward.model.decide import readable, signal_wait
from onceward.model.lineage import NOT_UNIQUE, Refused, Spawn, parked_note, spawn_note
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, lane_of
from onceward.store.asking import Asked, Decision, Parent
from onceward.store.budgets import open_lineage_budgets
from onceward.store.enqueue import MOST_IN_ONE_STATEMENT, kept, laid_out
from onceward.store.lines import Standing, stand
from onceward.store.log import Entry, log
from onceward.store.op import Cuts, Many, Op, Query
from onceward.store.rows import as_bytes

REFUSALS_KEPT = 100
"""How many refusals are stored for one parent; the others are counted."""

MANY_ALIKE = 8
"""From how many children on that differ in little a statement of their own is worth its way to the database."""

New = tuple[Asked, Parent, int]
"""A child that is let in, the task that asked for it, and its number."""

logger = EngineLog("onceward.spawning")


class _InCommon(NamedTuple):
    """What children that one stage asks for mostly have in common."""

    kind: str
    version: int
    queue: str
    band: int
    due_at: int
    gates: str | None
    estimate: int | None
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
        child.kind, child.version, child.queue, child.band, due_at, child.gates, child.estimate,
        parent.counted_in[0], one.lease.task, parent.depth + 1, parent.batch, parent.below,
        parent.limits if child.bounds is None else msgspec.json.encode(child.bounds),
        parent.scopes if child.scope is None else (parent.scopes or b"") + child.scope.bytes,
    )  # fmt: skip


def make(new: Sequence[New], now: int) -> Op[None]:
    """Make children and put them in line."""
    narrower = [one for one in new if one[0].spawn.scope is not None]
    if narrower:
        yield from _open_scopes(narrower, now)
    alike: dict[tuple[Any, ...], tuple[_InCommon, list[tuple[int, Spawn]]]] = {}
    for one, parent, task in new:
        child = one.spawn
        apart = task if child.bounds is not None or child.scope is not None else None
        due_at = max(child.due_at, now)  # it was asked for a moment ago, but nobody could have run it
        same = (
            one.lease.task, parent.batch, child.kind, child.version, child.queue, child.band, due_at, child.gates,
            child.estimate, apart,
        )  # fmt: skip
        if (group := alike.get(same)) is None:
            group = alike[same] = _in_common(one, parent, due_at), []
        group[1].append((task, child))
    few = [(common, *mine) for common, some in alike.values() if len(some) < MANY_ALIKE for mine in some]
    if few:
        yield from _insert_few(few, now)
    for common, some in alike.values():
        for start in range(0, len(some) if len(some) >= MANY_ALIKE else 0, MOST_IN_ONE_STATEMENT):
            yield from _insert_alike(common, some[start : start + MOST_IN_ONE_STATEMENT], now)
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


def _insert_few(few: Sequence[tuple[_InCommon, int, Spawn]], now: int) -> Op[None]:
    """Children of many parents or kinds, in one statement with a column for everything."""
    payloads = yield from kept([child.payload for _, _, child in few])
    yield Many(
        "insert_children",
        [
            (
                task, at.kind, at.version, at.queue, at.band, child.key, child.identity, payload, blob, at.lineage,
                at.parent, at.depth, at.batch, at.due_at, at.ancestry, at.limits, at.scopes, 0, at.gates, at.estimate,
            )
            for (at, task, child), (payload, blob) in zip(few, payloads, strict=True)
        ],
        (now,),
    )  # fmt: skip


def _insert_alike(common: _InCommon, some: Sequence[tuple[int, Spawn]], now: int) -> Op[None]:
    """Children that differ in little: what they have in common is sent once."""
    tasks = [task for task, _ in some]
    payloads, in_blob = yield from laid_out([child.payload for _, child in some])
    keys = [child.key for _, child in some if child.key is not None] or None
    yield Query(
        "insert_alike",
        {
            **common._asdict(), "created_at": now, "ids": tasks, "first": tasks[0],
            "keys": keys, "identities": [child.identity for _, child in some],
            "payloads": payloads, "in_blob": in_blob, "rows": Cuts(payloads, in_blob, keys, tasks),
        },
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
    lanes: dict[tuple[str, str, str | None], str] = {}
    for lineage, some in of_lineage.items():
        for rank, (asked, _, task) in enumerate(some, next_ranks[lineage] - len(some)):
            child = asked.spawn
            place = (child.queue, child.kind, child.gates)
            if (lane := lanes.get(place)) is None:
                lane = lanes[place] = lane_of(*place)
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
    children = Counter([one.lease.task for one, decision in decided if decision.is_new])
    refused_of: Counter[int] = Counter()
    refusals: list[tuple[object, ...]] = []
    entries: list[Entry] = []
    for one, decision in decided:
        lease, refused = one.lease, decision.refused
        if refused is None:
            continue
        if parents[lease.task].refusals + refused_of[lease.task] < REFUSALS_KEPT:
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
        refused_of[lease.task] += 1
        logger.warning(
            "spawn refused", rule=refused.rule.value, reason=refused.reason, task=lease.task, lineage=str(lease.lineage)
        )
    changed = [(task, children[task], refused_of[task]) for task in sorted(children.keys() | refused_of.keys())]
    if changed:
        yield Many("count_family", changed)
    if refusals:
        yield Many("insert_refusals", refusals)
        yield from log(entries)
