"""Who fires schedules: every worker process that knows them looks at what is due, and the store lets one of them win.

A supervisor runs no code of the application, so it knows none; its children do this, and so does a tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from onceward.errors import ConfigError, StoreError
from onceward.model.arguments import checked_values
from onceward.model.schedule import GRACE_MS, Cron
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.operations.schedules import EnqueueFired, FiredTask, ScheduleRow, declare, fire, read_schedules
from onceward.support.logs import EngineLog

LOOK_EVERY_MS = 1_000
MEASURE_EVERY_MS = 10_000

logger = EngineLog("onceward.scheduler")


class KnownSchedules:
    """The schedules that an app has in its code, by name, and how their work is enqueued."""

    def __init__(self, crons: Iterable[Cron], begin: EnqueueFired) -> None:
        self._crons: dict[str, Cron] = {}
        self.begin = begin
        self.are_declared = False
        for cron in checked_values("schedules", crons, Cron, "Cron('30 2 * * *', Cleanup())"):
            if cron.name in self._crons:
                raise ConfigError(f"two schedules have the name {cron.name!r}; give one of them another, with name=")
            self._crons[cron.name] = cron

    def __iter__(self) -> Iterator[Cron]:
        return iter(self._crons.values())

    def __contains__(self, name: object) -> bool:
        return name in self._crons

    def __getitem__(self, name: str) -> Cron:
        return self._crons[name]

    def __len__(self) -> int:
        return len(self._crons)


class ScheduleLook(NamedTuple):
    """What a look at the schedules has come to."""

    fired: int
    """How many times were fired by us."""
    next_at: int | None
    """When the next one is due, as far as we know; in the past, if more was missed than is fired at once."""


NOTHING = ScheduleLook(0, None)


def fire_due(session: Session, schedules: KnownSchedules, now: int) -> ScheduleLook:
    """Fire what is due of the schedules that we know; the first time, and when one is missing, declare them before.

    What others have declared stands: where they mean other times nothing is fired, until it is clear that none do.
    """
    if not schedules:
        return NOTHING
    rows = session.ask(read_schedules)
    if outdated := [cron for cron in schedules if _is_outdated(cron, rows.get(cron.name), schedules, now)]:
        session.transact(partial(declare, outdated, now))
        rows = session.ask(read_schedules)
    schedules.are_declared = True
    fired = 0
    upcoming = []
    for cron in schedules:
        row = rows.get(cron.name)
        if row is None or row.paused or not row.has_times_of(cron):
            continue
        firing = cron.due(row.next_at, now)
        if row.next_at <= now:
            try:
                begun = session.transact(partial(fire, cron, row.next_at, firing, schedules.begin, now))
            except (StoreError, ConnectionLost, TryAgainLater):
                raise
            except Exception:  # its payload cannot be enqueued: the others can, and the next look tries again
                logger.exception("a schedule could not be fired", schedule=cron.name)
                continue
            fired += _told(cron, begun)
        upcoming.append(firing.next_at)
    return ScheduleLook(fired, min(upcoming, default=None))


def _is_outdated(cron: Cron, row: ScheduleRow | None, schedules: KnownSchedules, now: int) -> bool:
    if row is None:
        return True
    if schedules.are_declared:
        return not row.has_times_of(cron) and row.next_at < now - GRACE_MS
    return not row.is_declared_as(cron)


def _told(cron: Cron, begun: Sequence[FiredTask] | None) -> int:
    """Say what was fired; how many times that were."""
    if begun is None:
        return 0
    if tasks := [one.task for one in begun if one.task is not None]:
        logger.info("schedule fired", schedule=cron.name, times=len(begun), first=tasks[0], last=tasks[-1])
    for reason in sorted({one.reason for one in begun if one.reason is not None}):
        logger.warning("a schedule fired in vain", schedule=cron.name, reason=reason)
    return len(begun)


class Scheduler:
    """Looks at the schedules once a second, and when the next one is due."""

    def __init__(self, session: Session, schedules: KnownSchedules) -> None:
        self._session = session
        self._clock = session.clock
        self._schedules = schedules
        self._looked_at = self._measured_at = -(10**12)
        self._next_at: int | None = None

    def step(self) -> bool:
        """Fire what is due; whether anything was."""
        now = self._clock.monotonic()
        is_due = self._next_at is not None and self._next_at <= self._clock.now()
        if not self._schedules or not (is_due or now - self._looked_at >= LOOK_EVERY_MS):
            return False
        if now - self._measured_at >= MEASURE_EVERY_MS:
            # No other thread may do that here: under a supervisor it is the supervisor that renews the leases.
            self._measured_at = now
            self._session.measure_clock()
        self._looked_at = now
        look = fire_due(self._session, self._schedules, self._clock.now())
        self._next_at = look.next_at
        return look.fired > 0
