"""Batches that stages open, in the transaction that commits the stage, with the children that are added to them.

Those children go through the spawn guard like any others; whoever is refused is not in the batch. What follows the
batch is a child of the task that opens it, made at once: so its depth, its identity and its room are decided here, and
a batch around this one knows of it. It waits for the end of the batch, which wakes it exactly once.

A task that opens a batch again, because a checkpoint of its stage was committed before the stage has failed, means the
same batch, and what follows it is there already.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from onceward.errors import ConfigError
from onceward.model.batch import name_taken
from onceward.model.decide import batch_wait
from onceward.model.lineage import LIMITS, Child, Family, StageBatch
from onceward.model.status import Status
from onceward.model.task import NEVER, Lease
from onceward.store.governance.budgets import open_lineage_budgets
from onceward.store.history import log
from onceward.store.lineage.aliases import NewAlias
from onceward.store.lineage.joins import Place
from onceward.store.lineage.spawn_guard import spawn
from onceward.store.lineage.spawn_requests import Asked, Decision, InBatch
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_uuid

BATCH, NOT_ENDED = "batch", " has not ended"
"""How the log says what a task waits for that follows a batch."""


class Opening(NamedTuple):
    """A batch that the stage of a task opens."""

    lease: Lease
    new: StageBatch


class Spawned(NamedTuple):
    """What became of the children of some stages, and the batches that were opened for them."""

    decisions: list[tuple[Asked, Decision]]
    batches: list[int]
    opened: list[int]
    """Those of them that are new."""
    beginners: frozenset[int] = frozenset()
    """Tasks that have asked for nothing before, and have got all that they ask for."""

    @property
    def added(self) -> list[int]:
        """For every new child of a batch, that batch."""
        return [decision.batch for _, decision in self.decisions if decision.batch is not None]

    def first_families(self, tasks: Iterable[int]) -> dict[int, Family]:
        """What some tasks may know of their children, where that was all decided here."""
        found: dict[int, list[Child]] = {task: [] for task in self.beginners.intersection(tasks)}
        pending = int(Status.PENDING)
        for one, decision in self.decisions if found else ():
            if (children := found.get(one.lease.task)) is not None:
                child = one.spawn
                children.append(Child(decision.task, child.identity, child.sort.kind, child.key, pending, None))
        return {task: Family(tuple(children)) for task, children in found.items()}


class _Found(NamedTuple):
    """A batch by its number, with its counter, and whether it has just been opened."""

    batch: InBatch
    is_new: bool


def spawn_all(
    asked: Sequence[Asked], opening: Iterable[Opening], now: int, aliases: Sequence[NewAlias] = ()
) -> Op[Spawned]:
    """Open batches, and decide on children, those of the batches among them; let tasks have further keys."""
    found: dict[tuple[int, str], _Found] = {}
    for lease, new in sorted(opening, key=lambda one: (one.new.name, one.lease.task)):  # in one order for all
        found[lease.task, new.name] = yield from _open(lease.task, new, now)
    if not found:
        decided = yield from spawn(asked, now, aliases)
        return Spawned(list(zip(asked, decided.decisions, strict=True)), [], [], decided.beginners)
    wanted = [placed for one in asked if (placed := _placed(one, found)) is not None]
    decisions = (yield from spawn(wanted, now, aliases)).decisions if wanted or aliases else []
    both = list(zip(wanted, decisions, strict=True))
    for batch in found.values():
        refused = sum(one.batch == batch.batch and _is_short_of(decision) for one, decision in both)
        if refused or not batch.is_new:
            yield Query("refuse_in_batch", {"batch": batch.batch.id, "refused": refused})
    for one, decision in both:
        if one.spawn.follows is not None and decision.task is not None:
            yield from _follow(one, decision.task, found[one.lease.task, one.spawn.follows].batch, decision.is_new, now)
    return Spawned(
        both, [one.batch.id for one in found.values()], [one.batch.id for one in found.values() if one.is_new]
    )


def _is_short_of(decision: Decision) -> bool:
    """Whether a batch lacks a task because a limit refused it."""
    return decision.refused is not None and decision.refused.rule in LIMITS


def _open(task: int, new: StageBatch, now: int) -> Op[_Found]:
    scope = None if (new.max_tasks, new.budget) == (None, None) else uuid.uuid4()
    rows = yield Query(
        "insert_batch",
        {
            "name": new.name,
            "deadline_at": None if new.deadline_ms is None else now + new.deadline_ms,
            "scope": scope,
            "then_data": None,
            "opener": task,
            "now": now,
        },
    )
    if rows:
        if new.max_tasks is not None:
            yield Many("open_lineages", [(scope, task, 0, new.max_tasks, 0, NEVER, 0, now)])
        if new.budget is not None:
            yield from open_lineage_budgets([(str(scope), new.budget, new.fails)])
        return _Found(InBatch(rows[0][0], scope), is_new=True)
    rows = yield Query("batch_of_opener", {"name": new.name, "opener": task})
    if not rows:
        raise ConfigError(name_taken(new.name))
    [(number, known)] = rows
    return _Found(InBatch(number, None if known is None else as_uuid(known)), is_new=False)


def _placed(one: Asked, found: dict[tuple[int, str], _Found]) -> Asked | None:
    """A child with the batch that it is added to; None for one that follows a batch which was opened before."""
    if one.spawn.follows is not None:
        return one if found[one.lease.task, one.spawn.follows].is_new else None
    if one.spawn.batch is None:
        return one
    return msgspec.structs.replace(one, batch=found[one.lease.task, one.spawn.batch].batch)


def _follow(one: Asked, task: int, batch: InBatch, is_new: bool, now: int) -> Op[None]:
    """Let a new child wait for the end of a batch. Its place in line does no harm: nobody leases a task that waits."""
    assert one.spawn.follows is not None
    yield Query("follow_batch", {"batch": batch.id, "task": task})
    if is_new:
        yield from wait_for_batch(Place(task, 1, 0, None, one.lease.worker), one.spawn.follows, now)


def wait_for_batch(place: Place, name: str, now: int) -> Op[None]:
    """Let a task wait for the end of a batch, which has not ended."""
    yield Many("park_new", [(place.task, None)], (batch_wait(name), NEVER))
    yield from log([place.parked(f"{BATCH}: {name}{NOT_ENDED}", now)])
