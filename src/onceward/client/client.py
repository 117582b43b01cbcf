"""A database and the pipelines whose work is kept in it: one connection, opened at first use, and what runs on it.

What an app can do stands in classes of their own above this one; all of them ask and write through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from onceward.authoring.child_builder import Spawner
from onceward.authoring.pipeline import Pipeline
from onceward.authoring.registry import Registry
from onceward.client.awaited import awaited
from onceward.client.group_commit import Turn
from onceward.client.loop_warnings import warn_on_loop
from onceward.client.snapshot_pool import Readers
from onceward.errors import ConfigError
from onceward.model.arguments import checked_function, checked_value, checked_values, shown
from onceward.model.connection import Connection
from onceward.model.setting import Setting
from onceward.model.stop_list import StopList
from onceward.model.times import Clock
from onceward.settings import config as configuration
from onceward.settings.config import Config
from onceward.settings.effective import EffectiveSettings
from onceward.store.drivers.lent_connection import lent
from onceward.store.drivers.open import open_store
from onceward.store.drivers.session import Session
from onceward.store.op import AtomicStatement, Op, Rows
from onceward.support.lazily import modules
from onceward.support.redaction import know_environment

if TYPE_CHECKING:
    from onceward.store.drivers import migrate
else:
    (migrate,) = modules("onceward.store.drivers.migrate")

T = TypeVar("T")
A = ParamSpec("A")


class Client:
    """A connection to the database of an app, kept for the next call. Making one connects to nothing."""

    def __init__(
        self,
        url: str,
        pipelines: Iterable[Pipeline[Any]],
        *,
        migrations: Sequence[migrate.Migration],
        on_connect: Callable[[Any], None] | None,
        config: Config | None,
        clock: Clock | None,
        stop_list: StopList | None,
        settings: Iterable[Setting] = (),
    ) -> None:
        if clock is not None and not (hasattr(clock, "now") and hasattr(clock, "monotonic")):
            raise ConfigError(f"clock={shown(clock)}: it has the methods now() and monotonic(), in milliseconds")
        if on_connect is not None:
            checked_function("on_connect", on_connect, "a new connection of the driver")
        if stop_list is not None:
            checked_value("stop_list", stop_list, StopList, "StopList(domains=['example.com'])")
        self.url = url
        know_environment()
        self._registry = Registry(pipelines)
        self._code = Config() if config is None else config
        self._declared = configuration.declared(settings)
        self._in_force = EffectiveSettings(
            configuration.levels(self._code, self._declared), self._declared, self._registry
        )
        self._migrations = checked_values("migrations", migrations, migrate.Migration, "Migration('001', 'CREATE …')")
        self._on_connect = on_connect
        self._store = open_store(url, clock, on_connect, prepare=self.config.prepare)
        self._stop_list = stop_list
        self._spawner = Spawner(self._registry, self.config.bounds, stop_list, self._store.clock.now)
        self._in_force.tell(lambda changed: setattr(self._spawner, "defaults", changed.bounds))
        self._lock = Turn()
        self._client: Session | None = None
        self._readers = Readers(self._store, self._wait_s)
        self._is_prepared = False

    @property
    def config(self) -> Config:
        """The numbers in force, with the live ones as they were when the database was last asked for something."""
        return self._in_force.config

    @property
    def dialect(self) -> str:
        """`"sqlite"` or `"postgres"`."""
        return self._store.dialect

    def migrate(self) -> list[str]:
        """Bring the schema, and the application's own tables, up to date; returns what was done."""
        with self._lock:
            session = self._raw_session()
            done = migrate.migrate(session, self._store.clock.now())
            done += migrate.apply_app_migrations(session, self._migrations, self._store.clock.now())
            self._is_prepared = True
            return done

    amigrate = awaited(migrate)

    def prepare(self) -> None:
        """Make sure that the database fits this code: migrate an embedded or an empty one, refuse others."""
        with self._lock:
            self._session()

    def read(self, function: Callable[Concatenate[Connection, A], T], *arguments: A.args, **named: A.kwargs) -> T:
        """Run `function(connection, *arguments)` on a read-only snapshot of the database."""
        self.prepare()
        value: T = self._readers.read(partial(function, **named), arguments)
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
        self._readers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _refuse_lent() -> None:
        if lent.get():
            raise ConfigError("a function given to ctx.write runs inside a commit; it uses its connection, not the app")

    def _raw_session(self) -> Session:
        if lent.get():
            self._refuse_lent()
        if not self._store.is_memory:  # which answers at once
            warn_on_loop()
        if self._client is None:
            self._client = self._store.client_session()
            self._client.insist_for(self._wait_s())
        return self._client

    def _wait_s(self) -> float:
        """How long a call insists while the database is away."""
        return self.config.database_wait_ms / 1_000

    def _session(self) -> Session:
        session = self._raw_session()
        if not self._is_prepared:
            now = self._store.clock.now()
            migrate.prepare(session, now)
            migrate.apply_app_migrations(session, self._migrations, now)
            self._is_prepared = True
        if self._in_force.look_if_time(session):
            session.insist_for(self._wait_s())
            session.patiently(session.measure_clock)  # it may have been set since
        return session

    def _look_at_settings(self, *, at_once: bool = False) -> None:
        with self._lock:
            session = self._session()
            if at_once:
                self._in_force.look(session)

    def _transact(self, operation: Callable[[], Op[T]]) -> T:
        with self._lock:
            return self._session().transact(operation)

    def _transact_statement(self, statement: AtomicStatement) -> Rows:
        with self._lock:
            return self._session().transact_statement(statement)

    def _ask(self, operation: Callable[[], Op[T]]) -> T:
        with self._lock:
            session = self._session()
            return session.ask(operation)
