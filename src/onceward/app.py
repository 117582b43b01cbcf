"""The app: pipelines, a database, and everything one can do with them. The only place where everything meets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from onceward.config import Config
from onceward.enqueueing import Enqueueing
from onceward.envelope import Envelope, envelope
from onceward.errors import ConfigError, NotInThisVersion
from onceward.lineage_operations import LineageOperations
from onceward.model.lineage import Limits
from onceward.model.stop_list import StopList
from onceward.model.times import Clock
from onceward.operating import Operating
from onceward.pipeline import Pipeline
from onceward.store.migrate import Migration
from onceward.worker import locate
from onceward.worker.process import Orders, Summary, WorkerProcess
from onceward.worker.supervisor import Supervisor


class App(Enqueueing, LineageOperations, Operating):
    """Pipelines and the database in which their work is kept. Making one connects to nothing.

    `sqlite:///file.db` (embedded, migrated at first use) or `postgresql://host/name`. `migrations` are the
    application's own tables, `on_connect` is called with every new driver connection, `config` holds the numbers.
    """

    def __init__(
        self,
        url: str,
        pipelines: Iterable[Pipeline[Any]] = (),
        *,
        migrations: Sequence[Migration] = (),
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
        super().__init__(
            url,
            pipelines,
            migrations=migrations,
            on_connect=on_connect,
            config=config,
            clock=clock,
            stop_list=stop_list,
        )

    def __repr__(self) -> str:
        return f"<App {', '.join(self.registry.kinds) or 'without pipelines'} on {self._store.place}>"

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

    def envelope(self, limits: Limits | None = None) -> Envelope:
        """What one root can come to at worst, in tasks and attempts, by the configuration alone.

        `limits` are those that a root is enqueued with. The database is not asked.
        """
        return envelope(self.registry, self.config, limits)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
