"""The app: pipelines, a database, and everything one can do with them. The only place where everything meets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Literal

from onceward import extras
from onceward.authoring.current_stage import refuse_while_importing
from onceward.authoring.pipeline import Pipeline
from onceward.client.awaited import awaited
from onceward.client.enqueueing import Enqueueing
from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.arguments import checked_function
from onceward.model.failure import Failure
from onceward.model.lineage import Limits, checked_number
from onceward.model.schedule import Cron
from onceward.model.setting import Setting
from onceward.model.stop_list import StopList
from onceward.model.times import Clock, Duration
from onceward.settings.config import Config, with_profile
from onceward.support.lazily import modules
from onceward.worker import find_app
from onceward.worker.event_loop import refuse_running_loop, run_on_loop
from onceward.worker.worker_orders import Orders, Summary

web_site, web_guard = modules("onceward.web.site", "onceward.web.guard")  # rooms above; they need the extra `web`

if TYPE_CHECKING:  # a program that asks for work does not do any
    from onceward.operations import alerts as alert_operations
    from onceward.operations import intake, ticks
    from onceward.operations import schedules as schedule_operations
    from onceward.operations import why as reasons
    from onceward.operations.alerts import Alerts
    from onceward.operations.audit import Audit
    from onceward.operations.batches import Batches
    from onceward.operations.budgets import Budgets
    from onceward.operations.bulk import Bulk
    from onceward.operations.cache import Cache
    from onceward.operations.lineages import Lineages
    from onceward.operations.schedules import Schedules
    from onceward.operations.settings import Settings
    from onceward.operations.sources import Sources
    from onceward.operations.stats import Statistics
    from onceward.operations.task_ref import TaskRef
    from onceward.operations.tasks import Tasks
    from onceward.operations.ticks import TickReport
    from onceward.operations.tokens import Tokens
    from onceward.operations.triggers import Trigger
    from onceward.operations.workers import Workers
    from onceward.store.drivers.migrate import Migration
    from onceward.store.operations import hourly_usage
    from onceward.store.verify import verify
    from onceward.views import envelope as envelopes
    from onceward.views import worst_hour
    from onceward.views.alerts import Watch
    from onceward.views.envelope import Envelope
    from onceward.views.why import Why
    from onceward.worker.process import WorkerProcess
else:
    alert_operations, schedule_operations, ticks, reasons = modules(
        "onceward.operations.alerts",
        "onceward.operations.schedules",
        "onceward.operations.ticks",
        "onceward.operations.why",
    )
    (intake,) = modules("onceward.operations.intake")
    envelopes, worst_hour = modules("onceward.views.envelope", "onceward.views.worst_hour")
    hourly_usage, verify = modules("onceward.store.operations.hourly_usage", "onceward.store.verify.verify")

MOST_PROCESSES = 10_000


class App(Enqueueing):
    """Pipelines and the database in which their work is kept. Making one connects to nothing.

    `sqlite:///file.db` (embedded, migrated at first use) or `postgresql://host/name`. `migrations` are the
    application's own tables, `on_connect` is called with every new driver connection, `config` holds the numbers,
    `profile` chooses some of them, `settings` are those of the application itself. `on_failure` is called with every
    `Failure`, an attempt that failed or a task that ended badly, once it is committed, in a thread of its own.

    Operations stand in namespaces by subject: `app.tasks`, `app.bulk`, `app.lineages`, `app.batches`, `app.sources`,
    `app.budgets`, `app.schedules`, `app.settings`, `app.alerts`, `app.cache`, `app.workers`, `app.stats`. Every method
    that waits for the database has an awaited form, with `a` in front: `await app.tasks.aget(7)`.
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
        self._schedules = schedule_operations.known_schedules(self, schedules)
        self._watches = alert_operations.checked_watches(watches)
        if on_failure is not None:
            checked_function("on_failure", on_failure, "a Failure; it is a plain `def`")
            if iscoroutinefunction(on_failure):
                raise ConfigError("on_failure is an `async def`; it is a plain function, called in a thread of its own")
        self._on_failure = on_failure

    @cached_property
    def tasks(self) -> Tasks:
        """What became of tasks, and what an operator does with one."""
        from onceward.operations.tasks import Tasks

        return Tasks(self)

    @cached_property
    def lineages(self) -> Lineages:
        """Trees of tasks: see one whole, cancel, retry, pause it, raise its limits."""
        from onceward.operations.lineages import Lineages

        return Lineages(self)

    @cached_property
    def batches(self) -> Batches:
        """Sets of tasks with one progress and one end."""
        from onceward.operations.batches import Batches

        return Batches(self)

    @cached_property
    def bulk(self) -> Bulk:
        """Retry, cancel or approve all tasks that match a filter."""
        from onceward.operations.bulk import Bulk

        return Bulk(self)

    @cached_property
    def sources(self) -> Sources:
        """Outside services: their rates, their health, enable and disable."""
        from onceward.operations.sources import Sources

        return Sources(self)

    @cached_property
    def budgets(self) -> Budgets:
        """Money and other ceilings: what is spent, set aside and left, and another limit."""
        from onceward.operations.budgets import Budgets

        return Budgets(self)

    @cached_property
    def schedules(self) -> Schedules:
        """Work at set times: pause, resume, run now."""
        from onceward.operations.schedules import Schedules

        return Schedules(self, self._schedules)

    @cached_property
    def settings(self) -> Settings:
        """The numbers in force, and live changes."""
        from onceward.operations.settings import Settings

        return Settings(self)

    @cached_property
    def alerts(self) -> Alerts:
        """What the rules of the engine and the watches of the app have found."""
        from onceward.operations.alerts import Alerts

        return Alerts(self, self._watches)

    @cached_property
    def cache(self) -> Cache:
        """The answers of sources that all workers share."""
        from onceward.operations.cache import Cache

        return Cache(self)

    @cached_property
    def tokens(self) -> Tokens:
        """Who may use the dashboard and the HTTP API."""
        from onceward.operations.tokens import Tokens

        return Tokens(self)

    @cached_property
    def audit(self) -> Audit:
        """What callers of the dashboard and of the HTTP API have changed."""
        from onceward.operations.audit import Audit

        return Audit(self)

    @cached_property
    def workers(self) -> Workers:
        """The processes at work, and pauses of what they may begin."""
        from onceward.operations.workers import Workers

        return Workers(self)

    @cached_property
    def stats(self) -> Statistics:
        """How many tasks there are, how fast they go, what is stuck."""
        from onceward.operations.stats import Statistics

        return Statistics(self)

    def __repr__(self) -> str:
        return f"<App {', '.join(self._registry.kinds) or 'without pipelines'} on {self._store.place}>"

    def on(self, url: str, *, clock: Clock | None = None) -> App:
        """The same app on another database; for tests, and for one database per customer."""
        return App(
            url,
            self._registry,
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
        self._registry.check_runnable()
        self._in_force.check()
        self._registry.lanes(queues)
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
        return self._work(orders)

    def tick(
        self,
        *,
        max_tasks: int | None = None,
        time_limit: Duration | None = None,
        chain: int | None = None,
        chain_left: int | None = None,
        trigger: Trigger | None = None,
        concurrency: int | None = None,
        queues: Sequence[str] | None = None,
    ) -> TickReport:
        """Be a worker for a while: until nothing is ready, or so many tasks were claimed, or the time is over.

        First it takes back what dead workers held, ends what has run out of time and fires schedules that are due. If
        work is ready in the end it triggers the next tick, by default another process on this machine; at most `chain`
        times after the scheduled one. `chain_left` is what the trigger of this tick was told. What is not
        given is as the settings `tick_tasks`, `tick_limit` and `chain` say; its lease is `tick_lease`.
        """
        return ticks.run_tick(
            self,
            self._work,
            max_tasks=max_tasks,
            time_limit=time_limit,
            chain=chain,
            chain_left=chain_left,
            trigger=trigger,
            concurrency=concurrency,
            queues=queues,
        )

    def _work(self, orders: Orders, on_start: Callable[[WorkerProcess], None] | None = None) -> Summary:
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
                self._registry,
                self._in_force,
                orders,
                self._readers.read,
                self._spawner,
                self._schedules,
                self._watches,
                hook,
                intake.tasks_of_intake(self),
            )
            if on_start is not None:
                on_start(process)
            return run_on_loop(process.run(), _fastest_loop(), is_watched=True)
        finally:
            if hook is not None:
                hook.close()
            if pinned:
                self._in_force.pin()

    def why(self, task: TaskRef) -> Why:
        """Why a task is not running, until when, and which command unblocks it; `.below` says why its children wait."""
        return reasons.explain(self, task)

    awhy = awaited(why)

    def verify(self) -> verify.Report:
        """Check every invariant of the engine on the database as it is now."""
        with self._lock:
            return verify.verify(self._session(), self._store.clock.now())

    averify = awaited(verify)

    def asgi(self, *, hosts: Collection[str] | None = None, name: str = "") -> Any:
        """Return the dashboard and its JSON API as an ASGI application, to mount in FastAPI or Starlette.

        Every caller needs a token (`onceward token add`). `hosts` are the names under which it may be asked for;
        without them the program that mounts it checks that. It needs the extra `web`.
        """
        try:
            return web_site.Site(self, web_guard.Access(hosts), name=name).asgi()
        except ModuleNotFoundError as error:
            raise ConfigError(extras.missing(error.name or "") or str(error)) from error

    def envelope(
        self, limits: Limits | None = None, *, usd_per_1000_calls: float | None = None, measured: bool = False
    ) -> Envelope:
        """What can happen at worst, by the configuration alone: the tasks and attempts one root can come to, and what
        an hour of ticks, or of workers, can.

        `limits` are those that a root is enqueued with. The database is not asked, but with `measured` for what an hour
        has really come to.
        """
        worst_hour.checked_price(usd_per_1000_calls)
        registry = self._registry
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

    aenvelope = awaited(envelope)


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
