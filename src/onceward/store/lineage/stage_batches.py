"""Batches that stages open, in the transaction that commits the stage, with the children that are added to them.

Those children pass the spawn guard like any others; a refused one is not in the batch. The follower of the batch is a
child of the task that opens it, made at once: so its depth, identity and room are decided here, and a batch around this
one counts it. It waits for the end of the batch, which wakes it exactly once (decision 21).

A stage that fails after a checkpoint with its batch opens the same batch again; the follower exists already.
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
from onceward.store.lineage.joins import WaitingTask
from onceward.store.lineage.spawn_guard import spawn
from onceward.store.lineage.spawn_requests import Decision, InBatch, SpawnRequest
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_uuid

BATCH, NOT_ENDED = "batch", " has not ended"
"""How the log says what a task waits for that follows a batch."""


class BatchRequest(NamedTuple):
    """A batch that the stage of a task opens."""

    lease: Lease
    new: StageBatch


class SpawnResults(NamedTuple):
    """Decisions on the children of some stages, and the batches that were opened for them."""

    decisions: list[tuple[SpawnRequest, Decision]]
    batches: list[int]
    opened: list[int]
    """Those of them that are new."""
    beginners: frozenset[int] = frozenset()
    """Tasks that spawn for the first time, and were granted all."""

    @property
    def added(self) -> list[int]:
        """For every new child of a batch, that batch."""
        return [decision.batch for _, decision in self.decisions if decision.batch is not None]

    def first_families(self, tasks: Iterable[int]) -> dict[int, Family]:
        """Families of tasks whose children were all decided here."""
        found: dict[int, list[Child]] = {task: [] for task in self.beginners.intersection(tasks)}
        pending = int(Status.PENDING)
        for one, decision in self.decisions if found else ():
            if (children := found.get(one.lease.task)) is not None:
                child = one.spawn
                children.append(Child(decision.task, child.identity, child.sort.kind, child.key, pending, None))
        return {task: Family(tuple(children)) for task, children in found.items()}


class _OpenBatch(NamedTuple):
    """A batch by its number, with its counter, and whether it has just been opened."""

    batch: InBatch
    is_new: bool


def spawn_all(
    requests: Sequence[SpawnRequest],
    batch_requests: Iterable[BatchRequest],
    now: int,
    aliases: Sequence[NewAlias] = (),
) -> Op[SpawnResults]:
    """Open batches, decide on children, with those of the batches, and store aliases."""
    opened: dict[tuple[int, str], _OpenBatch] = {}
    for lease, new in sorted(batch_requests, key=lambda one: (one.new.name, one.lease.task)):  # in one order for all
        opened[lease.task, new.name] = yield from _open(lease.task, new, now)
    if not opened:
        decided = yield from spawn(requests, now, aliases)
        return SpawnResults(list(zip(requests, decided.decisions, strict=True)), [], [], decided.beginners)
    wanted = [in_batch for request in requests if (in_batch := _with_batch(request, opened)) is not None]
    decisions = (yield from spawn(wanted, now, aliases)).decisions if wanted or aliases else []
    both = list(zip(wanted, decisions, strict=True))
    for batch in opened.values():
        refused = sum(request.batch == batch.batch and _is_short_of(decision) for request, decision in both)
        if refused or not batch.is_new:
            yield Query("refuse_in_batch", {"batch": batch.batch.id, "refused": refused})
    for request, decision in both:
        follows = request.spawn.follows
        if follows is not None and decision.task is not None:
            batch = opened[request.lease.task, follows]
            yield from _follow(request, decision.task, batch.batch, decision.is_new, now)
    return SpawnResults(
        both,
        [batch.batch.id for batch in opened.values()],
        [batch.batch.id for batch in opened.values() if batch.is_new],
    )


def _is_short_of(decision: Decision) -> bool:
    """Whether a batch lacks a task because a limit refused it."""
    return decision.refused is not None and decision.refused.rule in LIMITS


def _open(task: int, new: StageBatch, now: int) -> Op[_OpenBatch]:
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
        return _OpenBatch(InBatch(rows[0][0], scope), is_new=True)
    rows = yield Query("batch_of_opener", {"name": new.name, "opener": task})
    if not rows:
        raise ConfigError(name_taken(new.name))
    [(number, known)] = rows
    return _OpenBatch(InBatch(number, None if known is None else as_uuid(known)), is_new=False)


def _with_batch(request: SpawnRequest, opened: dict[tuple[int, str], _OpenBatch]) -> SpawnRequest | None:
    """A request with its batch filled in; None for the follower of a batch that was opened before."""
    if request.spawn.follows is not None:
        return request if opened[request.lease.task, request.spawn.follows].is_new else None
    if request.spawn.batch is None:
        return request
    return msgspec.structs.replace(request, batch=opened[request.lease.task, request.spawn.batch].batch)


def _follow(request: SpawnRequest, task: int, batch: InBatch, is_new: bool, now: int) -> Op[None]:
    """Let a new child wait for the end of a batch. Its place in line does no harm: a claim leases no waiting task."""
    assert request.spawn.follows is not None
    yield Query("follow_batch", {"batch": batch.id, "task": task})
    if is_new:
        yield from wait_for_batch(WaitingTask(task, 1, 0, None, request.lease.worker), request.spawn.follows, now)


def wait_for_batch(place: WaitingTask, name: str, now: int) -> Op[None]:
    """Let a task wait for the end of an open batch."""
    yield Many("park_new", [(place.task, None)], (batch_wait(name), NEVER))
    yield from log([place.parked(f"{BATCH}: {name}{NOT_ENDED}", now)])
