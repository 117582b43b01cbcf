"""Asking for work: one piece, many at once, a batch, or all that an older system has.

In a running stage what is asked for is a spawn, and a child of its task; under `onceward.incoming` a child of the task
that has sent the request; anywhere else a root, durable when the call returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from onceward.batch import Batch
from onceward.client import Client
from onceward.context import Context
from onceward.errors import ConfigError, NoLineage
from onceward.filling import FarFilling, RootFilling, StageFilling, not_followed
from onceward.hop import Far, far_task
from onceward.importing import Imported, Importer, ItemReader, Line, Problem
from onceward.model import codec
from onceward.model.lineage import Limits, Spawn, StageBatch, checked_deadline
from onceward.model.payload import Payload, checked_key, has_own_key, identity, stored_payload
from onceward.model.status import Status
from onceward.model.task import Lease, NewTask, band_of
from onceward.model.times import Duration, due, uuid7
from onceward.model.wishes import NO_WISHES, Wishes
from onceward.pipeline import checked_priority
from onceward.running_stage import current, spawning_stage
from onceward.store import batches
from onceward.store.asking import Decision
from onceward.store.budgets import admit, not_made
from onceward.store.enqueue import enqueue
from onceward.store.foreign import async_driver_for, driver_for
from onceward.store.hops import Cancelled, arrive
from onceward.store.importing import take_over
from onceward.store.op import Op, adrive, drive
from onceward.store.roots import enqueue_root
from onceward.store.stage_batches import Spawned

MOST_IN_ONE_STATEMENT = 1_000


@dataclass(frozen=True, slots=True)
class Enqueued:
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
        return self._enqueue_all([payload], Wishes(after, at, priority, limits), conn, root)[0]

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
        return self._enqueue_all(payloads, Wishes(after, at, priority, limits), conn, root)

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
        return (await self._aenqueue_all([payload], Wishes(after, at, priority, limits), conn, root))[0]

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
        return await self._aenqueue_all(payloads, Wishes(after, at, priority, limits), conn, root)

    def _enqueue_all(self, payloads: Iterable[Payload], wishes: Wishes, conn: Any, root: bool) -> list[Enqueued]:
        if _needs_settings(wishes, conn):
            self._look_at_settings()
        begin = self._spawn_or_begin(payloads, wishes, conn, root)
        if isinstance(begin, list):
            return begin
        if conn is None:
            return self._transact(begin)
        driver = driver_for(conn)
        self._refuse_other_database(driver.dialect)
        with driver.whole():
            return drive(begin(), driver)

    async def _aenqueue_all(self, payloads: Iterable[Payload], wishes: Wishes, conn: Any, root: bool) -> list[Enqueued]:
        if _needs_settings(wishes, conn):
            await asyncio.to_thread(self._look_at_settings)
        begin = self._spawn_or_begin(payloads, wishes, conn, root)
        if isinstance(begin, list):
            return begin
        if conn is None:
            return await asyncio.to_thread(self._transact, begin)
        driver = async_driver_for(conn)
        self._refuse_other_database(driver.dialect)
        async with driver.awhole():
            return await adrive(begin(), driver)

    def _spawn_or_begin(
        self, payloads: Iterable[Payload], wishes: Wishes, conn: Any, root: bool
    ) -> list[Enqueued] | Callable[[], Op[list[Enqueued]]]:
        """What a stage that runs here has spawned with this, or nothing for nothing; else the operation for it."""
        given = list(payloads)
        far = far_task(root)
        context = spawning_stage(root, conn) if far is None else None
        if context is not None:
            return [_spawned(context, payload, wishes) for payload in given]
        now = self._store.clock.now()
        tasks = [self._new_task(payload, now, wishes) for payload in given]
        return (lambda: self._begin(given, tasks, wishes, far, now)) if tasks else []

    def _begin(
        self, payloads: Sequence[Payload], tasks: Sequence[NewTask], wishes: Wishes, far: Far | None, now: int
    ) -> Op[list[Enqueued]]:
        """Enqueue what a task in another process has asked for as its children, and anything else as roots."""
        if far is None:
            return (yield from self._enqueue(tasks, now))

        def wanted(lease: Lease) -> list[Spawn]:
            return [self.spawner.child(lease, payload, wishes) for payload in payloads]

        try:
            spawned = yield from arrive(far.task, far.lineage, wanted, self.config.bounds, now)
        except NoLineage:
            if far.otherwise == "raise":
                raise
            return (yield from self._enqueue(tasks, now))
        except Cancelled as error:
            return [Enqueued(None, created=False, reason=str(error)) for _ in tasks]
        return [_joined(decision) for _, decision in spawned.decisions]

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
        added are children of the stage's task, under the rules of its lineage, and whoever is refused is not in it.
        `then` is a child too, made at the same time: it takes its place in the lineage at once, and waits. If depth, an
        ancestor or the stop list refuse it, that is an error of the stage; if its work is there already or there is no
        room, it is a refusal of the task, and the batch ends without it. A task that opens its batch once more means
        the same one. While a request is served under `onceward.incoming`, all this holds for the task that has sent it.
        """
        far = far_task(root)
        context = spawning_stage(root, None) if far is None else None
        most = None if limits is None else limits.max_tasks
        lasts_ms = self.config.bounds.deadline_ms if deadline is None else checked_deadline(deadline)
        budget = None if limits is None else limits.budget_amount
        new = StageBatch(codec.checked_name(name, "a batch"), lasts_ms, most, budget)
        if context is not None:
            return Batch(name, StageFilling(context, new, then, limits))
        roots = self._batch_of_roots(new, then, limits)
        if far is None:
            return Batch(name, roots)
        return Batch(name, self._far_batch(far, new, then, limits, roots))

    def _batch_of_roots(self, batch: StageBatch, then: Payload | None, limits: Limits | None) -> RootFilling:
        last = None if then is None else self._new_task(then, self._store.clock.now(), NO_WISHES)
        if last is not None and (stopped := self._stopped(last)) is not None:
            raise ConfigError(f"what follows batch {batch.name!r} is kept out by the stop list: {stopped}")
        bounds = None if limits is None else self.config.bounds.of_each(limits)
        new = batches.NewBatch(batch.name, last, batch.deadline_ms, batch.max_tasks, batch.budget)

        def make(payload: Payload, wishes: Wishes) -> NewTask | None:
            task = self._new_task(payload, self._store.clock.now(), wishes)
            return None if self._stopped(task) is not None else msgspec.structs.replace(task, bounds=bounds)

        return RootFilling(
            make, lambda tasks: self._transact(lambda: batches.open_batch(new, tasks, self._store.clock.now()))
        )

    def _far_batch(
        self, far: Far, new: StageBatch, then: Payload | None, limits: Limits | None, otherwise: RootFilling
    ) -> FarFilling:
        def open_it(wanted: Callable[[Lease], list[Spawn]]) -> Op[Spawned]:
            now = self._store.clock.now()
            spawned = yield from arrive(far.task, far.lineage, wanted, self.config.bounds, now, new)
            for one, decision in spawned.decisions:
                if one.spawn.follows is not None and decision.refused is not None:
                    raise not_followed(new.name, decision.refused)
            return spawned

        def arrive_with(wanted: Callable[[Lease], list[Spawn]]) -> Spawned:
            return self._transact(lambda: open_it(wanted))

        return FarFilling(far, new, then, limits, self.spawner.child, arrive_with, otherwise)

    def import_items(
        self,
        lines: Iterable[Line],
        *,
        kind: str | None = None,
        name: str = "import",
        fields: Mapping[str, str] | None = None,
        statuses: Mapping[str, Status | str] | None = None,
        on_problem: Callable[[Problem], None] | None = None,
    ) -> Imported:
        """Import items of an older system: JSON lines or mappings, each with a lineage of its own, assigned once.

        An item is known by its `id`, or else by its key, within the import of that `name`: whoever imports it again
        adds nothing. What was in work is pending here; what has ended stays ended, and can be retried. `fields` says
        where things stand in a line (`{"url": "job.link", "created_at": "createdAt"}`), `statuses` what words mean
        (`{"parked": "cancelled"}`). Without `kind` every line names its own. A line that cannot be read is in the
        report, with its number, and keeps no other from being imported.
        """
        if spawning_stage(root=False, conn=None) is not None:
            raise ConfigError("an import begins lineages of its own; it is nothing for a stage, which spawns its work")
        importer = Importer(
            name=name,
            reader=ItemReader(self.registry, kind, fields, statuses),
            make=lambda payload, now: self._new_task(payload, now, NO_WISHES),
            stopped=self._stopped,
            write=lambda scope, old, now: self._transact(lambda: take_over(scope, old, now)),
            now=self._store.clock.now,
            on_problem=on_problem,
        )
        return importer.run(lines)

    def _enqueue(self, tasks: Sequence[NewTask], now: int) -> Op[list[Enqueued]]:
        """Enqueue roots: most at once, those that are unique everywhere or have limits of their own one by one."""
        found: dict[int, Enqueued] = {}
        plain = []
        refused = {place: why for place, task in enumerate(tasks) if (why := self._stopped(task)) is not None}
        refused |= yield from admit({at: task for at, task in enumerate(tasks) if at not in refused}, None, now)
        for place, task in enumerate(tasks):
            if place in refused:
                found[place] = Enqueued(None, created=False, reason=refused[place])
            elif task.is_plain:
                plain.append(place)
            else:
                number, is_new = yield from enqueue_root(task, now)
                if not is_new:
                    yield from not_made(task, now)
                found[place] = Enqueued(number) if is_new else Enqueued(number, created=False, existing=number)
        for start in range(0, len(plain), MOST_IN_ONE_STATEMENT):
            places = plain[start : start + MOST_IN_ONE_STATEMENT]
            ids = yield from enqueue([tasks[place] for place in places], now)
            found.update(zip(places, map(Enqueued, ids), strict=True))
        return [found[place] for place in range(len(tasks))]

    def _stopped(self, task: NewTask) -> str | None:
        if self._stop_list is None:
            return None
        return self._stop_list.match(task.key if task.key is not None else task.payload.decode())

    def _new_task(self, payload: Payload, now: int, wishes: Wishes) -> NewTask:
        if not isinstance(payload, Payload):
            raise ConfigError(f"enqueue takes a payload, not {type(payload).__name__}")
        pipeline = self.registry[payload.__kind__]
        data = stored_payload(payload)
        own = has_own_key(type(payload))
        key = checked_key(payload) if own else data.decode()
        level = pipeline.priority if wishes.priority is None else checked_priority(wishes.priority)
        return NewTask(
            kind=pipeline.kind,
            version=pipeline.version,
            queue=pipeline.stages[0].queue if pipeline.stages else pipeline.queue,
            band=band_of(level),
            key=key if own else None,
            identity=identity(pipeline.kind, key),
            payload=data,
            lineage=uuid7(now),
            due_at=due(now, wishes.after, wishes.at),
            created_at=now,
            unique=pipeline.unique,
            fresh_for_ms=pipeline.fresh_for_ms,
            bounds=None if wishes.limits is None else self.config.bounds.replaced(wishes.limits),
            gates=pipeline.gates_of(pipeline.stages[0], payload) if pipeline.stages else None,
            estimate=pipeline.stages[0].costs.estimate(payload) if pipeline.stages else None,
            counted=pipeline.counted_in(payload),
        )

    def _refuse_other_database(self, dialect: str) -> None:
        if dialect != self._store.dialect:
            raise ConfigError(f"this app keeps its work on {self._store.place}; that connection leads to {dialect}")


def _needs_settings(wishes: Wishes, conn: Any) -> bool:
    """Whether what the limits of a new lineage leave open is to be as it is now."""
    return wishes.limits is not None and conn is None and current.get() is None


def _spawned(context: Context[Any], payload: Payload, wishes: Wishes) -> Enqueued:
    spawned = context.spawn(payload, **wishes._asdict())
    return Enqueued(None, created=bool(spawned), existing=spawned.existing, reason=spawned.reason)


def _joined(decision: Decision) -> Enqueued:
    if decision.refused is not None:
        refused = decision.refused
        return Enqueued(None, created=False, existing=refused.existing, reason=refused.reason)
    return Enqueued(decision.task, decision.is_new, None if decision.is_new else decision.task)
