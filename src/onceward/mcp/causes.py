"""What holds work back in a whole database: every cause, the worst first, with its command and the next tool to call.

`held_back` is a pure function of the facts, and `facts_of` reads them: counts, lines, workers, pauses, sources, budgets
and, of each status that is open, a few tasks with their reasons.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Any

from onceward.mcp.texts import ago, stored
from onceward.model.pause import EVERYTHING, Pauses, scope_text
from onceward.model.status import Status
from onceward.model.task_filter import quoted
from onceward.model.times import moment
from onceward.operations.sources import SourceState
from onceward.views.why import Cause

if TYPE_CHECKING:
    from onceward.app import App
    from onceward.operations.budgets import BudgetStatus
    from onceward.operations.sources import SourceStatus
    from onceward.operations.workers import Pause
    from onceward.store.reports.tasks import Backlog, WorkerRow
    from onceward.views.why import Why

OPEN = (Status.PENDING, Status.RETRYABLE, Status.WAITING)
MOST_ASKED = 4
"""Of how many tasks of each open status it is asked why they do not run."""
SHUT = (SourceState.DISABLED, SourceState.PAUSED, SourceState.HELD)
TOLD_ELSEWHERE = frozenset({Cause.RUNNING, Cause.CLAIMED, Cause.NO_WORKER, Cause.IN_LINE, Cause.ENDED})
"""Causes of single tasks that say nothing of the whole, or what the lines and the workers say better."""


@dataclass(frozen=True, slots=True)
class Facts:
    """How a database stands at one moment."""

    now: datetime
    counts: dict[Status, int]
    backlog: Backlog
    workers: tuple[WorkerRow, ...]
    pauses: tuple[Pause, ...]
    sources: tuple[SourceStatus, ...]
    budgets: tuple[BudgetStatus, ...]
    samples: tuple[Why, ...]
    """Why the newest open tasks do not run."""

    @property
    def open(self) -> int:
        """How many tasks have neither ended nor run now."""
        return sum(self.counts[status] for status in OPEN)

    @property
    def alive(self) -> tuple[WorkerRow, ...]:
        """The workers whose processes are there and whose heartbeats come."""
        now_ms = round(self.now.timestamp() * 1_000)
        return tuple(one for one in self.workers if not one.is_dead and not one.is_silent(now_ms))


@dataclass(frozen=True, slots=True)
class Held:
    """One cause, in a sentence, with what takes it away and what says more."""

    sentence: str
    command: str | None = None
    """The command that unblocks it, where one does."""
    look: str | None = None
    """The tool to call next, with its arguments."""


def facts_of(app: App) -> Facts:
    """Read how a database stands."""
    now = app._store.clock.now()
    counts = app.stats.counts()
    samples = [
        app.why(task)
        for status in (*OPEN, Status.RUNNING)
        if counts[status]
        for task in app.tasks.search(f"status:{status.word}", limit=MOST_ASKED).tasks
    ]
    return Facts(
        now=moment(now),
        counts=counts,
        backlog=app.stats.backlog(),
        workers=tuple(app.workers.list()),
        pauses=tuple(app.workers.pauses()),
        sources=tuple(app.sources.list()),
        budgets=tuple(app.budgets.list()),
        samples=tuple(samples),
    )


def call(tool: str, **arguments: Any) -> str:
    """Return how a tool is called, as an answer names it."""
    return f"{tool} {json.dumps(arguments, ensure_ascii=False)}"


def held_back(facts: Facts) -> list[Held]:
    """Return every cause that holds work back, those that hold everything first."""
    causes = [*_pauses(facts), *_workers(facts), *_budgets(facts), *_sources(facts), *_samples(facts)]
    return sorted(causes, key=lambda one: 0 if "everything is paused" in one.sentence else 1)


def _pauses(facts: Facts) -> Iterator[Held]:
    for pause in facts.pauses:
        what, _, name = pause.scope.partition(":")
        by = f"since {ago(pause.at, facts.now)}, by {stored(pause.author, 60)}"
        option = f"--{what}" + (f" {quote(name)}" if name else "")
        whole = "everything is paused" if pause.scope == EVERYTHING else f"{stored(scope_text(pause.scope))} is paused"
        sample = next((one.task for one in facts.samples if one.cause is Cause.PAUSED), None)
        look = None if sample is None else call("why", task=sample)
        yield Held(f"{whole} {by}", f"onceward resume {option}", look)


def _workers(facts: Facts) -> Iterator[Held]:
    ready = facts.backlog.ready
    waiting = facts.counts[Status.PENDING] + facts.counts[Status.RETRYABLE]
    if not facts.alive:
        if waiting or facts.counts[Status.RUNNING] or facts.open:
            gone = f" ({len(facts.workers)} have died or are silent)" if facts.workers else ""
            sample = next((one.task for one in facts.samples if one.cause in (Cause.NO_WORKER, Cause.LOST)), None)
            look = None if sample is None else call("why", task=sample)
            yield Held(f"no worker is alive{gone}; open tasks: {facts.open:,}", "onceward run APP", look)
        return
    paused = Pauses(frozenset(one.scope for one in facts.pauses))
    served = [(set(one.queues.split(",")), set(one.kinds.split(","))) for one in facts.alive]
    unserved: dict[tuple[str, str], int] = {}
    for line in ready:
        queue, _, kind = line.lane.partition("@")[0].removeprefix("!").partition(":")
        if paused.of_line(line.lane) is None and not any(queue in queues and kind in kinds for queues, kinds in served):
            unserved[queue, kind] = unserved.get((queue, kind), 0) + line.tasks
    for (queue, kind), tasks in unserved.items():
        names = f"kind {stored(kind, 80)} in queue {stored(queue, 80)}"
        yield Held(
            f"no living worker takes {names}; tasks in line there: {tasks:,}",
            "onceward run APP" + ("" if queue == "default" else f" --queues {quote(queue)}"),
            call("tasks", filter=f"kind:{quoted(kind)} status:pending"),
        )


def _budgets(facts: Facts) -> Iterator[Held]:
    for one in facts.budgets:
        if not (one.waiting or one.is_closed):
            continue
        whose = f" of {stored(one.scope, 80)}" if one.scope else ""
        shut = ", closed because a charge was above its estimate" if one.is_closed else ""
        then = "" if one.resets_at is None else f"; it begins anew at {ago(one.resets_at, facts.now)}"
        yield Held(
            f"budget {stored(one.name, 80)}{whose} has {one.left} of {one.limit} {stored(one.unit, 20)} left{shut}; "
            f"tasks that wait for it: {one.waiting:,}{then}",
            _raise_command(facts, one),
            call("budgets", name=one.name),
        )


def _raise_command(facts: Facts, budget: BudgetStatus) -> str:
    """The command of a task that waits for the budget, which knows what is needed; else one with a gap."""
    for one in facts.samples:
        if one.cause is Cause.BUDGET and one.waiting_for == f"budget:{budget.name}" and one.command:
            return one.command
    scope = f" --scope {quote(budget.scope)}" if budget.scope else ""
    return f"onceward budgets {quote(budget.name)} --limit AMOUNT{scope}"


def _sources(facts: Facts) -> Iterator[Held]:
    for one in facts.sources:
        if one.state not in SHUT or not (one.waiting or one.state is SourceState.DISABLED):
            continue
        if one.state is SourceState.HELD and any(pause.scope.startswith("source:") for pause in facts.pauses):
            continue  # said with the pause
        until = "" if one.paused_until is None else f", until {ago(one.paused_until, facts.now)}"
        why = f": {stored(one.why or one.last_error)}" if one.why or one.last_error else ""
        yield Held(
            f"source {stored(one.name, 80)} is {one.state.value}{until}{why}; tasks in line for it: {one.waiting:,}",
            f"onceward source {quote(one.name)} --enable",
            call("sources", name=one.name),
        )


def _samples(facts: Facts) -> Iterator[Held]:
    """What single tasks say that nothing above has said: code that does not fit, signals, pauses of lineages, …"""
    told = set(TOLD_ELSEWHERE)
    if facts.backlog.parked:
        told.add(Cause.CODE)
        sample = next((one.task for one in facts.samples if one.cause is Cause.CODE), None)
        yield Held(
            f"tasks parked: {facts.backlog.parked:,}; what is stored of them does not fit the code of the workers",
            "onceward run APP, with code that reads what is stored",
            call("tasks", filter="status:waiting") if sample is None else call("why", task=sample),
        )
    if facts.pauses:
        told.add(Cause.PAUSED)
    if any(one.waiting or one.is_closed for one in facts.budgets):
        told.add(Cause.BUDGET)
    if any(one.state in SHUT for one in facts.sources):
        told.add(Cause.SOURCE)
    for one in facts.samples:
        if one.cause not in told:
            told.add(one.cause)
            sentence = f"task {one.task}, as an example: {stored(one.sentence)}"
            yield Held(sentence, one.command, call("why", task=one.task))
