"""What must be done now and then, by anyone, and more than once does no harm: renew, look for the dead, tidy up.

A worker is dead when its machine's lock on its presence file is free, when PostgreSQL has dropped its lock
(`lock_looks.py`), or when it has not renewed for the length of its lease. A step of a clock alone reclaims nothing: the
beat must also have stood still between two of our looks, measured on a clock that is never set.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

from onceward.model.failure import Failure
from onceward.model.retry import Retry, backoff_ms
from onceward.model.times import duration_text
from onceward.settings.config import Config
from onceward.store.attempts.expiry import expire_batches, expire_lineages
from onceward.store.attempts.workers import BuriedWorker, Death, LivingWorker, StillBusy, bury, living_workers, renew
from onceward.store.drivers.session import Session
from onceward.store.governance.budget_waits import sweep_budgets
from onceward.store.governance.cache import evict
from onceward.store.lines.memory import forget_lines
from onceward.store.op import Op, Query
from onceward.store.operations.pruning import prune_receipts, sweep_slots
from onceward.support.logs import EngineLog
from onceward.worker import crash_points, presence
from onceward.worker.dead_machines import LockLooks
from onceward.worker.engine_failures import FailureDelivery

LOOK_EVERY_MS = 1_000
MARKS_KEPT_MS = 60_000
TIDY_EVERY_MS = 60_000
EVICT_EVERY_MS = 10_000

logger = EngineLog("onceward.housekeeping")


class Housekeeping:
    """The duties of one process; `step` does those whose time has come."""

    def __init__(
        self,
        session: Session,
        config: Config,
        *,
        mine: Callable[[], Sequence[int]],
        declared_dead: Callable[[set[int]], None],
        suspects_found: Callable[[], None],
        presence_folder: Path | None = None,
        check_presence: bool = True,
        dice: random.Random | None = None,
        on_failure: Callable[[Failure], object] | None = None,
    ) -> None:
        self._session = session
        self._clock = session.clock
        self._config = config
        self._mine = mine
        self._declared_dead = declared_dead
        self._suspects_found = suspects_found
        self._presence_folder = presence_folder
        self._check_presence = check_presence
        self._dice = dice or random.Random()
        self._deliver_failures = FailureDelivery(session, on_failure)
        self._host = socket.gethostname()
        self._beats: dict[int, tuple[int, int]] = {}
        """For each worker its beat as last seen, and since when it has been that."""
        self._lock_looks = LockLooks(session)
        self._renewed_at = self._looked_at = self._pruned_at = self._expired_at = self._evicted_at = -(10**12)
        self._hurry = False
        self.reclaimed: list[BuriedWorker] = []
        self.expired = 0
        """How many tasks have ended because their batch or lineage was over."""
        self.is_in_doubt = False
        """Whether a worker seems dead that has not been watched for long enough to tell."""

    def adopt(self, config: Config) -> None:
        """Go on under other numbers."""
        self._config = config

    def hurry(self) -> None:
        """Look for dead workers at the next step, because no work was found."""
        self._hurry = True

    def step(self) -> None:
        """Do what is due."""
        self._renew_if_time()
        now = self._clock.monotonic()
        wait_ms = (
            min(LOOK_EVERY_MS, self._config.check_ms) if self._hurry or self._check_presence else self._config.check_ms
        )
        if now - self._looked_at >= wait_ms:
            self._looked_at = now
            self._hurry = False
            self._look_for_the_dead()
        if now - self._expired_at >= LOOK_EVERY_MS:
            self._expired_at = now
            self.expired += expire_batches(self._session, self._clock.now(), self._deliver_failures)
            self.expired += expire_lineages(self._session, self._clock.now(), self._deliver_failures)
            sweep_budgets(self._session, self._clock.now())
        if now - self._evicted_at >= EVICT_EVERY_MS:
            self._evicted_at = now
            evict(self._session, self._config.cache_size, self._clock.now())
        if now - self._pruned_at >= TIDY_EVERY_MS:
            self._pruned_at = now
            self._session.transact(self._tidy)
            self._session.transact(sweep_slots)

    def _renew_if_time(self) -> None:
        now = self._clock.monotonic()
        if now - self._renewed_at >= self._config.heartbeat_ms:
            self._renewed_at = now
            self._renew()

    def _renew(self) -> None:
        self._session.patiently(self._session.measure_clock)
        mine = list(self._mine())
        if mine:
            alive = self._renewed(mine)
            if dead := self._declared(set(mine) - alive):
                logger.error("declared dead by others: the leases are gone", workers=sorted(dead))
                self._declared_dead(dead)

    def _renewed(self, mine: Sequence[int]) -> set[int]:
        try:
            return self._session.transact(lambda: renew(mine, self._clock.now()))
        except StillBusy:
            if len(mine) == 1:
                return set(mine)  # it cannot be declared dead either
            return {one for worker in mine for one in self._renewed([worker])}

    def _declared(self, gone: set[int]) -> set[int]:
        """Those whom others have declared dead; a child that has just signed off is on its way out."""
        if not gone:
            return gone
        return gone - {row[0] for row in self._session.read(Query("signed_off", {"ids": sorted(gone)}))}

    def _look_for_the_dead(self) -> None:
        mine = set(self._mine())
        seen = self._session.ask(living_workers)
        now = self._clock.monotonic()
        without_lock = self._lock_looks.look([worker for worker in seen if worker.id not in mine])
        doubtful = set(self._lock_looks.missed)
        for worker in seen:
            beat, since = self._beats.get(worker.id, (-1, now))
            self._beats[worker.id] = (beat, since) if beat == worker.beat else (worker.beat, now)
            if worker.id not in mine:
                death = self._death_of(worker, has_lost_lock=worker.id in without_lock)
                if death is not None:
                    self.bury(worker, death)
                    self._renew_if_time()
                elif self._clock.now() - worker.beat_at >= worker.lease_ms:
                    doubtful.add(worker.id)
        self.is_in_doubt = bool(doubtful)
        self._beats = {worker.id: self._beats[worker.id] for worker in seen}
        if self._session.read(Query("any_suspects")):
            self._suspects_found()

    def _death_of(self, worker: LivingWorker, *, has_lost_lock: bool) -> Death | None:
        introduced = worker.pid != 0
        is_near = introduced and worker.host == self._host
        path = presence.recorded(worker.presence, self._presence_folder) if is_near else None
        if path is not None and self._check_presence and presence.is_dead(path):
            late = presence.overdue(path)
            if late:
                # By a supervisor, which has not told yet.
                return killed_for_time(frozenset(one.task for one in late), presence.culprits(late, None))
            return Death("died", self._started(path))
        if has_lost_lock and (path is None or not path.exists()):  # a file that is locked says that it lives
            return Death("died: its connection to the database is gone", None)
        _, since = self._beats[worker.id]
        stood_still_ms = self._clock.monotonic() - since
        # By the clock that all share or, where that was set back, by our own that is never set.
        silent_ms = max(self._clock.now() - worker.beat_at, stood_still_ms)
        if silent_ms >= worker.lease_ms and stood_still_ms >= min(self._config.check_ms, worker.lease_ms):
            return Death(f"was silent for {duration_text(silent_ms)}", None if path is None else self._started(path))
        return None

    def _started(self, path: Path) -> frozenset[int] | None:
        running = presence.running(path)
        return None if running is None else frozenset(one.task for one in running)

    def bury(self, worker: LivingWorker, death: Death) -> BuriedWorker | None:
        """Take back what a dead worker held; None if that is done already, or cannot be done now."""
        try:
            reclaimed = self._session.transact(
                lambda: bury(worker, death, self._config.max_lost_workers, self._retry_delay_ms, self._clock.now())
            )
        except StillBusy as error:
            logger.warning("a lost worker cannot be buried yet", worker=worker.name, error=str(error))
            return None
        crash_points.reach("during reclaim")
        if reclaimed is None:
            return None
        if worker.host == self._host and (path := presence.recorded(worker.presence, self._presence_folder)):
            _forget_presence(path)
        self.reclaimed.append(reclaimed)
        logger.warning(
            "worker lost, its tasks are back in line",
            worker=worker.name,
            how=death.how,
            released=reclaimed.released,
            suspects=reclaimed.suspects,
            timed_out=reclaimed.timed_out,
            quarantined=list(reclaimed.quarantined),
        )
        if reclaimed.suspects:
            self._suspects_found()
        self._deliver_failures(reclaimed.failures)
        sweep_budgets(self._session, self._clock.now())
        return reclaimed

    def _retry_delay_ms(self, failures: int) -> int:
        """The delay after a time-out that the pipeline's own policy cannot be asked about: the default one."""
        return backoff_ms(Retry(), failures, self._dice)

    def _tidy(self) -> Op[None]:
        yield from prune_receipts(self._clock)
        yield Query("forget_marks", {"before": self._clock.now() - MARKS_KEPT_MS})
        yield from forget_lines(self._clock.now())


def killed_for_time(late: frozenset[int], culprits: frozenset[int]) -> Death:
    """The death of a process in which stages ignored their time limits.

    The culprit has failed once. Where it is not known all of them are suspects, and will run with fewer neighbours
    until it is.
    """
    started = frozenset() if culprits else late
    return Death("was killed: a stage ignored its time limit", started, culprits)


def _forget_presence(path: Path) -> None:
    """Remove the file of a dead process; a living one (stopped, say) keeps its own."""
    if presence.is_dead(path):
        path.unlink(missing_ok=True)
