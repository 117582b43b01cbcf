"""The thread beside the event loop: it renews leases, looks for the dead, fires schedules, takes in work that was
asked for by SQL, and asks about settings, the leases of long stages and actions on many tasks.

It stands apart from the loop so that a stage that blocks the loop does not look dead. Code that holds the interpreter
itself can still starve it; only a supervisor, which is another process, is safe from that.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from onceward.authoring.registry import Registry
from onceward.errors import StoreError
from onceward.model.failure import Failure
from onceward.model.task import Lease
from onceward.settings.effective import EffectiveSettings
from onceward.store.attempts.expiry import expire_tasks
from onceward.store.attempts.workers import give_back, still_held
from onceward.store.drivers.availability import database
from onceward.store.drivers.session import RECEIPT_IS_THERE_MS, Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.lines.lines import look_for_stragglers
from onceward.store.op import Query
from onceward.store.operations.bulk import untaken
from onceward.support.logs import EngineLog
from onceward.worker.bulk_carrier import LOOK_EVERY_MS as BULK_EVERY_MS
from onceward.worker.bulk_carrier import BulkCarrier
from onceward.worker.counts import Swept
from onceward.worker.engine_failures import FailureDelivery
from onceward.worker.housekeeping import LOOK_EVERY_MS, Housekeeping
from onceward.worker.intake import Intake
from onceward.worker.parked_by_code import ParkedByCode
from onceward.worker.runner import Runner
from onceward.worker.scheduler import KnownSchedules, Scheduler
from onceward.worker.wakeup import Listener
from onceward.worker.worker_lock import ShownLock
from onceward.worker.writer import Writer

ASK_ABOUT_LEASES_AFTER_MS = 1_000
STEP_S = 0.05
PAUSE_AFTER_TROUBLE_S = 0.5

logger = EngineLog("onceward.keeper")


class Keeper:
    """Keeps the leases of one worker. Under a supervisor it renews nothing and buries no worker."""

    def __init__(
        self,
        session: Session,
        in_force: EffectiveSettings,
        runner: Runner,
        writer: Writer,
        loop: asyncio.AbstractEventLoop,
        *,
        renews: bool,
        declared_dead: Callable[[], None],
        went_back: Callable[[], None],
        schedules: KnownSchedules,
        registry: Registry,
        presence_folder: Path | None,
        bulk: BulkCarrier,
        listener: Listener | None = None,
        on_failure: Callable[[Failure], object] | None = None,
        intake: Intake | None = None,
    ) -> None:
        self._session = session
        self._in_force = in_force
        self._config = config = in_force.config
        self._runner = runner
        self._writer = writer
        self._loop = loop
        self._registry = registry
        self._went_back = went_back
        self._scheduler = Scheduler(session, schedules)
        self._intake = intake
        self._parked_by_code = ParkedByCode(registry, session.clock)
        self._housekeeping: Housekeeping | None = None
        if renews:
            self._housekeeping = Housekeeping(
                session,
                config,
                mine=lambda: [writer.worker],
                declared_dead=lambda _: declared_dead(),
                suspects_found=self._suspects_found,
                presence_folder=presence_folder,
                on_failure=on_failure,
            )
        self._deliver_failures = FailureDelivery(session, on_failure)
        self._bulk = bulk
        self._bulk_at = self._asked_at = self._expired_at = self._past_asked_at = -(10**12)
        self._expired = 0
        self._stragglers_at = session.clock.monotonic()
        self._lock = None if listener is None else ShownLock(session, listener, lambda: writer.worker)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="onceward keeper", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def sweep(self) -> None:
        """Do what is due before anything else is done, in the thread of the caller: of a tick, before it claims."""
        self._step()

    @property
    def is_in_doubt(self) -> bool:
        """Whether the death of a worker is still to be confirmed."""
        return self._housekeeping is not None and self._housekeeping.is_in_doubt

    @property
    def swept(self) -> Swept:
        """What the sweeps have come to so far."""
        if self._housekeeping is None:
            return Swept(expired=self._expired)
        reclaimed = sum(one.released + one.suspects + one.timed_out for one in self._housekeeping.reclaimed)
        return Swept(reclaimed, self._expired + self._housekeeping.expired)

    def stop(self) -> None:
        """End, after what is being done."""
        self._stopping.set()
        self._bulk.stop()
        self._thread.join(timeout=5.0)

    def _work(self) -> None:
        pause_s = min(STEP_S, self._config.heartbeat_ms / 2_000)
        while not self._stopping.wait(pause_s):
            try:
                self._step()
            except (StoreError, ConnectionLost, TryAgainLater) as error:
                database.note_failure(self._session, error)
                self._session.discard()
                self._stopping.wait(PAUSE_AFTER_TROUBLE_S)
            except Exception:  # a loop that must live: the trace is logged, the next step may do better
                logger.exception("housekeeping failed")
                self._session.discard()
                self._stopping.wait(PAUSE_AFTER_TROUBLE_S)
        self._session.close()

    def _step(self) -> None:
        if self._housekeeping is not None:
            if self._runner.is_quiet:
                self._housekeeping.hurry()
            self._housekeeping.step()
        if self._lock is not None:
            self._lock.step()
        self._in_force.look_if_time(self._session)
        if self._in_force.config is not self._config:
            self._adopt()
        now = self._session.clock.monotonic()
        if now - self._asked_at >= ASK_ABOUT_LEASES_AFTER_MS:
            self._asked_at = now
            self._ask_about_leases()
        if now - self._past_asked_at >= self._config.heartbeat_ms:
            self._past_asked_at = now
            self._ask_about_the_past()
        if now - self._expired_at >= LOOK_EVERY_MS:
            self._expired_at = now
            self._expire()
        if now - self._bulk_at >= BULK_EVERY_MS:
            self._bulk_at = now
            self._bulk.carry(self._session.ask(lambda: untaken(self._session.clock.now())))
        if now - self._stragglers_at >= self._config.check_ms:
            self._stragglers_at = now
            memory = self._writer.memory
            if memory.sweeps and self._session.ask(lambda: look_for_stragglers(memory, self._session.clock.now())):
                logger.info("found work behind the lines, sweeping from the start")
        if self._parked_by_code.step(self._session):
            self._call(self._runner.look_again)
        if self._scheduler.step():
            self._call(self._runner.look_again)
        if self._intake is not None and self._intake.step(self._session):
            self._call(self._runner.look_again)

    def _adopt(self) -> None:
        """Go on under changed settings."""
        config = self._config = self._in_force.config
        if self._housekeeping is not None:
            self._housekeeping.adopt(config)
        self._call(lambda: self._runner.adopt(config))
        logger.info("settings have changed")

    def _expire(self) -> None:
        """Fail the tasks whose time is over. A supervisor does not know how long they may take."""
        limits_ms = self._registry.limits_ms(self._config.task_limit_ms)
        if expired := expire_tasks(self._session, limits_ms, self._session.clock.now(), self._deliver_failures):
            self._expired += expired
            self._call(self._runner.look_again)

    def _ask_about_leases(self) -> None:
        """A lease that was cancelled or reclaimed is lost: its stage is told so and stopped."""
        leases = self._runner.leases.held_for(ASK_ABOUT_LEASES_AFTER_MS)
        if leases:
            gone = {lease.task for lease in leases} - self._session.ask(lambda: still_held(leases))
            if gone:
                self._call(lambda: self._confirm_lost(leases, gone))

    def _ask_about_the_past(self) -> None:
        """A writer with nothing to write would not notice that the database has gone back behind its last commit."""
        receipt = self._writer.session.last_receipt
        if receipt is not None and not self._session.read(Query("read_receipt", {"token": receipt})):
            self._went_back()
        elif dropped := self._runner.leases.lost(RECEIPT_IS_THERE_MS):
            self._ask_about_dropped(dropped)

    def _ask_about_dropped(self, dropped: Sequence[Lease]) -> None:
        """A lease that was lost stands again if the database has gone back behind what others had committed, and not
        behind our own last commit. Nothing here works on its task, so it goes back in line."""
        if not (held := self._session.ask(lambda: still_held(dropped))):
            return
        leases = [lease for lease in dropped if lease.task in held]
        if count := self._session.transact(lambda: give_back(leases, self._session.clock.now())):
            logger.error(
                "leases that were lost stand again: an older copy of the database is in its place", tasks=count
            )
            self._call(self._runner.look_again)

    def _confirm_lost(self, leases: Sequence[Lease], gone: set[int]) -> None:
        """A stage that has ended since is not lost: its own commit is what ended the lease."""
        tokens = {lease.task: lease.token for lease in leases}
        self._runner.lost({task for task in gone if self._runner.leases.runs_under(task, tokens[task])})

    def _suspects_found(self) -> None:
        self._runner.claims.look_for_suspects = True
        self._call(self._runner.look_again)

    def _call(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop may have closed this very moment
            self._loop.call_soon_threadsafe(function)
