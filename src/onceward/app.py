"""The app: pipelines, a database, and everything one can do with them. The only place where everything meets."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar

import msgspec

from onceward import config as configuration
from onceward.batch import Batch, BatchStatus, as_batch_status
from onceward.config import Config
from onceward.context import Context, spawning_stage
from onceward.envelope import Envelope, envelope
from onceward.errors import BatchNotFound, ConfigError, NoLineage, NotInThisVersion, TaskNotFound
from onceward.hop import Far, far_task
from onceward.importing import Imported, Importer, ItemReader, Line, Problem
from onceward.lineage_view import (
    Found,
    Lineage,
    LineageId,
    LineageSummary,
    as_id,
    as_lineage,
    as_lineage_id,
    as_refusal,
    as_summary,
)
from onceward.model import codec
from onceward.model.batch import BatchOutcome
from onceward.model.connection import Connection
from onceward.model.lineage import Limits, Spawn, checked_deadline
from onceward.model.payload import Payload, checked_key, has_own_key, identity, payload_key, stored_payload
from onceward.model.status import Status, status_named
from onceward.model.stop_list import StopList
from onceward.model.task import Lease, NewTask, band_of
from onceward.model.times import Clock, Duration, due, milliseconds, uuid7
from onceward.pipeline import Pipeline, checked_priority
from onceward.store import batches, lineages, migrate, operate, pausing, pruning, reports, verify, waits
from onceward.store.enqueue import enqueue
from onceward.store.foreign import async_driver_for, driver_for
from onceward.store.guard import GuardedConnection, lent
from onceward.store.hops import Cancelled, arrive
from onceward.store.importing import take_over
from onceward.store.limits import raise_limits
from onceward.store.lineages import Head
from onceward.store.op import Op, adrive, drive
from onceward.store.open import open_store
from onceward.store.session import Session
from onceward.store.spawning import Decision, enqueue_root
from onceward.view import Task, as_task
from onceward.why import Why, why
from onceward.worker import locate
from onceward.worker.process import Orders, Summary, WorkerProcess
from onceward.worker.registry import Registry
from onceward.worker.spawner import Spawner
from onceward.worker.supervisor import Supervisor

T = TypeVar("T")
A = ParamSpec("A")
MOST_IN_ONE_STATEMENT = 1_000
RETRIED_AT_ONCE = 200
MOST_FOUND = 1_000
"""How many tasks and refusals `find` looks at."""


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


class Wishes(NamedTuple):
    """How a piece of work is to be done."""

    after: Duration | None
    at: datetime | None
    priority: int | None
    limits: Limits | None


class App:
    """Pipelines and the database in which their work is kept. Making one connects to nothing.

    `sqlite:///file.db` (embedded, migrated at first use) or `postgresql://host/name`. `migrations` are the
    application's own tables, `on_connect` is called with every new driver connection, `config` holds the numbers.
    """

    def __init__(
        self,
        url: str,
        pipelines: Iterable[Pipeline[Any]] = (),
        *,
        migrations: Sequence[migrate.Migration] = (),
        on_connect: Callable[[Any], None] | None = None,
        config: Config | None = None,
        clock: Clock | None = None,
        schedules: Any = None,
        profile: Any = None,
        settings: Any = None,
        stop_list: StopList | None = None,
        watches: Any = None,
    ) -> None:
        for option, given in (
            ("schedules", schedules),
            ("profile", profile),
            ("settings", settings),
            ("watches", watches),
        ):
            if given is not None:
                raise NotInThisVersion(f"App({option}=…)")
        self.url = url
        self.registry = Registry(pipelines)
        self.config = configuration.effective(config or Config())
        self._migrations = tuple(migrations)
        self._on_connect = on_connect
        self._store = open_store(url, clock, on_connect, prepare=self.config.prepare)
        self._stop_list = stop_list
        self.spawner = Spawner(self.registry, self.config.bounds, stop_list, self._store.clock.now)
        self._lock = threading.RLock()
        self._client: Session | None = None
        self._is_prepared = False

    def __repr__(self) -> str:
        return f"<App {', '.join(self.registry.kinds) or 'without pipelines'} on {self._store.place}>"

    @property
    def dialect(self) -> str:
        """`"sqlite"` or `"postgres"`."""
        return self._store.dialect

    def on(self, url: str, *, clock: Clock | None = None) -> App:
        """The same app on another database; for tests, and for one database per customer."""
        return App(
            url,
            self.registry,
            migrations=self._migrations,
            on_connect=self._on_connect,
            config=self.config,
            clock=clock,
            stop_list=self._stop_list,
        )

    # Asking for work

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
        many = self.enqueue_many([payload], conn=conn, after=after, at=at, priority=priority, limits=limits, root=root)
        return many[0]

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
        given = list(payloads)
        far = far_task(root)
        context = spawning_stage(root, conn) if far is None else None
        wishes = Wishes(after, at, priority, limits)
        if context is not None:
            return [_spawned(context, payload, wishes) for payload in given]
        now = self._store.clock.now()
        tasks = [self._new_task(payload, now, wishes) for payload in given]
        if not tasks:
            return []
        if conn is None:
            return self._transact(lambda: self._begin(given, tasks, wishes, far, now))
        driver = driver_for(conn)
        self._refuse_other_database(driver.dialect)
        with driver.whole():
            return drive(self._begin(given, tasks, wishes, far, now), driver)

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
        many = self.aenqueue_many([payload], conn=conn, after=after, at=at, priority=priority, limits=limits, root=root)
        return (await many)[0]

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
        given = list(payloads)
        far = far_task(root)
        context = spawning_stage(root, conn) if far is None else None
        wishes = Wishes(after, at, priority, limits)
        if context is not None:
            return [_spawned(context, payload, wishes) for payload in given]
        now = self._store.clock.now()
        tasks = [self._new_task(payload, now, wishes) for payload in given]
        if not tasks:
            return []
        if conn is None:
            return await asyncio.to_thread(self._transact, lambda: self._begin(given, tasks, wishes, far, now))
        driver = async_driver_for(conn)
        self._refuse_other_database(driver.dialect)
        async with driver.awhole():
            return await adrive(self._begin(given, tasks, wishes, far, now), driver)

    def _begin(
        self, payloads: Sequence[Payload], tasks: Sequence[NewTask], wishes: Wishes, far: Far | None, now: int
    ) -> Op[list[Enqueued]]:
        """Enqueue what a task in another process has asked for as its children, and anything else as roots."""
        if far is None:
            return (yield from self._enqueue(tasks, now))

        def wanted(lease: Lease) -> list[Spawn]:
            return [self.spawner.child(lease, payload, **wishes._asdict()) for payload in payloads]

        try:
            decisions = yield from arrive(far.task, far.lineage, wanted, self.config.bounds, now)
        except NoLineage:
            if far.otherwise == "raise":
                raise
            return (yield from self._enqueue(tasks, now))
        except Cancelled as error:
            return [Enqueued(None, created=False, reason=str(error)) for _ in tasks]
        return [_joined(decision) for decision in decisions]

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
        so have its open tasks. All of it begins new lineages: inside a stage `root` has to say so.
        """
        if far_task(root) is not None or spawning_stage(root, None) is not None:
            raise ConfigError(
                "for a stage work is spawned, and a stage with join=True waits for it; a batch of work that begins "
                "lineages of its own, whatever becomes of this stage, is batch(…, root=True)"
            )
        last = None if then is None else self._new_task(then, self._store.clock.now(), Wishes(None, None, None, None))
        if last is not None and (stopped := self._stopped(last)) is not None:
            raise ConfigError(f"what follows batch {name!r} is kept out by the stop list: {stopped}")
        bounds = None if limits is None else self.config.bounds.of_each(limits)
        new = batches.NewBatch(
            codec.checked_name(name, "a batch"),
            last,
            checked_deadline(deadline),
            None if limits is None else limits.max_tasks,
        )

        def make(payload: Payload, after: Duration | None, at: datetime | None, priority: int | None) -> NewTask | None:
            task = self._new_task(payload, self._store.clock.now(), Wishes(after, at, priority, None))
            return None if self._stopped(task) is not None else msgspec.structs.replace(task, bounds=bounds)

        return Batch(
            new.name,
            make,
            lambda tasks: self._transact(lambda: batches.open_batch(new, tasks, self._store.clock.now())),
        )

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
            make=lambda payload, now: self._new_task(payload, now, Wishes(None, None, None, None)),
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
        for place, task in enumerate(tasks):
            if (stopped := self._stopped(task)) is not None:
                found[place] = Enqueued(None, created=False, reason=stopped)
            elif task.is_plain:
                plain.append(place)
            else:
                number, is_new = yield from enqueue_root(task, now)
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
        )

    def _refuse_other_database(self, dialect: str) -> None:
        if dialect != self._store.dialect:
            raise ConfigError(f"this app keeps its work on {self._store.place}; that connection leads to {dialect}")

    # Working

    def run(
        self,
        *,
        processes: int | None = None,
        concurrency: int | None = None,
        queues: Sequence[str] | None = None,
        until_idle: bool = False,
        name: str | None = None,
    ) -> Summary:
        """Be a worker, until stopped by SIGTERM or Ctrl-C, or until nothing is left to do.

        Without `processes` in this process; with a number, as a supervisor of that many, which can also stop code
        that holds the interpreter. Then the app must stand in a module.
        """
        self.prepare()
        config = self.config if concurrency is None else replace(self.config, concurrency=concurrency)
        self.registry.check_runnable()
        self.registry.lanes(queues)
        path = locate.location_of(self)
        if processes is not None:
            if path is None:
                raise ConfigError("worker processes must be able to import the app: make it at the top of a module")
            supervisor = Supervisor(
                self._store, path, config, processes=processes, queues=queues, until_idle=until_idle, name=name
            )
            return supervisor.run()
        orders = Orders(list(queues) if queues is not None else None, until_idle, name, app_path=path)
        return self.work(orders, config)

    def work(
        self,
        orders: Orders,
        config: Config | None = None,
        on_start: Callable[[WorkerProcess], None] | None = None,
    ) -> Summary:
        """Carry out orders in this process. `run` and the children of a supervisor come here."""
        process = WorkerProcess(self._store, self.registry, config or self.config, orders, self._read_now, self.spawner)
        if on_start is not None:
            on_start(process)
        with asyncio.Runner(loop_factory=_fastest_loop()) as runner:
            return runner.run(process.run())

    # Operating

    def task(self, task_id: int) -> Task:
        """A task as it stands now, with its results and its history."""

        def look() -> Op[Task]:
            row = yield from reports.task(task_id)
            if row is None:
                raise TaskNotFound(task_id)
            results = yield from reports.results(task_id)
            events = yield from reports.events(task_id)
            progress = yield from reports.progress(task_id)
            return as_task(row, self.registry, results, events, progress)

        return self._ask(look)

    def tasks(
        self,
        *,
        status: Status | str | None = None,
        kind: str | None = None,
        key: str | None = None,
        lineage: str | uuid.UUID | None = None,
        min_depth: int | None = None,
        stuck: bool = False,
        limit: int = 20,
    ) -> list[Task]:
        """The newest tasks, filtered. `stuck`: running, but their worker has been silent for longer than its lease."""
        wanted = status_named(status) if isinstance(status, str) else status
        before = self._store.clock.now() if stuck else None
        within = None if lineage is None else as_lineage_id(lineage)
        rows = self._ask(
            lambda: reports.tasks(
                status=wanted, kind=kind, key=key, lineage=within, min_depth=min_depth, stuck_at=before, limit=limit
            )
        )
        return [as_task(row, self.registry) for row in rows]

    def find(self, payload: Payload, lineage: str | uuid.UUID | None = None) -> Found:
        """Whether this work is active, done or refused, in a lineage or anywhere: its tasks and refusals."""
        within = None if lineage is None else as_lineage_id(lineage)
        sought = identity(payload.__kind__, payload_key(payload))

        def look() -> Op[Found]:
            ids, refusals = yield from lineages.find(sought, within, MOST_FOUND)
            found = yield from reports.described(ids)
            return Found(tuple(as_task(row, self.registry) for row in found), tuple(map(as_refusal, refusals)))

        return self._ask(look)

    def why(self, task_id: int) -> Why:
        """Why a task is not running, and until when, where that is known."""
        now = self._store.clock.now()
        found = self._ask(lambda: waits.standing(task_id, now))
        if found is None:
            raise TaskNotFound(task_id)
        return why(found, now)

    def counts(self) -> dict[Status, int]:
        """How many tasks stand where."""
        return self._ask(reports.counts)

    def batches(self, *, status: str | None = None, limit: int = 20) -> list[BatchStatus]:
        """The newest batches; `status` is open, succeeded, partial or failed."""
        if status is not None and status.upper() not in BatchOutcome.__members__:
            words = ", ".join(one.word for one in BatchOutcome)
            raise ConfigError(f"{status!r} is no status of a batch; there are: {words}")
        wanted = None if status is None else int(BatchOutcome[status.upper()])
        return [as_batch_status(row) for row in self._ask(lambda: batches.read_batches(status=wanted, limit=limit))]

    def batch_status(self, name: str) -> BatchStatus:
        """A batch as it stands now."""
        rows = self._ask(lambda: batches.read_batches(name=name))
        if not rows:
            raise BatchNotFound(name)
        return as_batch_status(rows[0])

    def workers(self) -> list[reports.WorkerRow]:
        """The living workers, and how many tasks each holds."""
        return self._ask(reports.workers)

    def backlog(self) -> reports.Backlog:
        """What could run now, line by line, and what may run later."""
        return self._ask(reports.backlog)

    def cancel(self, task_id: int, reason: str = "cancelled by an operator") -> None:
        """Cancel a task that has not ended. After this returns nothing of it is written any more."""
        self._transact(lambda: operate.cancel(task_id, reason, self._store.clock.now()))

    def retry(self, task_id: int, *, fresh: bool = False, stage: str | Any = None) -> None:
        """Open an ended task again. Finished stages are kept, unless `fresh`; from `stage` on they are forgotten."""
        if fresh and stage is not None:
            raise ConfigError("give fresh=True or stage=, not both")
        name = stage if stage is None or isinstance(stage, str) else stage.name
        forget: list[str] = []
        queue = None
        if name is not None:
            task = self.task(task_id)
            stages = {one.name: one for one in self.registry[task.kind].stages}
            names = list(stages)
            if name not in names:
                raise ConfigError(f"there is no stage {name!r}; the stages are {', '.join(names)}")
            before, after = names[: names.index(name)], names[names.index(name) :]
            if missing := [one for one in before if one not in task.results]:
                raise ConfigError(f"task {task_id} cannot start at {name!r}: {missing[0]!r} has no stored result")
            forget = after + [one for one in task.results if one not in names]
            queue = stages[name].queue
        elif fresh and (kind := self.task(task_id).kind) in self.registry.kinds:
            queue = self.registry[kind].stages[0].queue
        self._transact(
            lambda: operate.reopen(
                task_id, fresh=fresh, stage=name, forget=forget, now=self._store.clock.now(), queue=queue
            )
        )

    # Lineages. Where one is asked for, the number of a task means that task and all that descend from it.

    def lineage(self, id: LineageId, *, subtree: bool = False, limit: int = 10_000) -> Lineage:
        """The lineage of a task, or the one with this id, as a tree; with `subtree` from that task down.

        It holds at most `limit` tasks, the oldest, and says how many there are besides.
        """
        wanted = as_id(id)
        tree = self._ask(lambda: lineages.tree(wanted, subtree=subtree, limit=max(1, limit)))
        return as_lineage(tree, self.config.bounds)

    def lineages(self, limit: int = 20, *, largest: bool = False) -> list[LineageSummary]:
        """The newest lineages, or the largest: those whose root has spawned or was given limits of its own."""
        return [as_summary(row) for row in self._ask(lambda: lineages.lineages(limit=limit, largest=largest))]

    def cancel_lineage(self, id: LineageId, reason: str = "cancelled by an operator") -> list[int]:
        """Cancel whatever is open in a lineage or a part of it; returns the tasks that were cancelled."""
        return self._on_lineage(id, lambda head, now: operate.cancel_all(head, reason, now))

    def retry_lineage(self, id: LineageId) -> operate.Retried:
        """Open all failed tasks of a lineage or a part of it again, as `retry` does: some hundred in a transaction, so
        that nobody waits for long. Returns them, and those that could not be opened."""
        wanted = as_id(id)

        def look() -> Op[list[int]]:
            return (yield from operate.failed_in((yield from lineages.head_of(wanted))))

        failed = self._ask(look)
        found = operate.Retried([], {})
        for start in range(0, len(failed), RETRIED_AT_ONCE):
            some = failed[start : start + RETRIED_AT_ONCE]
            opened = self._transact(lambda some=some: operate.reopen_failed(some, self._store.clock.now()))  # type: ignore[misc]
            found.tasks.extend(opened.tasks)
            found.refused.update(opened.refused)
        return found

    def pause_lineage(self, id: LineageId) -> int:
        """Let nothing of a lineage or a part of it begin before it is resumed; returns how many tasks are open.

        A stage that is running ends in good order, and so does one that a worker has already taken. What is spawned
        or retried meanwhile is paused too.
        """
        return self._on_lineage(id, pausing.pause)

    def resume_lineage(self, id: LineageId) -> int:
        """Let a lineage or a part of it go on; returns how many open tasks do."""
        return self._on_lineage(id, pausing.resume)

    def raise_limits(self, id: LineageId, limits: Limits) -> Limits:
        """Give a lineage or a part of it wider limits; returns those that it has now.

        What somebody below has narrowed stays narrow. A stage that is running knows the new limits when it is next
        begun; its commit knows them at once.
        """
        given = self.config.bounds
        now_has = self._on_lineage(id, lambda head, now: raise_limits(head, limits, given, now))
        return Limits(now_has.max_depth, now_has.max_tasks, now_has.max_children, now_has.deadline_ms / 1_000)

    def _on_lineage(self, id: LineageId, act: Callable[[Head, int], Op[T]]) -> T:
        wanted = as_id(id)

        def acting() -> Op[T]:
            head = yield from lineages.head_of(wanted)
            return (yield from act(head, self._store.clock.now()))

        return self._transact(acting)

    def signal(self, task_id: int, name: str, value: Any = True) -> None:
        """Send a signal to a task, before or while it waits for it. Its stage reads the value with `ctx.signal`."""
        codec.checked_name(name, "a signal")
        if value is None:
            raise ConfigError(f"None is what a stage reads as long as {name!r} has not come; send another value")
        data = codec.encoded(value, f"the value of signal {name!r}")
        self._transact(lambda: operate.signal(task_id, name, data, self._store.clock.now()))

    def verify(self) -> verify.Report:
        """Check every invariant of the engine on the database as it is now."""
        with self._lock:
            return verify.verify(self._session(), self._store.clock.now())

    def envelope(self, limits: Limits | None = None) -> Envelope:
        """What one root can come to at worst, in tasks and attempts, by the configuration alone.

        `limits` are those that a root is enqueued with. The database is not asked.
        """
        return envelope(self.registry, self.config, limits)

    def prune(self, older_than: Duration | None = None) -> pruning.Pruned:
        """Delete ended tasks that are older than that (30 days by default), with all that belongs to them."""
        now = self._store.clock.now()
        age_ms = self.config.keep_ms if older_than is None else milliseconds(older_than)
        with self._lock:
            return pruning.prune(self._session(), now - age_ms, now)

    def migrate(self) -> list[str]:
        """Bring the schema, and the application's own tables, up to date; returns what was done."""
        with self._lock:
            session = self._raw_session()
            done = migrate.migrate(session, self._store.clock.now())
            done += migrate.apply_app_migrations(session, self._migrations, self._store.clock.now())
            self._is_prepared = True
            return done

    def prepare(self) -> None:
        """Make sure that the database fits this code: migrate an embedded or an empty one, refuse others."""
        with self._lock:
            self._session()

    def read(self, function: Callable[Concatenate[Connection, A], T], *arguments: A.args, **named: A.kwargs) -> T:
        """Run `function(connection, *arguments)` on a read-only snapshot of the database."""
        self.prepare()
        value: T = self._read_now(partial(function, **named), arguments)
        return value

    async def aread(
        self, function: Callable[Concatenate[Connection, A], T], *arguments: A.args, **named: A.kwargs
    ) -> T:
        """`read`, awaited."""
        return await asyncio.to_thread(lambda: self.read(function, *arguments, **named))

    def close(self) -> None:
        """Close the connection of this app; a later use opens it again."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Inside

    def _raw_session(self) -> Session:
        if lent.get():
            raise ConfigError("a function given to ctx.write runs inside a commit; it uses its connection, not the app")
        if self._client is None:
            self._client = self._store.client_session()
        return self._client

    def _session(self) -> Session:
        session = self._raw_session()
        if not self._is_prepared:
            now = self._store.clock.now()
            migrate.prepare(session, now)
            migrate.apply_app_migrations(session, self._migrations, now)
            self._is_prepared = True
        return session

    def _transact(self, operation: Callable[[], Op[T]]) -> T:
        with self._lock:
            return self._session().transact(operation)

    def _ask(self, operation: Callable[[], Op[T]]) -> T:
        with self._lock:
            session = self._session()
            return session.patiently(lambda: drive(operation(), session))

    def _read_now(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        session = self._store.client_session(read_only=True)
        try:
            with session.reading() as raw:
                return function(GuardedConnection(raw, self._store.dialect), *arguments)
        finally:
            session.close()


def _spawned(context: Context[Any], payload: Payload, wishes: Wishes) -> Enqueued:
    spawned = context.spawn(payload, after=wishes.after, at=wishes.at, priority=wishes.priority, limits=wishes.limits)
    return Enqueued(None, created=bool(spawned), existing=spawned.existing, reason=spawned.reason)


def _joined(decision: Decision) -> Enqueued:
    if decision.refused is not None:
        refused = decision.refused
        return Enqueued(None, created=False, existing=refused.existing, reason=refused.reason)
    return Enqueued(decision.task, decision.is_new, None if decision.is_new else decision.task)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
