"""A worker process from its start to its end: registered, working, stopped in good order.

Used by `app.run()` in a script, where a thread of the same process renews the leases, and by the children of a
supervisor, where the supervisor does.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from onceward.authoring.child_builder import Spawner
from onceward.authoring.current_stage import is_worker
from onceward.authoring.registry import Registry
from onceward.errors import OutcomeUnknown, StoreError, StoreUnavailable
from onceward.model.times import NEVER
from onceward.settings.effective import EffectiveSettings
from onceward.store.attempts.workers import stop
from onceward.store.drivers import sqlite_library_guard
from onceward.store.drivers.availability import database
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import GONE, ConnectionLost, TryAgainLater
from onceward.store.lines.memory import LineMemory
from onceward.store.operations.intake import MakeTasks
from onceward.support.logs import EngineLog, stopping
from onceward.views.alerts import Watch
from onceward.worker import crash_points, observing
from onceward.worker.bulk_carrier import BulkCarrier
from onceward.worker.cache_reader import CacheReader
from onceward.worker.committer import Committer
from onceward.worker.engine_threads import off_loop
from onceward.worker.event_loop import first_of
from onceward.worker.failures import OnFailure
from onceward.worker.idle_looks import IdleLooks
from onceward.worker.intake import Intake
from onceward.worker.interpreter import handle_signals, tuned_interpreter
from onceward.worker.introduction import Introduction
from onceward.worker.keeper import Keeper
from onceward.worker.presence import Presence
from onceward.worker.reception import Reception
from onceward.worker.runner import TICK_S, Runner
from onceward.worker.runner_ports import Place, Ports, Share
from onceward.worker.scheduler import KnownSchedules
from onceward.worker.threads import StageThreads
from onceward.worker.wakeup import POLL_ONLY_MS, Listener, PollOnly, Wakeup, WatchFile, notify
from onceward.worker.watcher import Watcher
from onceward.worker.winding_down import wind_down
from onceward.worker.worker_orders import Orders, Summary
from onceward.worker.writer import Writer, limit_writes_of

IDLE_LOOK_S = 0.1
SUSPECTS_LOOK_S = 1.0
LONGEST_START_S = 60.0
INSISTS_S = 5.0
"""How long a transaction runs again and again after lost connections and locks, before something else is tried."""
LONGEST_LOCK_WAIT_S = 3.0
"""How long a statement of such a transaction waits for the lock of another; then the whole runs again."""

logger = EngineLog("onceward.worker")


class _Parts(NamedTuple):
    """The parts of a worker at work, in the order in which they are made."""

    writer: Writer
    apart: Session
    wakeup: Wakeup
    committer: Committer
    cache_reader: CacheReader
    threads: StageThreads
    runner: Runner
    reception: Reception
    listener: Listener | None
    keeper: Keeper
    watcher: Watcher


class WorkerProcess:
    """One worker, in this process."""

    def __init__(
        self,
        store: Any,
        registry: Registry,
        in_force: EffectiveSettings,
        orders: Orders,
        read: Callable[..., Any],
        spawner: Spawner,
        schedules: KnownSchedules,
        watches: Sequence[Watch] = (),
        on_failure: OnFailure | None = None,
        make_tasks: MakeTasks | None = None,
    ) -> None:
        self._on_failure = on_failure
        self._make_tasks = make_tasks
        registry.check_runnable()
        self._store = store
        self._registry = registry
        self._in_force = in_force
        self._orders = orders
        self._read = read
        self._spawner = spawner
        self._schedules = schedules
        self._watches = watches
        self._supervised = orders.worker is not None
        if self._supervised and store.dialect == "sqlite":  # the supervisor has registered it there
            store.seen.was_there = True
        self._queues = registry.queues if orders.queues is None else orders.queues
        self._stop_requests = 0
        self._asked_to_stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ordinary_lanes = registry.lanes(orders.queues)
        self._suspect_lanes = registry.lanes(orders.queues, suspect=True)
        self._lost_everything = False
        self._ends_at = None if orders.tick is None else store.clock.monotonic() + orders.tick.limit_ms
        self._longest_poll_ms: int | None = None
        self._introduction = Introduction(store, registry, in_force, orders, schedules, make_tasks)
        self._looks = IdleLooks(store, registry.kinds, self._ordinary_lanes, self._suspect_lanes)
        self.summary = Summary()

    def request_stop(self, times: int | None = None) -> None:
        """Stop in good order; asked a second time, give everything back at once. Safe from any thread.

        A supervisor says how many times it was asked itself: the same request may also have come here by a signal.
        """
        self._stop_requests = self._stop_requests + 1 if times is None else max(self._stop_requests, times)
        if self._loop is not None and self._asked_to_stop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._asked_to_stop.set)

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._stop_requests > 0

    @property
    def has_lost_everything(self) -> bool:
        """Whether all its leases are gone: another worker has declared it dead, or the database has gone back."""
        return self._lost_everything

    def _signalled(self) -> None:
        """A terminal, or systemd, signals the children of a supervisor too: with its word that is one request."""
        self.request_stop(1 if self._supervised else None)

    async def run(self) -> Summary:
        """Work until asked to stop, or until idle if that is the order."""
        sqlite_library_guard.insist_on_apsw()
        crash_points.arm_from_environment()
        self._loop = asyncio.get_running_loop()
        self._asked_to_stop = asyncio.Event()
        if self._stop_requests:
            self._asked_to_stop.set()
        try:
            with tuned_interpreter(), is_worker():
                while True:
                    await self._work()
                    if not self._lost_everything or self._supervised:
                        return self.summary
                    # All our leases are gone: others have declared us dead, or the database has gone back. We begin
                    # again under a new name. (A supervisor starts another child.)
                    self._lost_everything = False
        finally:
            if observing.observer is not None:
                await off_loop(observing.observer.flush)
            sqlite_library_guard.insist_no_longer()

    async def _work(self) -> None:
        """Live once as a worker: introduced, at work, signed off."""
        loop = asyncio.get_running_loop()
        session = self._store.session(patience_s=INSISTS_S)
        session.insists = True
        session.lock_limit_s = LONGEST_LOCK_WAIT_S
        signals = handle_signals(loop, self._signalled)
        here = None
        try:
            here = self._introduction.make_presence()
            worker = await off_loop(self._introduced, session, here)
            if worker is not None:
                await self._work_as(worker, session, here)
        finally:
            for number in signals:  # not sooner: a second Ctrl-C must not cut the end short
                loop.remove_signal_handler(number)
            if here is not None:
                here.remove()

    async def _work_as(self, worker: int, session: Session, here: Presence | None) -> None:
        parts = self._assemble(worker, session, here)
        parts.committer.start(parts.reception)
        if self._orders.tick is not None:
            await off_loop(parts.keeper.sweep)
        parts.keeper.start()
        parts.watcher.start()
        if parts.listener is not None:
            await off_loop(self._probe, parts.listener)
        parts.reception.is_open = True
        try:
            await (self._loop_until_done(parts.runner) if self._orders.tick is None else self._loop_as_tick(parts))
            await self._end(parts.runner)
        finally:
            await self._stop(parts)
            self._sum_up(parts)
            await off_loop(self._sign_off, session, worker)

    def _assemble(self, worker: int, session: Session, here: Presence | None) -> _Parts:
        """Make the parts of a worker, each from those before it."""
        loop, config = asyncio.get_running_loop(), self._in_force.config
        writer = Writer(session, worker, self._new_memory(self._ordinary_lanes), self._new_memory(self._suspect_lanes))
        apart = self._store.session(patience_s=INSISTS_S)
        limit_writes = partial(limit_writes_of, session, apart)
        limit_writes(config)
        self._in_force.tell(limit_writes)
        wakeup = self._wakeup(session)
        committer = Committer(writer, wakeup, loop, apart)
        cache_reader = CacheReader(self._store.session(patience_s=5.0))
        threads = StageThreads(loop, config.threads)
        runner = self._make_runner(committer, cache_reader, threads, here)
        if writer.memory.threaded:
            runner.claims.free_threads = lambda: threads.free
        reception = Reception(self, runner, writer, committer)
        listener = self._listener(worker, reception)
        make_tasks, kinds = self._make_tasks, self._registry.kinds
        keeper = Keeper(
            self._store.session(patience_s=5.0),
            self._in_force,
            runner,
            writer,
            loop,
            renews=not self._supervised,
            declared_dead=self._declared_dead,
            went_back=self.went_back,
            schedules=self._schedules,
            registry=self._registry,
            presence_folder=self._store.presence_folder,
            bulk=BulkCarrier(lambda: self._store.session(patience_s=5.0), kinds),
            listener=listener,
            on_failure=self._on_failure,
            intake=None if make_tasks is None else Intake(kinds, make_tasks, reception.asked_by_sql),
        )
        watcher = Watcher(self._store.session(patience_s=5.0), lambda: self._in_force.config, self._watches, self._read)
        return _Parts(
            writer, apart, wakeup, committer, cache_reader, threads, runner, reception, listener, keeper, watcher
        )

    def _make_runner(
        self, committer: Committer, cache_reader: CacheReader, threads: StageThreads, here: Presence | None
    ) -> Runner:
        clock = self._store.clock
        ports = Ports(
            submit=committer.submit,
            wish=committer.wish,
            read=self._read,
            look_up=cache_reader,
            setting=self._in_force.value,
            spawner=self._spawner,
            now=clock.now,
            monotonic=clock.monotonic,
        )
        share = Share(
            queues=frozenset(self._queues),
            suspects_only=self._orders.suspects_only,
            most_claims=None if self._orders.tick is None else self._orders.tick.max_tasks,
            ends_at=NEVER if self._ends_at is None else self._ends_at,
        )
        place = Place(threads=threads, presence=here, app_path=self._orders.app_path)
        runner = Runner(self._registry, self._in_force.config, ports, place, share, on_failure=self._on_failure)
        if self._supervised:
            # Its supervisor has a child of their own for suspects; in this one they would meet others.
            runner.claims.look_for_suspects = False
        return runner

    async def _stop(self, parts: _Parts) -> None:
        parts.keeper.stop()
        await off_loop(parts.watcher.stop, last_look=self._orders.tick is not None)
        if parts.listener is not None:
            parts.listener.stop()
        await off_loop(parts.committer.stop)
        parts.wakeup.close()
        parts.threads.close()
        await parts.runner.runs.close()
        parts.cache_reader.close()

    def _sum_up(self, parts: _Parts) -> None:
        counts, doubts = parts.writer.counts, parts.writer.session.doubts
        self.summary.counts = counts
        self.summary.worker = parts.writer.worker
        self.summary.outcomes.update(parts.runner.outcomes)
        self.summary.swept = parts.keeper.swept
        self.summary.unknown_commits += doubts.unknown + parts.apart.doubts.unknown
        self.summary.retired = (parts.runner.runs.has_zombie_thread or self._lost_everything) and self._supervised
        logger.info(
            "worker ends",
            transactions=counts.transactions,
            commits=counts.commits,
            refused=counts.refused,
            unknown_commits=doubts.unknown,
        )

    # The beginning

    def _introduced(self, session: Session, here: Presence | None) -> int | None:
        """Introduce this worker, patiently: a server may be starting, or failing over, or have no connection to spare.

        A worker that has worked before waits for as long as that takes. None if it was asked to stop meanwhile.
        """
        longest_s = LONGEST_START_S if self._orders.tick is None else self._orders.tick.limit_ms / 1_000
        give_up_at = time.monotonic() + longest_s
        while True:
            try:
                return self._introduction.introduce(session, here)
            except (StoreUnavailable, OutcomeUnknown, ConnectionLost, TryAgainLater) as error:
                session.discard()
                if self._stop_requests:
                    return None
                if not self.summary.worker and time.monotonic() >= give_up_at:
                    raise StoreUnavailable(f"the worker could not begin: {error}") from error
                database.note_failure(session, error)
                time.sleep(random.uniform(0.5, 1.5))

    def _new_memory(self, lanes: tuple[str, ...]) -> LineMemory:
        registry = self._registry
        limits_of = registry.limits_of if registry.governs else None
        sweeps = self._store.dialect == "postgres"
        rules: dict[str, Any] = {"budgets_of": registry.budgets_of, "limits_of_old": registry.limits_of}
        return LineMemory(lanes, limits_of, sweeps, threaded=registry.threaded & {*lanes}, **rules)

    def _wakeup(self, session: Session) -> Wakeup:
        if self._store.dialect == "sqlite":
            return WatchFile(session, self._store.path)  # type: ignore[arg-type]
        return PollOnly()

    def _listener(self, worker: int, reception: Reception) -> Listener | None:
        """The connection that listens on PostgreSQL. A tick has none: it ends when nothing is ready."""
        if self._store.dialect == "sqlite" or self._orders.tick is not None:
            return None
        return Listener(
            self._store.url, reception.notified, lambda connection: self._store.hold_lock(connection, worker)
        )

    def _probe(self, listener: Listener) -> None:
        probe = self._store.session(patience_s=5.0)
        try:
            notified = listener.start(lambda: probe.ask(notify))
        except (StoreError, ConnectionLost):
            notified = False
        finally:
            probe.close()
        if not notified:
            self._longest_poll_ms = POLL_ONLY_MS
        logger.info("ready", wakeup="notify" if notified else "poll only", poll_ms=self._poll_ms)

    @property
    def _poll_ms(self) -> int:
        wanted_ms = self._in_force.config.poll_ms
        return wanted_ms if self._longest_poll_ms is None else min(wanted_ms, self._longest_poll_ms)

    # The middle

    async def _loop_until_done(self, runner: Runner) -> None:
        assert self._asked_to_stop is not None
        stop = asyncio.ensure_future(self._asked_to_stop.wait())
        polled_at = time.monotonic()
        idle_look_at = 0.0
        runner.look_again()
        try:
            while not (stop.done() or self._lost_everything or (self._supervised and runner.runs.has_zombie_thread)):
                runner.changed.clear()
                if runner.is_quiet and self._orders.suspects_only and time.monotonic() >= idle_look_at:
                    idle_look_at = time.monotonic() + SUSPECTS_LOOK_S
                    if not await off_loop(self._looks.are_suspects_coming) and runner.is_quiet:
                        return
                quiet = runner.is_quiet and self._orders.until_idle
                if quiet and time.monotonic() >= idle_look_at:
                    idle_look_at = time.monotonic() + IDLE_LOOK_S
                    if not await off_loop(self._looks.is_anything_left) and runner.is_quiet:
                        return
                await first_of(stop, runner.changed, TICK_S)
                runner.tick()
                now = time.monotonic()
                due = runner.claims.next_due_at
                is_due = due is not None and due <= self._store.clock.now()
                if is_due or now - polled_at >= self._poll_ms / 1_000:
                    polled_at = now
                    if is_due:
                        runner.claims.next_due_at = None
                    runner.look_again()
            if stop.done() and not self._supervised:
                logger.info(stopping(len(runner.leases.tasks), is_away=database.is_away))
        finally:
            stop.cancel()

    async def _loop_as_tick(self, parts: _Parts) -> None:
        """Work until nothing is ready, or the tick has had its tasks or its time. What is due later is for the next
        one; a worker that seems dead is watched until that is certain."""
        runner, keeper = parts.runner, parts.keeper
        assert self._asked_to_stop is not None
        assert self._ends_at is not None
        stop = asyncio.ensure_future(self._asked_to_stop.wait())
        runner.look_again()
        try:
            while not (stop.done() or self._lost_everything):
                runner.changed.clear()
                if self._store.clock.monotonic() >= self._ends_at:
                    self.summary.ended = "time limit"
                    return
                if runner.claims.has_had_enough and runner.is_drained:
                    self.summary.ended = "time limit" if runner.is_out_of_time else "max tasks"
                    return
                if runner.is_quiet and not keeper.is_in_doubt:
                    if not await off_loop(self._looks.is_work_ready):
                        self.summary.ended = "idle"
                        return
                    runner.look_again()
                await first_of(stop, runner.changed, TICK_S)
                runner.tick()
        finally:
            stop.cancel()

    def _declared_dead(self) -> None:
        self._lost_everything = True

    def went_back(self) -> None:
        """What was confirmed to us is gone, so nothing that rests on it may be written: we begin again from what is
        there, and give back all that the database thinks we hold."""
        if not self._lost_everything:
            logger.error(GONE + "; beginning again under another name")
            self._lost_everything = True

    # The end

    async def _end(self, runner: Runner) -> None:
        if self._lost_everything:
            runner.lose_everything()
            return
        # A stage that began in a tick fits into it, or takes what is left: then its time is over.
        grace_ms = self._in_force.config.grace_ms if self.summary.ended != "time limit" else 0
        await wind_down(runner, grace_ms / 1_000, lambda: self._stop_requests > 1)

    def _sign_off(self, session: Session, worker: int) -> None:
        session.insists = False
        with suppress(StoreError, ConnectionLost, TryAgainLater):
            session.transact(lambda: stop(worker, "stopped", self._store.clock.now()))
        session.close()
