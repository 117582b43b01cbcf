"""What the overview is made of, read once for all open pages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

from onceward.app import App
from onceward.errors import OncewardError, StoreError
from onceward.model.gates import read_gates
from onceward.model.hour import Hour, LineageHour
from onceward.model.status import Status
from onceward.model.task import gates_in
from onceward.operations.budgets import BudgetStatus
from onceward.operations.sources import SourceStatus
from onceward.operations.workers import Pause
from onceward.store.reports.standing import Standing
from onceward.store.reports.tasks import counts
from onceward.views.alerts import Alert
from onceward.views.lineage import Branch, Lineage
from onceward.web.kept import Kept
from onceward.web.shell import LETS_THROUGH

FRESH_S = 4.0
SLOW_FRESH_S = 30.0
"""How long lineages and what the envelope says are kept: many statements, and little news."""
COUNTS_FRESH_S = 5.0
COSTLIEST = 5
PATIENCE_S = 0.12
"""How long a page waits for the counts of all tasks; a large table takes longer, and they come with the next look."""


class CostlyLineage(NamedTuple):
    """A lineage that has cost much in the last hour."""

    id: UUID
    root: Branch | None
    whole: Lineage | None
    cost: Decimal
    budget: BudgetStatus | None


class Slow(NamedTuple):
    """What is read less often."""

    lineages: Sequence[CostlyLineage]
    worst_usd: float | None
    resolved: int


@dataclass(frozen=True, slots=True)
class Facts:
    """How everything stands, at one moment."""

    hour: Hour
    standing: Standing
    alerts: Sequence[Alert]
    resolved: int
    """How many alerts were resolved in the last hour."""
    budgets: Sequence[BudgetStatus]
    sources: Sequence[SourceStatus]
    pauses: Sequence[Pause]
    lineages: Sequence[CostlyLineage]
    worst_usd: float | None
    """What an hour can cost at worst, by the configuration; None if nothing bounds it."""
    code_is_known: bool
    """Whether the site was started with the code of the app, not with a database alone."""
    now: datetime

    @property
    def ready(self) -> int:
        """How many tasks could run now, those behind closed sources left out."""
        return sum(line.tasks for line in self.standing.backlog.ready) - self.held_back

    @property
    def held_back(self) -> int:
        """How many tasks stand in lines that lead through a closed source or a pause."""
        shut = {one.name for one in self.sources if one.state not in LETS_THROUGH}
        paused = {one.scope for one in self.pauses}
        return sum(line.tasks for line in self.standing.backlog.ready if _is_held(line.lane, shut, paused))

    @property
    def oldest_ready_ms(self) -> int | None:
        """For how long the first of those has been standing there."""
        shut = {one.name for one in self.sources if one.state not in LETS_THROUGH}
        paused = {one.scope for one in self.pauses}
        now = round(self.now.timestamp() * 1_000)
        free = [line for line in self.standing.backlog.ready if not _is_held(line.lane, shut, paused)]
        return max((now - line.since for line in free), default=None)

    @property
    def waiting(self) -> int:
        """How many tasks are parked."""
        return sum(self.standing.waits.values())

    def ready_of(self, kind: str) -> int:
        """How many tasks of a kind could run now."""
        return sum(line.tasks for line in self.standing.backlog.ready if kind_in(line.lane) == kind)


def kind_in(lane: str) -> str:
    """Return the kind whose tasks stand in a line."""
    return lane.partition("@")[0].removeprefix("!").partition(":")[2]


def _is_held(lane: str, shut: set[str], paused: set[str]) -> bool:
    queue, _, kind = lane.partition("@")[0].removeprefix("!").partition(":")
    if paused & {"everything", f"queue:{queue}", f"pipeline:{kind}"}:
        return True
    gates = gates_in(lane)
    return gates is not None and any(gate.name in shut for gate in read_gates(gates))


class FactsReader:
    """Reads the facts of one app, for all its open overviews together."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.facts = Kept(self._read, fresh_s=FRESH_S)
        self._slow: Slow | None = None
        self._slow_until = 0.0
        self.counts = Kept(self._count, fresh_s=COUNTS_FRESH_S)

    def _read(self) -> Facts:
        app = self._app
        hour, standing = app.stats.hour(), app.stats.standing()
        budgets = app.budgets.list()
        slow = self._read_slowly(hour, budgets)
        return Facts(
            hour=hour,
            standing=standing,
            alerts=app.alerts.list(),
            resolved=slow.resolved,
            budgets=budgets,
            sources=app.sources.list(),
            pauses=app.workers.pauses(),
            lineages=slow.lineages,
            worst_usd=slow.worst_usd,
            code_is_known=bool(app._registry.kinds),
            now=hour.at,
        )

    def _read_slowly(self, hour: Hour, budgets: Sequence[BudgetStatus]) -> Slow:
        """Return what is read less often: read again if it is old, or if another lineage costs most now."""
        costliest = [one.lineage for one in hour.lineages[:COSTLIEST]]
        is_fresh = self._slow is not None and time.monotonic() < self._slow_until
        if self._slow is not None and is_fresh and [one.id for one in self._slow.lineages] == costliest:
            return self._slow
        newest = self._app.alerts.list(open_only=False, limit=200)
        resolved = [one for one in newest if one.resolved_at and (hour.at - one.resolved_at).total_seconds() < 3_600]
        lineages = [_costly(self._app, one, budgets) for one in hour.lineages[:COSTLIEST]]
        self._slow = Slow(lineages, _worst_usd(self._app), len(resolved))
        self._slow_until = time.monotonic() + SLOW_FRESH_S
        return self._slow

    def _count(self) -> dict[Status, int]:
        """Count all tasks, on a connection of its own: a large table takes seconds, and nothing else waits for it."""
        session = self._app._store.session()
        try:
            return session.ask(counts)
        finally:
            session.close()

    async def read(self) -> tuple[Facts, dict[Status, int] | None]:
        """Return the facts, and how many tasks stand where unless that takes too long."""
        facts = await self.facts.get()
        assert facts is not None
        return facts, await self.counts.get(PATIENCE_S)  # begun only now: it would slow the others down


def _costly(app: App, one: LineageHour, budgets: Sequence[BudgetStatus]) -> CostlyLineage:
    try:
        whole: Lineage | None = app.lineages.get(one.lineage, limit=1)
    except StoreError:
        raise
    except OncewardError:
        whole = None  # pruned since
    budget = next((found for found in budgets if found.name == "lineage" and found.scope == str(one.lineage)), None)
    return CostlyLineage(one.lineage, None if whole is None else whole.root, whole, one.cost, budget)


def _worst_usd(app: App) -> float | None:
    if not app._registry.kinds:
        return None
    return app.envelope().hourly.workers.usd.most


_readers: WeakKeyDictionary[App, FactsReader] = WeakKeyDictionary()


def facts_of(app: App) -> FactsReader:
    """Return the reader of an app."""
    if app not in _readers:
        _readers[app] = FactsReader(app)
    return _readers[app]
