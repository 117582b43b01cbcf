"""The app: pipelines, a database, and everything one can do with them. The only place where everything meets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from onceward import config as configuration
from onceward.config import Config
from onceward.context import current
from onceward.errors import ConfigError, NotInThisVersion, TaskNotFound
from onceward.model import codec
from onceward.model.connection import Connection
from onceward.model.payload import Payload, checked_key, has_own_key, identity, stored_payload
from onceward.model.status import Status, status_named
from onceward.model.task import NewTask, band_of
from onceward.model.times import Clock, Duration, instant, milliseconds, uuid7
from onceward.pipeline import Pipeline, checked_priority
from onceward.store import migrate, operate, pruning, reports, verify
from onceward.store.enqueue import enqueue
from onceward.store.foreign import async_driver_for, driver_for
from onceward.store.guard import GuardedConnection, lent
from onceward.store.op import Op, adrive, drive
from onceward.store.open import open_store
from onceward.store.session import Session
from onceward.view import Task, as_task
from onceward.worker import locate
from onceward.worker.process import Orders, Summary, WorkerProcess
from onceward.worker.registry import Registry
from onceward.worker.supervisor import Supervisor

T = TypeVar("T")
A = ParamSpec("A")
MOST_IN_ONE_STATEMENT = 1_000


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What became of a payload that was enqueued. Truthy if there is a task for it."""

    id: int
    created: bool = True
    existing: int | None = None
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.created or self.existing is not None


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
        stop_list: Any = None,
        watches: Any = None,
    ) -> None:
        for option, given in (
            ("schedules", schedules),
            ("profile", profile),
            ("settings", settings),
            ("stop_list", stop_list),
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
        limits: Any = None,
    ) -> Enqueued:
        """Ask for one piece of work. When this returns, the task is durable.

        With `conn` it becomes part of the transaction of that connection, and exists when and if that commits.
        `after` is a duration, `at` an aware datetime, `priority` from -2 to 2.
        """
        return self._enqueue_now([payload], conn, after, at, priority, limits)[0]

    def enqueue_many(
        self,
        payloads: Iterable[Payload],
        *,
        conn: Any = None,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        limits: Any = None,
    ) -> list[Enqueued]:
        """Ask for many pieces of work at once: all of them are durable, or none is."""
        return self._enqueue_now(list(payloads), conn, after, at, priority, limits)

    async def aenqueue(
        self,
        payload: Payload,
        *,
        conn: Any = None,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        limits: Any = None,
    ) -> Enqueued:
        """`enqueue`, awaited; `conn` is a connection that is awaited too."""
        return (await self.aenqueue_many([payload], conn=conn, after=after, at=at, priority=priority, limits=limits))[0]

    async def aenqueue_many(
        self,
        payloads: Iterable[Payload],
        *,
        conn: Any = None,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        limits: Any = None,
    ) -> list[Enqueued]:
        """`enqueue_many`, awaited; `conn` is a connection that is awaited too."""
        given = list(payloads)
        if conn is None:
            _refuse_inside_stage()
            return await asyncio.to_thread(self._enqueue_now, given, None, after, at, priority, limits)
        now = self._store.clock.now()
        tasks = self._new_tasks(given, now, after, at, priority, limits)
        driver = async_driver_for(conn)
        self._refuse_other_database(driver.dialect)
        async with driver.awhole():
            ids = await adrive(enqueue(tasks, now), driver)
        return [Enqueued(task) for task in ids]

    def _enqueue_now(
        self,
        payloads: list[Payload],
        conn: Any,
        after: Duration | None,
        at: datetime | None,
        priority: int | None,
        limits: Any,
    ) -> list[Enqueued]:
        now = self._store.clock.now()
        tasks = self._new_tasks(payloads, now, after, at, priority, limits)
        if not tasks:
            return []
        if conn is None:
            ids = self._transact(lambda: _enqueue_in_pieces(tasks, now))
        else:
            driver = driver_for(conn)
            self._refuse_other_database(driver.dialect)
            with driver.whole():
                ids = drive(_enqueue_in_pieces(tasks, now), driver)
        return [Enqueued(task) for task in ids]

    def _new_tasks(
        self,
        payloads: Sequence[Payload],
        now: int,
        after: Duration | None,
        at: datetime | None,
        priority: int | None,
        limits: Any,
    ) -> list[NewTask]:
        _refuse_inside_stage()
        if limits is not None:
            raise NotInThisVersion("enqueue(limits=…)")
        if after is not None and at is not None:
            raise ConfigError("give after= or at=, not both")
        due_at = now if after is None else now + milliseconds(after)
        if at is not None:
            due_at = max(now, instant(at))
        return [self._new_task(payload, now, due_at, priority) for payload in payloads]

    def _new_task(self, payload: Payload, now: int, due_at: int, priority: int | None) -> NewTask:
        if not isinstance(payload, Payload):
            raise ConfigError(f"enqueue takes a payload, not {type(payload).__name__}")
        pipeline = self.registry[payload.__kind__]
        data = stored_payload(payload)
        own = has_own_key(type(payload))
        key = checked_key(payload) if own else data.decode()
        level = pipeline.priority if priority is None else checked_priority(priority)
        return NewTask(
            kind=pipeline.kind,
            version=pipeline.version,
            queue=pipeline.stages[0].queue if pipeline.stages else pipeline.queue,
            band=band_of(level),
            key=key if own else None,
            identity=identity(pipeline.kind, key),
            payload=data,
            lineage=uuid7(now),
            due_at=due_at,
            created_at=now,
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
        process = WorkerProcess(self._store, self.registry, config or self.config, orders, self._read_now)
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
        stuck: bool = False,
        limit: int = 20,
    ) -> list[Task]:
        """The newest tasks, filtered. `stuck`: running, but their worker has been silent for longer than its lease."""
        wanted = status_named(status) if isinstance(status, str) else status
        before = self._store.clock.now() if stuck else None
        rows = self._ask(lambda: reports.tasks(status=wanted, kind=kind, key=key, stuck_at=before, limit=limit))
        return [as_task(row, self.registry) for row in rows]

    def counts(self) -> dict[Status, int]:
        """How many tasks stand where."""
        return self._ask(reports.counts)

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


def _enqueue_in_pieces(tasks: Sequence[NewTask], now: int) -> Op[list[int]]:
    ids: list[int] = []
    for start in range(0, len(tasks), MOST_IN_ONE_STATEMENT):
        ids += yield from enqueue(tasks[start : start + MOST_IN_ONE_STATEMENT], now)
    return ids


def _refuse_inside_stage() -> None:
    if current.get() is not None:
        raise NotInThisVersion("enqueueing from inside a running stage (that is a spawn, and spawns have rules)")


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
