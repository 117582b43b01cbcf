"""Inserts the children that the guard lets in: their rows, their places in line, and log rows.

What the children of one stage have in common is sent once. The log has one row for all children of a stage, in the
history of the parent (decision 31); the row of a child names its parent and its depth.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from logging import DEBUG, getLogger
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from onceward.model.decide import safe_text, signal_wait
from onceward.model.lineage import MOST_TASKS, NAMED_IN_LOG, NOT_UNIQUE, Refused, Spawn, parked_note, spawn_note
from onceward.model.log_quota import FewLines
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, lane_of
from onceward.store.governance.budgets import open_lineage_budgets
from onceward.store.history import Entry, log
from onceward.store.lineage.spawn_requests import Decision, Parent, SpawnRequest
from onceward.store.lines.enqueue import MOST_IN_ONE_STATEMENT, store_payloads, store_values
from onceward.store.lines.lines import put_ranked_in_line
from onceward.store.lines.memory import Line
from onceward.store.op import Many, Op, PackedBytes, Query
from onceward.store.rows import as_uuid
from onceward.support.logs import EngineLog

REFUSALS_KEPT = 100
"""How many refusals are stored for one parent; the others are counted."""

MANY_ALIKE = 8
"""Least number of children that differ in little for which a statement of their own is worth its way."""

GrantedChild = tuple[SpawnRequest, Parent, int]
"""A child that is let in, the task that asked for it, and its number."""

logger = EngineLog("onceward.spawning")
_standard_log = getLogger("onceward.spawning")  # asked first: a line that is not heard costs next to nothing
_few_lines = FewLines()


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

    @property
    def lane(self) -> tuple[str, str, str | None]:
        """What the line in which they stand is named by."""
        return self.queue, self.kind, self.gates


class _Group(NamedTuple):
    """Children of one stage that differ in little, by their numbers."""

    asked: SpawnRequest
    """The first of them."""
    common: _InCommon
    tasks: list[int]
    children: list[Spawn]

    @property
    def each(self) -> Iterable[tuple[int, Spawn]]:
        """Number and child of each."""
        return zip(self.tasks, self.children, strict=True)


def _in_common(one: SpawnRequest, parent: Parent, due_at: int) -> _InCommon:
    child, sort = one.spawn, one.spawn.sort
    return _InCommon(
        sort.kind, sort.version, sort.queue, sort.band, due_at, sort.gates, sort.estimate,
        parent.counted_in[0], one.lease.task, parent.depth + 1, parent.batch, parent.below,
        parent.limits if child.bounds is None else msgspec.json.encode(child.bounds),
        parent.scopes if child.scope is None else (parent.scopes or b"") + child.scope.bytes,
    )  # fmt: skip


def insert_children(new: Sequence[GrantedChild], now: int) -> Op[None]:
    """Make children and put them in line."""
    narrower = [one for one in new if one[0].spawn.scope is not None]
    if narrower:
        yield from _open_scopes(narrower)
    alike = _grouped(new, now)
    few = [(group.common, *one) for group in alike if len(group.tasks) < MANY_ALIKE for one in group.each]
    if few:
        yield from _insert_few(few, now)
    for group in alike:
        for start in range(0, len(group.tasks) if len(group.tasks) >= MANY_ALIKE else 0, MOST_IN_ONE_STATEMENT):
            yield from _insert_alike(group, slice(start, start + MOST_IN_ONE_STATEMENT), now)
    yield from _log_spawns(alike, now)
    yield from _stand_fairly(alike, now)


def _grouped(new: Sequence[GrantedChild], now: int) -> list[_Group]:
    """Group new children by what they have in common. Most follow one of the same sort, and join its group."""
    groups: dict[tuple[Any, ...], _Group] = {}
    last_parent, last_stage, last_sort, group = None, "", None, None
    for one, parent, task in new:
        child = one.spawn
        sort, is_narrower = child.sort, child.bounds is not None or child.scope is not None
        if (
            group is None
            or is_narrower
            or (parent is not last_parent or sort is not last_sort or one.stage != last_stage)
        ):
            same = (id(parent), one.stage, sort, task if is_narrower else None)
            group = groups.get(same)
            if group is None:
                due_at = max(sort.due_at, now)  # it was requested a moment ago, but no worker could have run it
                group = groups[same] = _Group(one, _in_common(one, parent, due_at), [], [])
            last_parent, last_stage, last_sort = parent, one.stage, None if is_narrower else sort
        group.tasks.append(task)
        group.children.append(child)
    return list(groups.values())


def _open_scopes(narrower: Sequence[GrantedChild]) -> Op[None]:
    """Open counters for children with limits of their own."""
    rows, budgets = [], []
    for one, parent, task in narrower:
        scope, bounds = one.spawn.scope, one.spawn.bounds
        if scope is not None and bounds is not None:
            begun_at = parent.rooms[0].created_at  # a deadline runs from the root's enqueue
            is_sooner = bounds.deadline_ms < parent.bounds.deadline_ms
            deadline_at = begun_at + bounds.deadline_ms if is_sooner else NEVER
            most = bounds.max_tasks if bounds.max_tasks < parent.bounds.max_tasks else MOST_TASKS
            rows.append((scope, task, bounds.max_depth, most, bounds.max_children, deadline_at, 1, begun_at))
            if bounds.budget is not None and bounds.budget != parent.bounds.budget:
                budgets.append((str(scope), bounds.budget, bounds.fails))
    yield Many("open_lineages", rows)
    yield from open_lineage_budgets(budgets)


def _insert_few(few: Sequence[tuple[_InCommon, int, Spawn]], now: int) -> Op[None]:
    """Insert children of many parents or kinds, in one statement with all columns."""
    payloads = yield from store_values([child.payload for _, _, child in few])
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


def _insert_alike(group: _Group, some: slice, now: int) -> Op[None]:
    """Insert children that differ in little; what they have in common is sent once."""
    tasks, children = group.tasks[some], group.children[some]
    payloads, in_blob = yield from store_payloads([child.payload for child in children])
    keys = [child.key for child in children if child.key is not None] or None
    yield Query(
        "insert_alike",
        {
            **group.common._asdict(), "created_at": now, "ids": tasks, "first": tasks[0], "keys": keys,
            "identities": [child.identity for child in children], "payloads": payloads, "in_blob": in_blob,
            "rows": PackedBytes(payloads, in_blob, keys, tasks),
        },
    )  # fmt: skip


def _log_spawns(alike: Sequence[_Group], now: int) -> Op[None]:
    """Log one row for all children of a stage, and one for each child without an identity, which `verify` reads."""
    by_stage: dict[tuple[int, str], list[_Group]] = {}
    for group in alike:
        by_stage.setdefault((group.common.parent, group.asked.stage), []).append(group)
    entries = []
    for (task, stage), groups in by_stage.items():
        lease, common = groups[0].asked.lease, groups[0].common
        children = sorted(chain.from_iterable(one.tasks for one in groups))
        note = spawn_note(children, common.depth, common.lineage)
        if _standard_log.isEnabledFor(DEBUG):
            logger.debug(
                "spawned", task=task, stage=stage, depth=common.depth, lineage=str(common.lineage), count=len(children),
                children=children[:NAMED_IN_LOG], kinds=sorted({one.common.kind for one in groups}),
            )  # fmt: skip
        entries.append(
            Entry(task, lease.run, lease.fence, Event.SPAWNED, Status.RUNNING, stage, lease.worker, now, note)
        )
    entries += [
        Entry(task, 1, 0, Event.SPAWNED, Status.PENDING, None, group.asked.lease.worker, now, NOT_UNIQUE)
        for group in alike
        if group.asked.spawn.sort.unique == "no"
        for task in group.tasks
    ]
    yield from log(entries)


def _stand_fairly(alike: Sequence[_Group], now: int) -> Op[None]:
    """Put new children in line, each at the next rank of its lineage: lineages take turns (decision 29)."""
    of_lineage: dict[uuid.UUID, list[_Group]] = {}
    for group in alike:
        of_lineage.setdefault(group.common.lineage, []).append(group)
    wanted = [
        (lineage, lane_of(*groups[0].common.lane), groups[0].common.band, sum(len(one.tasks) for one in groups))
        for lineage, groups in of_lineage.items()
    ]
    ranks: dict[int, int] = {}
    for found, next_rank in (yield Many("advance_ranks", sorted(wanted))):
        tasks = sorted(chain.from_iterable(one.tasks for one in of_lineage[as_uuid(found)]))  # in order
        ranks.update(zip(tasks, range(next_rank - len(tasks), next_rank), strict=True))
    ready: dict[Line, list[tuple[int, int]]] = {}
    later: list[tuple[int, int, str, int, int]] = []
    for _, common, tasks, _ in alike:
        lane = lane_of(*common.lane)
        if common.due_at <= now:
            ready.setdefault((lane, common.band), []).extend([(ranks[task], task) for task in tasks])
        else:
            later += [(common.due_at, task, lane, common.band, ranks[task]) for task in tasks]
    for places in ready.values():
        places.sort(key=itemgetter(0))  # what lies together goes in together
    yield from put_ranked_in_line(ready, now)
    if later:
        yield Many("wait_until_due", later)


def park_children(new: Sequence[tuple[SpawnRequest, int, Sequence[Refused]]], now: int) -> Op[None]:
    """Let new children wait for approval. Their places in line do no harm: a claim leases no task that waits."""
    if new:
        waiting = [
            (task, safe_text(f"waits for approval: {'; '.join(refused.reason for refused in parked)}"))
            for _, task, parked in new
        ]
        yield Many("park_new", waiting, (signal_wait("approved"), NEVER))
        yield from log(
            Entry(
                task, 1, 0, Event.PARKED, Status.WAITING, None, one.lease.worker, now, safe_text(parked_note(parked)),
            )
            for one, task, parked in new
        )  # fmt: skip


def record_decisions(
    decided: Sequence[tuple[SpawnRequest, Decision]], parents: dict[int, Parent], now: int
) -> Op[None]:
    """Count children and refusals at their parents, and keep the first refusals."""
    children = Counter([one.lease.task for one, decision in decided if decision.is_new])
    members = Counter([one.lease.task for one, decision in decided if decision.is_new and one.batch is not None])
    refused_of: Counter[int] = Counter()
    refusals: list[tuple[object, ...]] = []
    entries: list[Entry] = []
    all_refused = [(one, decision.refused) for one, decision in decided if decision.refused is not None]
    for one, refused in all_refused:
        lease = one.lease
        if parents[lease.task].refusals + refused_of[lease.task] < REFUSALS_KEPT:
            refusals.append(
                (
                    lease.lineage, lease.task, one.stage, one.spawn.sort.kind, one.spawn.key, one.spawn.identity,
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
    _warn_of(all_refused, now)
    tasks = sorted(children.keys() | refused_of.keys())
    changed = [(task, children[task], members[task], refused_of[task]) for task in tasks]
    if changed:
        yield Many("count_family", changed)
    if refusals:
        yield Many("insert_refusals", refusals)
        yield from log(entries)


def _warn_of(all_refused: Sequence[tuple[SpawnRequest, Refused]], now: int) -> None:
    """One line for each task and rule, and a few a minute for a lineage: a page may have a million links."""
    counts = Counter([(one.lease.task, refused.rule) for one, refused in all_refused])
    for one, refused in all_refused:
        lease = one.lease
        count = counts.pop((lease.task, refused.rule), 0)
        if count and (others := _few_lines.next(lease.lineage_bytes, now, count)) is not None:
            logger.warning(
                "spawn refused", rule=refused.rule.value, kind=one.spawn.sort.kind, key=one.spawn.shown_key,
                reason=refused.reason, count=count, not_shown_before=others, task=lease.task,
                lineage=str(lease.lineage),
            )  # fmt: skip
