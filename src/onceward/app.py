"""The app: pipelines, a database, and everything one can do with them. The only place where everything meets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal

from onceward.authoring.current_stage import refuse_while_importing
from onceward.authoring.pipeline import Pipeline
from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.arguments import checked_function
from onceward.model.failure import Failure
from onceward.model.lineage import Limits, checked_number
from onceward.model.schedule import Cron
from onceward.model.setting import Setting
from onceward.model.stop_list import StopList
from onceward.model.times import Clock
from onceward.operations.alerts import Watching, checked_watches
from onceward.operations.budgets import Budgeting
from onceward.operations.cache import CacheOperations
from onceward.operations.lineages import LineageOperations
from onceward.operations.schedules import Scheduling
from onceward.operations.settings import SettingOperations
from onceward.operations.sources import Governing
from onceward.operations.stats import Statistics
from onceward.operations.ticks import Ticking
from onceward.operations.workers import Workers
from onceward.settings.config import Config, with_profile
from onceward.support.lazily import modules
from onceward.worker import find_app
from onceward.worker.event_loop import refuse_running_loop, run_on_loop
from onceward.worker.worker_orders import Orders, Summary

if TYPE_CHECKING:  # a program that asks for work does not do any
    from onceward.store.drivers.migrate import Migration
    from onceward.store.operations import hourly_usage
    from onceward.views import envelope as envelopes
    from onceward.views import worst_hour
    from onceward.views.alerts import Watch
    from onceward.views.envelope import Envelope
    from onceward.worker.process import WorkerProcess
else:
    envelopes, worst_hour = modules("onceward.views.envelope", "onceward.views.worst_hour")
    (hourly_usage,) = modules("onceward.store.operations.hourly_usage")

MOST_PROCESSES = 10_000


class App(
    Ticking,
    Scheduling,
    LineageOperations,
    SettingOperations,
    Watching,
    Governing,
    Budgeting,
    CacheOperations,
    Statistics,
):
    """Pipelines and the database in which their work is kept. Making one connects to nothing.

    `sqlite:///file.db` (embedded, migrated at first use) or `postgresql://host/name`. `migrations` are the
    application's own tables, `on_connect` is called with every new driver connection, `config` holds the numbers,
    `profile` chooses some of them, `settings` are those of the application itself. `on_failure` is called with every
    `Failure`, an attempt that failed or a task that ended badly, once it is committed, in a thread of its own.
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
        schedules: Iterable[Cron] = (),
        profile: Literal["conservative", "balanced", "aggressive"] | None = None,
        settings: Sequence[Setting] = (),
        stop_list: StopList | None = None,
        watches: Iterable[Watch] = (),
        on_failure: Callable[[Failure], object] | None = None,
    ) -> None:
        super().__init__(
            url,
            pipelines,
            migrations=migrations,
            on_connect=on_connect,
            config=with_profile(config, profile),
            clock=clock,
            stop_list=stop_list,
            settings=settings,
        )
        self._schedules = self._known_schedules(schedules)
        self._watches = checked_watches(watches)
        if on_failure is not None:
            checked_function("on_failure", on_failure, "a Failure; it is a plain `def`")
            if iscoroutinefunction(on_failure):
                raise ConfigError("on_failure is an `async def`; it is a plain function, called in a thread of its own")
        self._on_failure = on_failure
        self.workers = Workers(self)

    def __repr__(self) -> str:
        return f"<App {', '.join(self.registry.kinds) or 'without pipelines'} on {self._store.place}>"

    def on(self, url: str, *, clock: Clock | None = None) -> App:
        """The same app on another database; for tests, and for one database per customer."""
        return App(
            url,
            self.registry,
            migrations=self._migrations,
            on_connect=self._on_connect,
            config=self._code,
            clock=clock,
            schedules=self._schedules,
            stop_list=self._stop_list,
            settings=list(self._declared.values()),
            watches=self._watches,
            on_failure=self._on_failure,
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
        refuse_while_importing("app.run()")
        refuse_running_loop("run")
        if processes is not None:
            checked_number("processes", processes, 1, MOST_PROCESSES)
        if name is not None:
            codec.checked_name(name, "a worker")
        self.prepare()
        self.registry.check_runnable()
        self._in_force.check()
        self.registry.lanes(queues)
        path = find_app.location_of(self)
        if processes is not None:
            if path is None:
                raise ConfigError("worker processes must be able to import the app: make it at the top of a module")
            from onceward.worker.supervisor import Supervisor

            supervisor = Supervisor(
                self._store,
                path,
                self._in_force,
                processes=processes,
                concurrency=concurrency,
                queues=queues,
                until_idle=until_idle,
                name=name,
            )
            return supervisor.run()
        orders = Orders(list(queues) if queues is not None else None, until_idle, name, concurrency, app_path=path)
        return self.work(orders)

    def work(self, orders: Orders, on_start: Callable[[WorkerProcess], None] | None = None) -> Summary:
        """Carry out orders in this process. `run` and the children of a supervisor come here."""
        pinned = {} if orders.concurrency is None else {"concurrency": orders.concurrency}
        if pinned:
            self._in_force.pin(**pinned)
        from onceward.worker.engine_failures import deliver_from_pipe
        from onceward.worker.failures import FailureHook
        from onceward.worker.process import WorkerProcess

        hook = None if self._on_failure is None else FailureHook(self._on_failure)
        if hook is not None and orders.failures is not None:
            deliver_from_pipe(orders.failures, hook)
        try:
            process = WorkerProcess(
                self._store,
                self.registry,
                self._in_force,
                orders,
                self._readers.read,
                self.spawner,
                self._schedules,
                self._watches,
                hook,
            )
            if on_start is not None:
                on_start(process)
            return run_on_loop(process.run(), _fastest_loop(), is_watched=True)
        finally:
            if hook is not None:
                hook.close()
            if pinned:
                self._in_force.pin()

    def envelope(
        self, limits: Limits | None = None, *, usd_per_1000_calls: float | None = None, measured: bool = False
    ) -> Envelope:
        """What can happen at worst, by the configuration alone: the tasks and attempts one root can come to, and what
        an hour of ticks, or of workers, can.

        `limits` are those that a root is enqueued with. The database is not asked, but with `measured` for what an hour
        has really come to.
        """
        worst_hour.checked_price(usd_per_1000_calls)
        registry = self.registry
        hour = worst_hour.hourly(
            self.config,
            registry,
            registry.sources.values(),
            registry.budgets.values(),
            usd_per_1000_calls=usd_per_1000_calls,
        )
        if measured:
            now = self._store.clock.now()
            typical = self._ask(lambda: hourly_usage.typical_hour(now))
            hour = replace(hour, typical=None if typical is None else typical.priced(usd_per_1000_calls))
        return envelopes.envelope(registry, self.config, limits, hour)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
