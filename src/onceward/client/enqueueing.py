"""Asking for work: one piece, many at once, a batch, or all that an older system has.

In a running stage what is asked for is a spawn, and a child of its task; under `onceward.incoming` a child of the task
that has sent the request; anywhere else a root, durable when the call returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from onceward.authoring.context import Context
from onceward.authoring.current_stage import current, spawning_stage
from onceward.baggage import Far, far_task
from onceward.client.batch import Batch
from onceward.client.batch_builders import FarFilling, RootFilling, StageFilling, not_followed
from onceward.client.client import Client
from onceward.client.group_commit import Sharing
from onceward.client.root_tasks import Rooting, Roots, together
from onceward.errors import ConfigError, NoLineage, OutcomeUnknown
from onceward.model import codec
from onceward.model.enqueue_options import NO_OPTIONS, EnqueueOptions
from onceward.model.lineage import Limits, Spawn, StageBatch, checked_deadline, checked_limits
from onceward.model.payload import Payload
from onceward.model.task import Lease, NewTask
from onceward.model.times import Duration
from onceward.store.governance.budgets import count_roots
from onceward.store.lineage import batches
from onceward.store.lineage.remote_spawn import ParentCancelled, spawn_remotely
from onceward.store.lineage.spawn_requests import Decision
from onceward.store.lineage.stage_batches import SpawnResults
from onceward.store.lineage.unique_roots import enqueue_root, take_root_identities
from onceward.store.lines.enqueue import MOST_IN_ONE_STATEMENT, enqueue, enqueue_alike, enqueue_at_once
from onceward.store.op import Op, adrive, drive
from onceward.support.lazily import modules

if TYPE_CHECKING:
    from onceward.store.drivers import caller_connection
else:
    (caller_connection,) = modules("onceward.store.drivers.caller_connection")


class _Asked(NamedTuple):
    """What was asked for outside of a stage."""

    roots: Roots
    may_share: bool
    """Whether its transaction may be one with others."""
    begin: Callable[[], Op[list[Enqueued]]]


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """What became of a payload that was enqueued. Truthy if there is, or will be, a task for it.

    Inside a stage it is a spawn: its task is made when the stage commits, and has no id before that.
    """

    task: int | None
    created: bool = True
    existing: int | None = None
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.created or self.existing is not None

    @property
    def id(self) -> int:
        """The id of the task."""
        if self.task is None:
            raise ConfigError(
                self.reason or "a task that a stage has asked for is made when that stage commits; it has no id yet"
            )
        return self.task


class Enqueueing(Client):
    """An app, for those who ask for work."""

    def enqueue(
        self,
        payload: Payload,
        *,
        conn: Any = None,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        limits: Limits | None = None,
        root: bool = False,
    ) -> Enqueued:
        """Ask for one piece of work. When this returns, the task is durable.

        With `conn` it becomes part of the transaction of that connection, and exists when and if that commits.
        `after` is a duration, `at` an aware datetime, `priority` from -2 to 2. `limits` are those of the lineage that
        begins with it. Inside a running stage it is a spawn, a child of the stage's task, unless `root` says otherwise;
        while a request is served under `onceward.incoming`, a child of the task that has sent it.
        """
        return self._enqueue_all([payload], EnqueueOptions(after, at, priority, limits), conn, root)[0]

    def enqueue_many(
        self,
        payloads: Iterable[Payload],
        *,
        conn: Any = None,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        limits: Limits | None = None,
        root: bool = False,
    ) -> list[Enqueued]:
        """Ask for many pieces of work at once: all of them are durable, or none is."""
        return self._enqueue_all(payloads, EnqueueOptions(after, at, priority, limits), conn, root)

    async def aenqueue(
        self,
        payload: Payload,
        *,
        conn: Any = None,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        limits: Limits | None = None,
        root: bool = False,
    ) -> Enqueued:
        """`enqueue`, awaited; `conn` is a connection that is awaited too."""
        return (await self._aenqueue_all([payload], EnqueueOptions(after, at, priority, limits), conn, root))[0]

    async def aenqueue_many(
        self,
        payloads: Iterable[Payload],
        *,
        conn: Any = None,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        limits: Limits | None = None,
        root: bool = False,
    ) -> list[Enqueued]:
        """`enqueue_many`, awaited; `conn` is a connection that is awaited too."""
        return await self._aenqueue_all(payloads, EnqueueOptions(after, at, priority, limits), conn, root)

    def _enqueue_all(
        self, payloads: Iterable[Payload], options: EnqueueOptions, conn: Any, root: bool
    ) -> list[Enqueued]:
        if _needs_settings(options, conn):
            self._look_at_settings()
        asked = self._spawn_or_ask(payloads, options, conn, root)
        if isinstance(asked, list):
            return asked
        if conn is not None:
            driver = caller_connection.driver_for(conn)
            self._refuse_other_database(driver.dialect)
            with driver.framed():
                return drive(asked.begin(), driver)
        if not asked.may_share:
            return self._transact(asked.begin)
        self._refuse_lent()
        return self._sharing.ask(asked.roots, asked.roots.count)

    async def _aenqueue_all(
        self, payloads: Iterable[Payload], options: EnqueueOptions, conn: Any, root: bool
    ) -> list[Enqueued]:
        if _needs_settings(options, conn):
            await asyncio.to_thread(self._look_at_settings)
        asked = self._spawn_or_ask(payloads, options, conn, root)
        if isinstance(asked, list):
            return asked
        if conn is not None:
            driver = caller_connection.async_driver_for(conn)
            self._refuse_other_database(driver.dialect)
            async with driver.aframed():
                return await adrive(asked.begin(), driver)
        if not asked.may_share:
            return await asyncio.to_thread(self._transact, asked.begin)
        self._refuse_lent()
        return await self._sharing.aask(asked.roots, asked.roots.count)

    def _spawn_or_ask(
        self, payloads: Iterable[Payload], options: EnqueueOptions, conn: Any, root: bool
    ) -> list[Enqueued] | _Asked:
        """What a stage that runs here has spawned with this, or nothing for nothing; else what is asked for."""
        given = list(payloads)
        far = far_task(root)
        context = spawning_stage(root, conn) if far is None else None
        if context is not None:
            return [_spawned(context, payload, options) for payload in given]
        if not given:
            return []
        roots = self._rooting.roots(given, self._store.clock.now(), options)
        may_share = far is None and roots.locks_nothing
        return _Asked(roots, may_share, lambda: self._begin(given, roots, options, far))

    def _begin(
        self, payloads: Sequence[Payload], roots: Roots, options: EnqueueOptions, far: Far | None
    ) -> Op[list[Enqueued]]:
        """Enqueue what a task in another process has asked for as its children, and anything else as roots."""
        if far is None:
            return (yield from self._enqueue(roots))

        def wanted(lease: Lease) -> list[Spawn]:
            return [self._spawner.child(lease, payload, options) for payload in payloads]

        try:
            spawned = yield from spawn_remotely(far.task, far.lineage, wanted, self.config.bounds, roots.now)
        except NoLineage:
            if far.otherwise == "raise":
                raise
            return (yield from self._enqueue(roots))
        except ParentCancelled as error:
            return [Enqueued(None, created=False, reason=str(error)) for _ in payloads]
        return [_joined(decision) for _, decision in spawned.decisions]

    @cached_property
    def _rooting(self) -> Rooting:
        return Rooting(self._registry, self._stop_list, lambda limits: self.config.bounds.replaced(limits))

    @cached_property
    def _sharing(self) -> Sharing[Roots, list[Enqueued]]:
        return Sharing(self._lock, self._write_roots)

    def _write_roots(self, several: Sequence[Roots], is_whole: Callable[[], None]) -> list[list[Enqueued]]:
        """Enqueue what several callers have asked for, in one transaction; says when all but its commit is done."""
        if len(several) == 1 and several[0].is_one and self._store.dialect == "postgres":
            statement = enqueue_at_once(several[0].alike[0][1])
            if statement is not None:
                is_whole()
                rows = self._transact_statement(statement)
                if not rows:
                    raise OutcomeUnknown("it was enqueued without a reply, and was gone before its id could be read")
                return [[Enqueued(rows[0][0])]]

        def enqueue_all() -> Op[list[list[Enqueued]]]:
            found = yield from self._enqueue(several[0] if len(several) == 1 else together(several))
            is_whole()
            ends = accumulate((one.count for one in several), initial=0)
            return [found[start : start + one.count] for start, one in zip(ends, several, strict=False)]

        return self._transact(enqueue_all)

    def batch(
        self,
        name: str,
        *,
        then: Payload | None = None,
        deadline: Duration | None = None,
        limits: Limits | None = None,
        root: bool = False,
    ) -> Batch:
        """Open a batch, as a context manager: what is added to it is committed at the end of its block, all or nothing.

        It ends when the last of its tasks and of their descendants has ended; then `then` is enqueued, exactly once.
        `limits` hold for the batch as a whole: `max_tasks` counts all its tasks. At its `deadline` it has failed, and
        so have its open tasks; where none is given, it is the setting of that name, 48 h.

        Inside a running stage it is an effect, opened when the stage commits, unless `root` says otherwise: what is
        added are children of the stage's task, under the rules of its lineage, and a refused child is not in it.
        `then` is a child too, made at the same time: it takes its place in the lineage at once, and waits. If depth, an
        ancestor or the stop list refuse it, that is an error of the stage; if its work is there already or there is no
        room, it is a refusal of the task, and the batch ends without it. A task that opens its batch once more means
        the same one. While a request is served under `onceward.incoming`, all this holds for the task that has sent it.
        """
        if limits is not None:
            checked_limits(limits)
        far = far_task(root)
        context = spawning_stage(root, None) if far is None else None
        most = None if limits is None else limits.max_tasks
        lasts_ms = self.config.bounds.deadline_ms if deadline is None else checked_deadline(deadline)
        budget = None if limits is None else limits.budget_amount
        fails = limits is not None and limits.when_spent == "fail"
        new = StageBatch(codec.checked_name(name, "a batch"), lasts_ms, most, budget, fails)
        if context is not None:
            return Batch(name, StageFilling(context, new, then, limits))
        roots = self._batch_of_roots(new, then, limits)
        if far is None:
            return Batch(name, roots)
        return Batch(name, self._far_batch(far, new, then, limits, roots))

    def _batch_of_roots(self, batch: StageBatch, then: Payload | None, limits: Limits | None) -> RootFilling:
        last = None if then is None else self._rooting.task(then, self._store.clock.now(), NO_OPTIONS)
        if last is not None and then is not None and (stopped := self._rooting.stopped(last, then)) is not None:
            raise ConfigError(f"what follows batch {batch.name!r} is kept out by the stop list: {stopped}")
        bounds = None if limits is None else self.config.bounds.of_each(limits)
        new = batches.NewBatch(batch.name, last, batch.deadline_ms, batch.max_tasks, batch.budget, batch.fails)

        def make(payload: Payload, options: EnqueueOptions) -> NewTask | None:
            task = self._rooting.task(payload, self._store.clock.now(), options)
            stopped = self._rooting.stopped(task, payload)
            return None if stopped is not None else msgspec.structs.replace(task, bounds=bounds)

        return RootFilling(
            make, lambda tasks: self._transact(lambda: batches.open_batch(new, tasks, self._store.clock.now()))
        )

    def _far_batch(
        self, far: Far, new: StageBatch, then: Payload | None, limits: Limits | None, otherwise: RootFilling
    ) -> FarFilling:
        def open_it(wanted: Callable[[Lease], list[Spawn]]) -> Op[SpawnResults]:
            now = self._store.clock.now()
            spawned = yield from spawn_remotely(far.task, far.lineage, wanted, self.config.bounds, now, new)
            for one, decision in spawned.decisions:
                if one.spawn.follows is not None and decision.refused is not None:
                    raise not_followed(new.name, decision.refused)
            return spawned

        def arrive_with(wanted: Callable[[Lease], list[Spawn]]) -> SpawnResults:
            return self._transact(lambda: open_it(wanted))

        return FarFilling(far, new, then, limits, self._spawner.child, arrive_with, otherwise)

    def _enqueue(self, roots: Roots) -> Op[list[Enqueued]]:
        """Enqueue roots: most at once, those that are unique everywhere or have limits of their own one by one."""
        if len(roots.alike) == 1 and len(roots.alike[0][0]) == roots.count:
            return list(map(Enqueued, (yield from enqueue_alike(roots.alike[0][1]))))
        now = roots.now
        at_once = {place: task for place, task in roots.tasks.items() if task.is_plain}
        refused = roots.refused | (yield from count_roots(at_once, None, now))
        found = {place: Enqueued(None, created=False, reason=why) for place, why in refused.items()}
        for places, new in roots.alike:
            found.update(zip(places, map(Enqueued, (yield from enqueue_alike(new))), strict=True))
        plain = []
        taken = yield from take_root_identities(task for place, task in roots.tasks.items() if place not in refused)
        for place, task in roots.tasks.items():
            if place in refused:
                continue
            if task.is_plain:
                plain.append(place)
                continue
            number, is_new, why = yield from enqueue_root(task, now, number=taken.pop(task.identity, None))
            found[place] = Enqueued(number) if is_new else Enqueued(number, created=False, existing=number, reason=why)
        for start in range(0, len(plain), MOST_IN_ONE_STATEMENT):
            some = plain[start : start + MOST_IN_ONE_STATEMENT]
            ids = yield from enqueue([roots.tasks[place] for place in some], now)
            found.update(zip(some, map(Enqueued, ids), strict=True))
        return [found[place] for place in range(roots.count)]

    def _refuse_other_database(self, dialect: str) -> None:
        if dialect != self._store.dialect:
            raise ConfigError(f"this app keeps its work on {self._store.place}; that connection leads to {dialect}")


def _needs_settings(options: EnqueueOptions, conn: Any) -> bool:
    """Whether what the limits of a new lineage leave open is to be as it is now."""
    return options.limits is not None and conn is None and current.get() is None


def _spawned(context: Context[Any], payload: Payload, options: EnqueueOptions) -> Enqueued:
    spawned = context.spawn(payload, **options._asdict())
    return Enqueued(None, created=bool(spawned), existing=spawned.existing, reason=spawned.reason)


def _joined(decision: Decision) -> Enqueued:
    if decision.refused is not None:
        refused = decision.refused
        return Enqueued(None, created=False, existing=refused.existing, reason=refused.reason)
    return Enqueued(decision.task, decision.is_new, None if decision.is_new else decision.task)
