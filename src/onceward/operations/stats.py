"""The numbers people ask for: what is stuck, how long stages take, how attempts come out, what the cache saves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from onceward.authoring.stage import LAST
from onceward.client.awaited import awaited
from onceward.client.client import Client
from onceward.client.namespace import Namespace
from onceward.model.hour import Hour
from onceward.model.hourly_usage import HOUR_MS
from onceward.model.stats import (
    AttemptCounts,
    LineWait,
    Logged,
    Pace,
    StageDuration,
    counted,
    durations,
    line_waits,
    outcomes,
    pace,
    stage_runs,
    waits_for,
)
from onceward.model.status import Status
from onceward.model.times import Duration, duration_text, milliseconds, moment
from onceward.operations.cache import CacheStatus
from onceward.store.governance import cache
from onceward.store.op import Op
from onceward.store.operations.hourly_usage import spending_an_hour
from onceward.store.reports import health, stats, waits
from onceward.store.reports import standing as standings
from onceward.store.reports import tasks as reports
from onceward.store.reports.health import StoreFacts
from onceward.store.reports.hour import HourReader
from onceward.store.reports.standing import Standing
from onceward.views.why import Cause, why

MOST_STUCK = 100
"""How many stuck tasks are named: those that have been for longest."""
NOT_STUCK = frozenset({Cause.ENDED, Cause.RUNNING, Cause.PAUSED, Cause.DUE})
"""What a task that has stood in line for long may have come to by now, or an operator has meant."""


@dataclass(frozen=True, slots=True)
class StuckTask:
    """A task that will not move by itself, or has not for too long. `app.why(id)` says more."""

    id: int
    pipeline: str
    stage: str | None
    status: Status
    since: datetime
    """When it last moved, or its worker was last heard of."""
    sentence: str


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures about the last hours, and about what is stuck now."""

    at: datetime
    since: datetime
    """Where the figures begin: as asked for, or later if there was more than is looked at."""
    is_whole: bool
    """Whether they begin as early as was asked for."""
    stuck: tuple[StuckTask, ...]
    """Longest first, 100 at most."""
    pace: Pace
    """Tasks that have ended, and failed, in the last ten minutes."""
    waited: tuple[LineWait, ...]
    """Time in line before the first attempt, by pipeline."""
    usd_an_hour: float | None
    calls_an_hour: float | None
    """What budgets and sources have counted of late, as an hour's worth; None where nothing counts it yet."""
    durations: tuple[StageDuration, ...]
    """By pipeline, stage and size: what the stage has measured, or that of the payload."""
    attempts: AttemptCounts
    """All of them."""
    pipelines: tuple[AttemptCounts, ...]
    sources: tuple[AttemptCounts, ...]
    """Runs of stages with a source. Only the code knows which those are: without it there are none."""
    cache: tuple[CacheStatus, ...]
    """By source, from the beginning on: the cache counts in totals."""

    @property
    def retry_rate(self) -> float | None:
        """What part of the attempts is tried again; None if there was none."""
        return self.attempts.retry_rate

    @property
    def reclaim_rate(self) -> float | None:
        """What part of the attempts was taken back from the dead; None if there was none."""
        return self.attempts.reclaim_rate

    @property
    def cache_total(self) -> CacheStatus:
        """The cache as a whole."""
        names = ("entries", "bytes", "hits", "misses", "retry_hits", "retry_misses")
        return CacheStatus("", *(sum(getattr(one, name) for one in self.cache) for name in names))


@dataclass(frozen=True, slots=True)
class Spending:
    """What budgets and sources have counted in the last two hours, as an hour's worth."""

    calls: float | None
    """None where nothing counts it yet."""
    usd: float | None


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """How the database itself does."""

    at: datetime
    place: str
    """Where it is, without its password."""
    log_bytes: int
    """Size of the write-ahead log of SQLite; 0 on PostgreSQL."""
    facts: StoreFacts


class Statistics(Namespace):
    """`app.stats`: how many tasks there are, how fast they go and what is stuck."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._hour = HourReader()

    def get(self, since: Duration = "24h", *, stuck_after: Duration = "1h") -> Stats:
        """Figures about the time since then, and the tasks that have not moved for `stuck_after`.

        Of the log the newest 100,000 rows are looked at; `Stats.is_whole` says whether that was enough.
        """
        now = self._client._store.clock.now()
        began_at, after_ms = now - milliseconds(since), milliseconds(stuck_after)
        stuck = self._client._ask(lambda: self._stuck(now, after_ms))
        window = self._client._ask(lambda: stats.log_window(began_at))
        kept = self._client._ask(lambda: cache.contents(None))
        calls, usd = self._client._ask(lambda: spending_an_hour(now, 2 * HOUR_MS))
        ended = outcomes(window.rows, began_at)
        by_pipeline: dict[str, list[Logged]] = {}
        for row in ended:
            if (facts := window.tasks.get(row.task)) is not None:
                by_pipeline.setdefault(facts.kind, []).append(row)
        by_source: dict[str, list[Logged]] = {}
        for row in stage_runs(window.rows, began_at):
            facts = window.tasks.get(row.task)
            if facts is not None and (source := self._source_of(facts.kind, row.stage)) is not None:
                by_source.setdefault(source, []).append(row)
        first_at = began_at if window.is_whole else max(began_at, window.rows[-1].at)
        return Stats(
            at=moment(now),
            since=moment(first_at),
            is_whole=window.is_whole,
            stuck=tuple(stuck),
            pace=pace(window.rows, first_at, now),
            waited=line_waits(window.tasks, window.claimed, began_at),
            usd_an_hour=usd,
            calls_an_hour=calls,
            durations=durations(window.rows, window.tasks, window.began, began_at, window.sizes),
            attempts=counted("", ended),
            pipelines=tuple(counted(name, rows) for name, rows in sorted(by_pipeline.items())),
            sources=tuple(counted(name, rows) for name, rows in sorted(by_source.items())),
            cache=tuple(CacheStatus(*row) for row in kept),
        )

    aget = awaited(get)

    def hour(self) -> Hour:
        """Figures of the last hour, minute by minute, in four short statements: for pages that ask every few seconds.

        What has ended is remembered between two calls. The first of them may not reach back an hour; those after it
        read on. `Hour.is_whole` and `Hour.since` say how far it came.
        """
        return self._client._ask(lambda: self._hour.look(self._client._store.clock.now()))

    ahour = awaited(hour)

    def counts(self) -> dict[Status, int]:
        """How many tasks stand where."""
        return self._client._ask(reports.counts)

    acounts = awaited(counts)

    def backlog(self) -> reports.Backlog:
        """What could run now, line by line, and what may run later."""
        return self._client._ask(reports.backlog)

    abacklog = awaited(backlog)

    def standing(self) -> Standing:
        """How tasks stand now: lines, workers, what runs and waits by kind, and which spawns the last hour refused.

        All of it is bounded: of parked tasks 20,000 are counted, of refused spawns the newest 2,000.
        """
        since = self._client._store.clock.now() - HOUR_MS
        return self._client._ask(lambda: standings.standing(since))

    astanding = awaited(standing)

    def spending(self) -> Spending:
        """How many calls and USD an hour have been spent of late."""
        now = self._client._store.clock.now()
        return Spending(*self._client._ask(lambda: spending_an_hour(now, 2 * HOUR_MS)))

    aspending = awaited(spending)

    def store(self) -> StoreHealth:
        """How large the tables are, what is dead in them, the oldest lease, and what holds the log back."""
        client = self._client
        now = client._store.clock.now()
        facts = client._ask(lambda: health.read_store(now))
        with client._lock:
            log_bytes = client._session().log_bytes()
        return StoreHealth(moment(now), client._store.place, log_bytes, facts)

    astore = awaited(store)

    def _source_of(self, kind: str, stage: str | None) -> str | None:
        """The source of a stage, if it has one; no stage is the first."""
        if kind not in self._client._registry.kinds:
            return None
        pipeline = self._client._registry[kind]
        if stage == LAST:
            last = pipeline.last_stage
            return None if last is None or last.source is None else last.source.name
        for one in pipeline.stages:
            if stage is None or one.name == stage:
                return None if one.source is None else one.source.name
        return None

    def _stuck(self, now: int, after_ms: int) -> Op[list[StuckTask]]:
        found = yield from stats.stuck_running(now, after_ms)
        found += yield from stats.stuck_waiting(now, after_ms)
        sentences = {one.id: _sentence(one, now) for one in found}
        for one in _longest((yield from stats.stuck_in_line(now, after_ms))):
            standing = yield from waits.read_wait_facts(one.id, now)
            reason = None if standing is None else why(standing, now, self._client._registry.limits_of)
            if reason is not None and reason.cause not in NOT_STUCK:
                found.append(one)
                sentences[one.id] = reason.sentence
        return [_as_stuck_task(one, sentences[one.id]) for one in _longest(found)]


def _longest(found: Iterable[stats.Stuck]) -> list[stats.Stuck]:
    return sorted(found, key=lambda one: (one.since, one.id))[:MOST_STUCK]


def _sentence(one: stats.Stuck, now: int) -> str:
    if one.waiting_for is not None:
        return waits_for(one.waiting_for)
    if one.is_silent:
        return f"its worker {one.worker} has been silent for longer than its lease; no other has taken it back yet"
    where = f"stage {one.stage}" if one.stage else "its first stage"
    silent = duration_text(now - one.since)
    return f"{where} has run on {one.worker} for {silent} without a cursor, a result or any progress"


def _as_stuck_task(one: stats.Stuck, sentence: str) -> StuckTask:
    return StuckTask(one.id, one.kind, one.stage, one.status, moment(one.since), sentence)
