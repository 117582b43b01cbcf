"""A worker process from its start to its end: registered, working, stopped in good order.

Used by `app.run()` in a script, where a thread of the same process renews the leases, and by the children of a
supervisor, where the supervisor does.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from onceward.authoring.child_builder import Spawner
from onceward.authoring.current_stage import is_worker
from onceward.authoring.registry import Registry
from onceward.errors import OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from onceward.model.times import NEVER
from onceward.settings.config import Config
from onceward.settings.effective import EffectiveSettings
from onceward.store.attempts.expiry import store_kinds_at_expiry
from onceward.store.attempts.workers import NewWorker, register, stop
from onceward.store.drivers import sqlite_library_guard
from onceward.store.drivers.availability import database
from onceward.store.drivers.session import GONE, ConnectionLost, Session, TryAgainLater
from onceward.store.governance.budget_waits import declare as declare_budgets
from onceward.store.governance.budget_waits import sweep_budgets
from onceward.store.governance.budget_waits import wake_for_code as wake_for_budgets_of_code
from onceward.store.governance.sources import declare as declare_sources
from onceward.store.lines.idle import anything_left, ready_now, suspects_soon
from onceward.store.lines.lines import notified_line
from onceward.store.lines.memory import Line, LineMemory
from onceward.store.op import Op, Query, drive
from onceward.store.operations.task_actions import wake_for_code
from onceward.support.logs import EngineLog, stopping
from onceward.views.alerts import Watch
from onceward.worker import crash_points, presence
from onceward.worker.cache_reader import CacheReader
from onceward.worker.committer import Committer
from onceward.worker.engine_threads import off_loop
from onceward.worker.failures import OnFailure
from onceward.worker.interpreter import handle_signals, tuned_interpreter
from onceward.worker.keeper import Keeper
from onceward.worker.runner import TICK_S, Runner
from onceward.worker.scheduler import KnownSchedules, fire_due
from onceward.worker.threads import StageThreads
from onceward.worker.wakeup import POLL_ONLY_MS, Listener, PollOnly, Wakeup, WatchFile
from onceward.worker.watcher import Watcher
from onceward.worker.worker_orders import Orders, Summary, worker_name
from onceward.worker.writer import Writer, Written

IDLE_LOOK_S = 0.1
SUSPECTS_LOOK_S = 1.0
LAST_COMMITS_S = 10.0
LONGEST_START_S = 60.0
LONGEST_BESIDE_OTHERS_S = 0.5
"""How long functions given to `ctx.write` may take in a transaction with commits of other tasks."""
INSISTS_S = 5.0
"""How long a transaction runs again and again after lost connections and locks, before something else is tried."""
LONGEST_LOCK_WAIT_S = 3.0
"""How long a statement of such a transaction waits for the lock of another; then the whole runs again."""

logger = EngineLog("onceward.worker")


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
    ) -> None:
        self._on_failure = on_failure
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
        self._queues = registry.queues if orders.queues is None else orders.queues
        self._stop_requests = 0
        self._asked_to_stop: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ordinary_lanes = registry.lanes(orders.queues)
        self._suspect_lanes = registry.lanes(orders.queues, suspect=True)
        self._lost_everything = False
        self._ends_at = None if orders.tick is None else store.clock.monotonic() + orders.tick.limit_ms
        self._longest_poll_ms: int | None = None
        self.summary = Summary()

    def request_stop(self, times: int | None = None) -> None:
        """Stop in good order; asked a second time, give everything back at once. Safe from any thread.

        A supervisor says how many times it was asked itself: the same request may also have come here by a signal.
        """
        self._stop_requests = self._stop_requests + 1 if times is None else max(self._stop_requests, times)
        if self._loop is not None and self._asked_to_stop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._asked_to_stop.set)

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
            sqlite_library_guard.insist_no_longer()

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        session = self._store.session(patience_s=INSISTS_S)
        session.insists = True
        session.lock_limit_s = LONGEST_LOCK_WAIT_S
        signals = handle_signals(loop, self._signalled)
        here = self._make_presence()
        worker = await off_loop(self._introduced, session, here)
        if worker is None:
            for number in signals:
                loop.remove_signal_handler(number)
            if here is not None:
                here.remove()
            return
        writer = Writer(session, worker, self._new_memory(self._ordinary_lanes), self._new_memory(self._suspect_lanes))
        lines = frozenset(writer.memory.lines())
        threads = StageThreads(loop, self._in_force.config.threads)
        wakeup, listener = self._wakeup(session, worker, lambda notification: heard(notified_line(notification)))

        def heard(line: Line | None = None) -> None:
            with suppress(RuntimeError):  # the loop may have closed this very moment
                loop.call_soon_threadsafe(look_again, line if line in lines else None)

        apart = self._store.session(patience_s=INSISTS_S)

        def limit_writes(config: Config) -> None:
            apart.lending_limit_s = apart.lock_limit_s = config.write_timeout_ms / 1_000
            session.lending_limit_s = min(LONGEST_BESIDE_OTHERS_S, apart.lending_limit_s)

        limit_writes(self._in_force.config)
        self._in_force.tell(limit_writes)
        cache_reader = CacheReader(self._store.session(patience_s=5.0))
        committer = Committer(
            writer,
            wakeup,
            loop,
            deliver=lambda written: delivered(written),
            look_again=heard,
            lost_everything=self._went_back,
            may_stand_still=lambda: not runner.runs_anything,
            apart=apart,
        )
        runner = Runner(
            self._registry,
            self._in_force.config,
            queues=self._queues,
            submit=committer.submit,
            wish=committer.wish,
            threads=threads,
            read=self._read,
            look_up=cache_reader,
            setting=self._in_force.value,
            now=self._store.clock.now,
            monotonic=self._store.clock.monotonic,
            presence=here,
            app_path=self._orders.app_path,
            spawner=self._spawner,
            suspects_only=self._orders.suspects_only,
            most_claims=None if self._orders.tick is None else self._orders.tick.max_tasks,
            ends_at=NEVER if self._ends_at is None else self._ends_at,
            on_failure=self._on_failure,
        )
        if writer.memory.threaded:
            runner.claims.free_threads = lambda: threads.free
        if self._supervised:
            # Its supervisor has a child of their own for suspects; in this one they would meet others.
            runner.claims.look_for_suspects = False

        def delivered(written: Written) -> None:
            runner.delivered(written)
            # Not once others have declared us dead: that was read beside our own transactions, and the database may go
            # back to before it. Then whoever buries us has to find all that we hold there.
            if runner.claims.low_claim and not self._lost_everything:
                writer.low_claim, runner.claims.low_claim = runner.claims.low_claim, 0
            committer.watch(not self._stop_requests and runner.claims.wants_more)

        is_ready = False

        def look_again(line: Line | None) -> None:
            if is_ready:  # a notification may come while the wake-up is still being tried out
                runner.look_again(line)

        committer.start()
        keeper = Keeper(
            self._store.session(patience_s=5.0),
            self._in_force,
            runner,
            writer,
            loop,
            renews=not self._supervised,
            declared_dead=self._declared_dead,
            went_back=self._went_back,
            schedules=self._schedules,
            registry=self._registry,
            presence_folder=self._store.presence_folder,
            listener=listener,
            on_failure=self._on_failure,
        )
        if self._orders.tick is not None:
            await off_loop(keeper.sweep)
        keeper.start()
        watcher = Watcher(self._store.session(patience_s=5.0), lambda: self._in_force.config, self._watches, self._read)
        watcher.start()
        if listener is not None:
            await off_loop(self._probe, listener)
        is_ready = True
        try:
            await (self._loop_until_done(runner) if self._orders.tick is None else self._loop_as_tick(runner, keeper))
            await self._end(runner)
        finally:
            keeper.stop()
            await off_loop(watcher.stop, last_look=self._orders.tick is not None)
            if listener is not None:
                listener.stop()
            await off_loop(committer.stop)
            wakeup.close()
            threads.close()
            await runner.close()
            cache_reader.close()
            for number in signals:
                loop.remove_signal_handler(number)
            self.summary.counts = writer.counts
            self.summary.worker = worker
            self.summary.outcomes.update(runner.outcomes)
            self.summary.swept = keeper.swept
            self.summary.unknown_commits += session.doubts.unknown + apart.doubts.unknown
            self.summary.retired = (runner.has_zombie_thread or self._lost_everything) and self._supervised
            logger.info(
                "worker ends",
                transactions=writer.counts.transactions,
                commits=writer.counts.commits,
                refused=writer.counts.refused,
                unknown_commits=session.doubts.unknown,
            )
            await off_loop(self._sign_off, session, worker)
            if here is not None:
                here.remove()

    # The beginning

    def _make_presence(self) -> presence.Presence | None:
        folder = self._store.presence_folder
        if folder is None:
            return None
        path = Path(self._orders.presence) if self._orders.presence else presence.new_path(folder)
        try:
            return presence.Presence(path, self._in_force.config.concurrency + self._in_force.config.threads)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise StoreFull(f"the disk of {folder} is full; a worker needs a little of it") from error
            raise

    def _introduced(self, session: Session, here: presence.Presence | None) -> int | None:
        """Introduce ourselves, patiently: a server may be starting, or have no connection to spare, or be failing over.
        Who has worked before waits for as long as that takes. None if we were asked to stop meanwhile."""
        longest_s = LONGEST_START_S if self._orders.tick is None else self._orders.tick.limit_ms / 1_000
        give_up_at = time.monotonic() + longest_s
        while True:
            try:
                return self._introduce(session, here)
            except (StoreUnavailable, OutcomeUnknown, ConnectionLost, TryAgainLater) as error:
                session.discard()
                if self._stop_requests:
                    return None
                if not self.summary.worker and time.monotonic() >= give_up_at:
                    raise StoreUnavailable(f"the worker could not begin: {error}") from error
                database.note_failure(session, error)
                time.sleep(random.uniform(0.5, 1.5))

    def _introduce(self, session: Session, here: presence.Presence | None) -> int:
        kinds, queues = ",".join(self._registry.kinds), ",".join(self._queues)
        new = NewWorker(
            worker_name(self._orders.name),
            socket.gethostname(),
            os.getpid(),
            None if here is None else str(here.path),
            kinds,
            queues,
            self._in_force.config.lease_ms,
        )

        def enter() -> Op[int]:
            now = self._store.clock.now()
            worker = self._orders.worker
            if worker is None:
                worker = yield from register(new, now)
            else:
                yield Query("introduce_worker", {"worker": worker, "pid": new.pid, "kinds": kinds, "queues": queues})
            for pipeline in self._registry:
                yield from wake_for_code(pipeline.kind, pipeline.fingerprint, now)
            yield from store_kinds_at_expiry(*self._registry.kinds_at_expiry)
            yield from wake_for_budgets_of_code(self._registry.kinds, self._registry.budgets_waited_for, now)
            yield from declare_sources(self._registry.longest_us, now)
            yield from declare_budgets(self._registry.budgets.values(), now)
            return worker

        session.measure_clock()
        self._in_force.look(session)
        entered = session.transact(enter)
        # Before the first look for work: who works until nothing is left would otherwise have left already.
        fire_due(session, self._schedules, self._store.clock.now())
        return entered

    def _new_memory(self, lanes: tuple[str, ...]) -> LineMemory:
        registry = self._registry
        limits_of = registry.limits_of if registry.governs else None
        sweeps = self._store.dialect == "postgres"
        rules: dict[str, Any] = {"budgets_of": registry.budgets_of, "limits_of_old": registry.limits_of}
        return LineMemory(lanes, limits_of, sweeps, threaded=registry.threaded & {*lanes}, **rules)

    def _wakeup(self, session: Session, worker: int, heard: Callable[[str], None]) -> tuple[Wakeup, Listener | None]:
        if self._store.dialect == "sqlite":
            return WatchFile(session, self._store.path), None  # type: ignore[arg-type]
        if self._orders.tick is not None:
            # It ends when nothing is ready, so it waits for no news; to try whether any would come may take its time.
            return PollOnly(), None
        return PollOnly(), Listener(
            self._store.url, heard, lambda connection: self._store.hold_lock(connection, worker)
        )

    def _probe(self, listener: Listener) -> None:
        probe = self._store.session(patience_s=5.0)
        try:
            notified = listener.start(lambda: probe.ask(_notify))
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
            while not (stop.done() or self._lost_everything or (self._supervised and runner.has_zombie_thread)):
                runner.changed.clear()
                if runner.is_quiet and self._orders.suspects_only and time.monotonic() >= idle_look_at:
                    idle_look_at = time.monotonic() + SUSPECTS_LOOK_S
                    if not await off_loop(self._are_suspects_coming) and runner.is_quiet:
                        return
                quiet = runner.is_quiet and self._orders.until_idle
                if quiet and time.monotonic() >= idle_look_at:
                    idle_look_at = time.monotonic() + IDLE_LOOK_S
                    if not await off_loop(self._anything_left) and runner.is_quiet:
                        return
                await _first(stop, runner.changed, TICK_S)
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
                logger.info(stopping(len(runner.running)))
        finally:
            stop.cancel()

    async def _loop_as_tick(self, runner: Runner, keeper: Keeper) -> None:
        """Work until nothing is ready, or the tick has had its tasks or its time. What is due later is for the next
        one; a worker that seems dead is watched until that is certain."""
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
                    if not await off_loop(self.is_work_ready):
                        self.summary.ended = "idle"
                        return
                    runner.look_again()
                await _first(stop, runner.changed, TICK_S)
                runner.tick()
        finally:
            stop.cancel()

    def is_work_ready(self) -> bool:
        """Whether anything could be claimed now."""
        return self._look(
            ready_now(self._ordinary_lanes + self._suspect_lanes, self._store.clock.now()), in_trouble=False
        )

    def _are_suspects_coming(self) -> bool:
        """A child for suspects stays while one waits at a gate: it would be started and ended once a second."""
        return self._look(suspects_soon(self._suspect_lanes, self._store.clock.now()))

    def _anything_left(self) -> bool:
        return self._look(anything_left(self._ordinary_lanes + self._suspect_lanes, self._registry.kinds), sweeps=True)

    def _look(self, asked: Op[bool], *, in_trouble: bool = True, sweeps: bool = False) -> bool:
        """Look at one moment of the database: what goes from running to ready meanwhile would be seen nowhere."""
        session = self._store.session(patience_s=5.0)
        try:
            if sweeps and sweep_budgets(session, self._store.clock.now()):
                return True  # what was set aside and not needed is enough for a task
            with session.reading():
                return drive(asked, session)
        except (StoreError, ConnectionLost, TryAgainLater):
            return in_trouble
        finally:
            session.close()

    def _declared_dead(self) -> None:
        self._lost_everything = True

    def _went_back(self) -> None:
        """What was confirmed to us is gone, so nothing that rests on it may be written: we begin again from what is
        there, and give back all that the database thinks we hold."""
        if not self._lost_everything:
            logger.error(GONE + "; beginning again under another name")
            self._lost_everything = True

    # The end

    async def _end(self, runner: Runner) -> None:
        """No new claims; what runs gets the grace period; the rest is given back."""
        if self._lost_everything:
            runner.lose_everything()
            return
        runner.stop_claiming()
        # A stage that began in a tick fits into it, or takes what is left: then its time is over.
        grace_ms = self._in_force.config.grace_ms if self.summary.ended != "time limit" else 0
        deadline = time.monotonic() + grace_ms / 1_000
        while not runner.is_drained and self._stop_requests < 2 and time.monotonic() < deadline:
            await _first(None, runner.changed, TICK_S)
            runner.changed.clear()
            runner.tick()
        runner.release_all()
        last = time.monotonic() + LAST_COMMITS_S
        while not runner.is_drained and time.monotonic() < last:
            await _first(None, runner.changed, 0.005)
            runner.changed.clear()

    def _sign_off(self, session: Session, worker: int) -> None:
        session.insists = False
        with suppress(StoreError, ConnectionLost, TryAgainLater):
            session.transact(lambda: stop(worker, "stopped", self._store.clock.now()))
        session.close()


def _notify() -> Op[None]:
    yield Query("notify")


async def _first(stop: asyncio.Future[Any] | None, event: asyncio.Event, limit_s: float) -> None:
    """Wait for an event, a request to stop, or a while."""
    waiting = {asyncio.ensure_future(event.wait())}
    await asyncio.wait(
        waiting | ({stop} if stop is not None else set()), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
    )
    for one in waiting:
        one.cancel()
