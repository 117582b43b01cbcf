"""Figures for Prometheus, as text: counts and gauges of the database, with labels that cannot grow without end.

They are read at most once in some seconds, however many ask. A label is a status, or the name of a pipeline, a queue,
a source or a budget: of each the first so many by name, and the others together as `other`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from starlette.responses import Response

from onceward.app import App
from onceward.harmless import one_line
from onceward.model.status import Status
from onceward.operations.sources import SourceState
from onceward.web.roles import Role
from onceward.web.route import Route
from onceward.web.view import View

FRESH_S = 5.0
MOST_NAMES = 100
"""How many names a label has; what is beyond is counted together."""
OTHER = "other"
MEDIA = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Metric:
    """One metric: its samples by their labels."""

    name: str
    kind: str
    help: str
    samples: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)

    def add(self, value: float | None, **labels: str) -> None:
        """Add to a sample; nothing known is no sample."""
        if value is not None:
            key = tuple(labels.items())
            self.samples[key] = self.samples.get(key, 0) + value

    def lines(self) -> Iterable[str]:
        """Yield the lines of the text format."""
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples.items():
            named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            yield f"{self.name}{{{named}}} {value:.12g}" if named else f"{self.name} {value:.12g}"


class Names:
    """The names that a label may have: the first so many by name, so that they do not change from look to look."""

    def __init__(self, names: Iterable[str], most: int = MOST_NAMES) -> None:
        self._known = frozenset(sorted({*names})[:most])

    def __getitem__(self, name: str) -> str:
        return name if name in self._known else OTHER


class MetricsReader:
    """Reads the metrics of an app, at most once in some seconds."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._text = ""
        self._read_at = float("-inf")
        self._lock = asyncio.Lock()

    async def read(self) -> str:
        """Return the metrics as text, as of some seconds ago at most."""
        async with self._lock:
            if time.monotonic() - self._read_at >= FRESH_S:
                metrics = await asyncio.to_thread(gathered, self._app)
                self._text = "".join(f"{line}\n" for metric in metrics for line in metric.lines())
                self._read_at = time.monotonic()
            return self._text


async def show(view: View) -> Response:
    """Answer with the metrics."""
    return Response(await view.metrics.read(), media_type=MEDIA, headers={"Cache-Control": "no-store"})


def gathered(app: App) -> list[Metric]:
    """Return all metrics of an app as they are now."""
    now = app._store.clock.now()
    return [*_tasks(app, now), *_hour(app), *_sources(app), *_budgets(app), *_workers(app, now), _alerts(app)]


def _tasks(app: App, now: int) -> list[Metric]:
    tasks = Metric("onceward_tasks", "gauge", "Tasks by status.")
    counts: Mapping[Status, int] = app.stats.counts()
    for status, count in counts.items():
        tasks.add(count, status=status.word)
    ready = Metric("onceward_ready_tasks", "gauge", "Tasks that could run now, by queue and pipeline.")
    oldest = Metric("onceward_oldest_ready_seconds", "gauge", "For how long the oldest task that could run has stood.")
    backlog = app.stats.backlog()
    parts = [(*line.lane.removeprefix("!").partition(":")[::2], line) for line in backlog.ready]
    queues, kinds = Names(queue for queue, _, _ in parts), Names(kind for _, kind, _ in parts)
    for queue, kind, line in parts:
        ready.add(line.tasks, queue=queues[queue], pipeline=kinds[kind.partition("@")[0]])
    longest = backlog.oldest_ready_ms(now)
    oldest.add(0 if longest is None else max(0, longest) / 1_000)
    later = Metric("onceward_later_tasks", "gauge", "Tasks that may run at a due time.")
    later.add(backlog.later_tasks)
    return [tasks, ready, oldest, later]


def _hour(app: App) -> list[Metric]:
    hour = app.stats.hour()
    claims = Metric("onceward_claims_last_minute", "gauge", "Tasks claimed in the last minute.")
    claims.add(hour.claims)
    waited = Metric("onceward_wait_seconds", "gauge", "Time in line before the first start, over the last hour.")
    waited.add(hour.waited_p50_s, quantile="0.5")
    waited.add(hour.waited_p95_s, quantile="0.95")
    names = Names(one.pipeline for one in hour.pipelines)
    ended = Metric("onceward_ended_last_hour", "gauge", "Tasks that have ended in the last hour, by pipeline.")
    failed = Metric("onceward_failed_last_hour", "gauge", "Tasks that have failed in the last hour, by pipeline.")
    cost = Metric("onceward_cost_usd_last_hour", "gauge", "What tasks that ended in the last hour have cost.")
    for one in hour.pipelines:
        ended.add(one.ended, pipeline=names[one.pipeline])
        failed.add(one.failed, pipeline=names[one.pipeline])
        cost.add(float(one.cost), pipeline=names[one.pipeline])
    return [claims, waited, ended, failed, cost]


def _sources(app: App) -> list[Metric]:
    found = app.sources.list()
    names = Names(one.source for one in found)
    calls = Metric("onceward_source_calls_total", "counter", "Calls that were let through to a source.")
    failures = Metric("onceward_source_failures_total", "counter", "Calls to a source that have failed.")
    closed = Metric("onceward_source_closed", "gauge", "Instances of a source that let nothing pass now.")
    waiting = Metric("onceward_source_waiting_tasks", "gauge", "Tasks that stand in line for a source.")
    for one in found:
        name = names[one.source]
        calls.add(one.calls, source=name)
        failures.add(one.failures, source=name)
        closed.add(one.state not in (SourceState.OPEN, SourceState.HALF_OPEN), source=name)
        waiting.add(one.waiting, source=name)
    return [calls, failures, closed, waiting]


def _budgets(app: App) -> list[Metric]:
    found = app.budgets.list()
    names = Names(one.name for one in found)
    limit = Metric("onceward_budget_limit", "gauge", "The limit of a budget of the whole app, in its unit.")
    spent = Metric("onceward_budget_spent", "gauge", "What of it is spent in its present window.")
    reserved = Metric("onceward_budget_reserved", "gauge", "What of it is set aside.")
    waiting = Metric("onceward_budget_waiting_tasks", "gauge", "Tasks that wait for a budget, of any scope.")
    for one in found:
        waiting.add(one.waiting, budget=names[one.name])
        if not one.scope:  # those of lineages and batches are many, and come and go
            labels = {"budget": names[one.name], "unit": one.unit}
            limit.add(float(one.limit), **labels)
            spent.add(float(one.spent), **labels)
            reserved.add(float(one.reserved), **labels)
    return [limit, spent, reserved, waiting]


def _workers(app: App, now: int) -> list[Metric]:
    workers = Metric("onceward_workers", "gauge", "Living workers; silent ones have missed heartbeats.")
    held = Metric("onceward_held_tasks", "gauge", "Tasks that workers hold.")
    found = app.workers.list()
    states = Counter("silent" if one.is_silent(now) else "alive" for one in found)
    for state in ("alive", "silent"):
        workers.add(states[state], state=state)
    held.add(sum(one.holds for one in found))
    return [workers, held]


def _alerts(app: App) -> Metric:
    alerts = Metric("onceward_alerts", "gauge", "Alerts that last, by rule.")
    found = app.alerts.list()
    names = Names(one.rule for one in found)
    for rule, count in sorted(Counter(names[one.rule] for one in found).items()):
        alerts.add(count, rule=rule)
    return alerts


def _escaped(text: str) -> str:
    return one_line(text)[:200].replace("\\", "\\\\").replace('"', '\\"')


ROUTES = [Route("GET", "/metrics", show, Role.VIEWER, "metrics", "Show figures for Prometheus.")]
