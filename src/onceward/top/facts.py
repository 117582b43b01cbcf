"""What the live view shows at one moment, read in one go, and how healthy that is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from onceward.model.pause import EVERYTHING
from onceward.model.times import duration_text, moment

if TYPE_CHECKING:
    from onceward.app import App
    from onceward.model.hour import Hour
    from onceward.operations.budgets import BudgetStatus
    from onceward.operations.sources import SourceStatus
    from onceward.operations.workers import Pause
    from onceward.store.reports.tasks import Backlog, WorkerRow
    from onceward.views.task import Task

STANDSTILL_MS = 60_000
"""For how long ready work may stand there, with nothing claimed, before that is called a standstill."""
MOST_TASKS = 50

Tone = Literal["good", "quiet", "warning", "bad"]


@dataclass(frozen=True, slots=True)
class Facts:
    """How a database stands at one moment."""

    now: datetime
    hour: Hour
    backlog: Backlog
    workers: tuple[WorkerRow, ...]
    sources: tuple[SourceStatus, ...]
    budgets: tuple[BudgetStatus, ...]
    pauses: tuple[Pause, ...]
    alerts: int
    tasks: tuple[Task, ...]
    """The newest tasks that match the filter of the panel that shows some; else none."""

    @property
    def now_ms(self) -> int:
        """The same moment in milliseconds."""
        return round(self.now.timestamp() * 1_000)

    @property
    def alive(self) -> list[WorkerRow]:
        """The workers that are heard of."""
        return [one for one in self.workers if not one.is_dead and not one.is_silent(self.now_ms)]


def look(app: App, filter: str | None = None) -> Facts:
    """Read how a database stands, and the newest tasks that match a filter if one is given."""
    return Facts(
        now=moment(app._store.clock.now()),
        hour=app.stats.hour(),
        backlog=app.stats.backlog(),
        workers=tuple(app.workers.list()),
        sources=tuple(app.sources.list()),
        budgets=tuple(app.budgets.list()),
        pauses=tuple(app.workers.pauses()),
        alerts=len(app.alerts.list()),
        tasks=() if filter is None else app.tasks.search(filter, limit=MOST_TASKS).tasks,
    )


def health(facts: Facts) -> tuple[Tone, str]:
    """Say in a line whether work is done: what is claimed while work is ready counts, not heartbeats."""
    ready, claims, alive = facts.backlog.ready_tasks, facts.hour.claims, len(facts.alive)
    there = "1 task is ready" if ready == 1 else f"{ready:,} tasks are ready"
    if any(one.scope == EVERYTHING for one in facts.pauses):
        return "warning", f"everything is paused; {there}"
    workers = f"{alive} worker{'' if alive == 1 else 's'}"
    if claims:
        return "good", f"working: {claims:,} claims in the last minute, {ready:,} ready, {workers}"
    if not ready:
        later = f", {facts.backlog.later_tasks:,} come later" if facts.backlog.later_tasks else ""
        return "quiet", f"idle: nothing is ready{later}, {workers}"
    waits_ms = facts.backlog.oldest_ready_ms(facts.now_ms) or 0
    waits = duration_text(round(waits_ms, -3))
    if not alive:
        return "bad", f"no worker is alive; {there}, the oldest for {waits}"
    if waits_ms > STANDSTILL_MS:
        return "bad", f"standstill: {there}, the oldest for {waits}, and nothing is claimed"
    return "quiet", f"{there}, {workers}"
