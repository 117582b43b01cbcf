"""What an hour can come to at worst, from the configuration alone: runs, compute minutes, tasks, calls, money.

Ticks run one every so often, and as many after it as the chain allows, each with a limit on time and on tasks: whatever
a task may do, so many times that is the worst case. Workers claim as much as there is: what bounds them are the rates
of sources and budgets of the whole app. A stage makes at most the calls that it declares, each with its retries. What
nothing bounds is said to be unbounded, with what would bound it. An hour is one of the clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from onceward.authoring.pipeline import Pipeline
from onceward.authoring.stage import LAST, Stage
from onceward.errors import ConfigError
from onceward.model.arguments import shown
from onceward.model.budget import CALLS, USD, WHOLE, BudgetRule, amount_of, amount_text
from onceward.model.hourly_usage import HOUR_MS, Typical
from onceward.model.source import Source
from onceward.settings.config import Config


class SourceHour(NamedTuple):
    """How often one instance of a source can be called in an hour."""

    name: str
    calls: int | None
    """None without a limit on its rate."""


class BudgetHour(NamedTuple):
    """What of a budget can be spent in an hour: all of it, whatever its window."""

    name: str
    scope: str
    per: str
    limit: str


class Bound(NamedTuple):
    """The most that can come of something in an hour, and why; None is unbounded, and then what would bound it."""

    most: float | None
    because: str

    @property
    def text(self) -> str:
        """The figure."""
        return "unbounded" if self.most is None else f"{self.most:,.0f}"

    def is_above(self, allowed: float) -> bool:
        """Whether it can come to more than is allowed. What nothing bounds can."""
        return self.most is None or self.most > allowed

    def sentence(self, what: str, unit: str) -> str:
        """What can happen, how much of it, and why."""
        if self.most is None:
            return f"{what} any number of {unit}, it is unbounded: {self.because}"
        figure = f"{self.most:,.2f}" if unit == "USD" else f"{self.most:,.0f}"
        return f"{what} at most {figure} {unit}, because of {self.because}"


class WorkersHour(NamedTuple):
    """The worst case of an hour of workers, however many there are."""

    calls: Bound
    usd: Bound


@dataclass(frozen=True, slots=True)
class Hourly:
    """The worst case of an hour of ticks and of an hour of workers, and what bounds it besides."""

    runs: int
    minutes: int
    tasks: int
    calls: int | None
    """Requests: every call with all its retries. None where nothing bounds them."""
    usd: float | None
    """None where nothing bounds it: the cost of a call is not declared, and no budget is over all of them."""
    calls_bounded_by: str
    """What the figure for calls follows from, or what would bound them."""
    bounded_by: str
    """What the figure for money follows from, or what would bound it."""
    workers: WorkersHour
    sources: tuple[SourceHour, ...]
    budgets: tuple[BudgetHour, ...]
    typical: Typical | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            **asdict(self),
            "workers": {name: bound._asdict() for name, bound in self.workers._asdict().items()},
            "sources": [one._asdict() for one in self.sources],
            "budgets": [one._asdict() for one in self.budgets],
            "typical": None if self.typical is None else self.typical._asdict(),
        }

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """The table: what, at worst, and typically."""
        usual = ["–"] * 5
        if (typical := self.typical) is not None:
            usual[:3] = [f"{typical.runs:,.1f}", f"{typical.minutes:,.1f}", f"{typical.tasks:,.0f}"]
            usual[3] = usual[3] if typical.calls is None else f"{typical.calls:,.0f}"
            usual[4] = usual[4] if typical.usd is None else f"{typical.usd:,.2f}"
        usd = "unbounded" if self.usd is None else f"{self.usd:,.2f}"
        calls = Bound(self.calls, self.calls_bounded_by).text
        worst = (f"{self.runs:,}", f"{self.minutes:,}", f"{self.tasks:,}", calls, usd)
        names = ("runs", "compute minutes", "tasks", "calls with their retries", "USD")
        return [("an hour of ticks", "at worst", "typically"), *zip(names, worst, usual, strict=True)]

    @property
    def of_ticks(self) -> WorkersHour:
        """Calls and money of an hour of ticks, in the form of those of workers."""
        return WorkersHour(Bound(self.calls, self.calls_bounded_by), Bound(self.usd, self.bounded_by))

    def worst(self, what: str, *, ticks_only: bool = False) -> Bound:
        """The most that an hour can come to, by ticks or by workers; by ticks alone if no worker runs the app."""
        ticks: Bound = getattr(self.of_ticks, what)
        workers: Bound = getattr(self.workers, what)
        if ticks_only or ticks.most is None or not workers.is_above(ticks.most):
            return ticks
        return workers

    @property
    def sentences(self) -> list[str]:
        """What an hour can come to, and why."""
        hours = (("ticks", self.of_ticks), ("workers", self.workers))
        return [
            sentence
            for who, hour in hours
            for sentence in (
                hour.calls.sentence(f"an hour of {who} can make", "calls"),
                hour.usd.sentence(f"an hour of {who} can cost", "USD"),
            )
        ]

    @property
    def unbounded(self) -> list[str]:
        """What nothing bounds, and what would."""
        return [said for said in self.sentences if "unbounded" in said]

    def exceeds(self, usd: float, *, ticks_only: bool = False) -> bool:
        """Whether an hour can cost more than that. What nothing bounds does."""
        return self.worst("usd", ticks_only=ticks_only).is_above(usd)


def checked_price(usd: Any) -> None:
    """Refuse what is no price."""
    if usd is None:
        return
    try:
        amount_of(usd, "a price")
        is_price = not isinstance(usd, str)
    except ConfigError:
        is_price = False
    if not is_price:
        raise ConfigError(f"usd_per_1000_calls={shown(usd)}: it is what a thousand calls cost, in USD")


def hourly(
    config: Config,
    pipelines: Iterable[Pipeline[Any]],
    sources: Iterable[Source],
    budgets: Iterable[BudgetRule],
    *,
    usd_per_1000_calls: float | None = None,
) -> Hourly:
    """The worst case of an hour. An app without pipelines is taken for one whose tasks make a call each."""
    known = list(pipelines)
    rules = sorted(budgets, key=lambda rule: rule.name)
    runs = -(-HOUR_MS // config.tick_every_ms) * (1 + config.chain)
    tasks = runs * config.tick_tasks
    calling = [stage for one in known for stage in one._every_stage if stage.calls != 0]
    by_budget = _by_budgets(calling, CALLS, "a budget in calls over every stage that makes some")
    of_ticks = _least(by_budget, _by_tasks(known, tasks, config))
    of_workers = _least(by_budget, _by_rates(calling, config))
    money = _by_budgets(calling, USD, "")
    usd, workers_usd = (_least(money, _priced(calls, usd_per_1000_calls)) for calls in (of_ticks, of_workers))
    return Hourly(
        runs=runs,
        minutes=-(-runs * config.tick_limit_ms // 60_000),
        tasks=tasks,
        calls=None if of_ticks.most is None else round(of_ticks.most),
        calls_bounded_by=of_ticks.because,
        usd=usd.most,
        bounded_by=usd.because,
        workers=WorkersHour(of_workers, workers_usd),
        sources=tuple(
            SourceHour(one.name, _calls_an_hour(one)) for one in sorted(sources, key=lambda source: source.name)
        ),
        budgets=tuple(
            BudgetHour(rule.name, rule.scope, rule.per, amount_text(rule.ceiling, rule.unit)) for rule in rules
        ),
    )


def _least(first: Bound, second: Bound) -> Bound:
    """The smaller of two bounds; if there is none, all that would be one."""
    if first.most is None and second.most is None:
        return Bound(None, "; or ".join(one.because for one in (second, first) if one.because))
    bounds = [one for one in (first, second) if one.most is not None]
    return min(reversed(bounds), key=lambda one: one.most or 0)


def _requests(stage: Stage[Any, Any], config: Config) -> int | None:
    """How many requests one run of a stage can make; None if that is for the payload to say."""
    return None if callable(stage.calls) else stage.calls * (1 + stage._most_retries(config.call_retries))


def _by_tasks(pipelines: list[Pipeline[Any]], tasks: int, config: Config) -> Bound:
    """What so many claims can make: each goes through every stage of its pipeline once, or what is done at expiry."""
    each = 0 if pipelines else 1 + config.call_retries
    for pipeline in pipelines:
        together = 0
        for stage in pipeline._every_stage:
            requests = _requests(stage, config)
            if requests is None:
                return Bound(None, f"a number instead of a function as calls= of stage {pipeline.kind}.{stage.name}")
            together += requests
        each = max(each, together)
    return Bound(tasks * each, f"tick_tasks, {tasks:,} tasks of {each:,} calls with their retries")


def _by_rates(calling: list[Stage[Any, Any]], config: Config) -> Bound:
    """What the buckets of sources let through: each call of a stage takes at least one token of its own source."""
    retries: dict[str, int] = {}
    buckets: dict[str, int] = {}
    for stage in calling:
        where, source = f"stage {stage.kind}.{stage.name}", stage.source
        if callable(stage.calls):
            return Bound(None, f"a number instead of a function as calls= of {where}")
        if stage.name.startswith(LAST) or source is None:
            return Bound(None, f"a budget in calls for {where}, which stands in no line of a source")
        if (most := _calls_an_hour(source)) is None:
            return Bound(None, f"rate= of source {source.name!r}, which {where} calls")
        if source.per is not None:
            return Bound(None, f"a source without per= for {where}: nothing bounds the instances of {source.name!r}")
        buckets[source.name] = most
        retries[source.name] = max(retries.get(source.name, 0), stage._most_retries(config.call_retries))
    most_of_all = sum(most * (1 + retries[name]) for name, most in buckets.items())
    names = " and ".join(sorted(buckets))
    return Bound(most_of_all, f"the rate of {names}" if names else "that no stage declares any")


def _by_budgets(calling: list[Stage[Any, Any]], unit: str, otherwise: str) -> Bound:
    """What the budgets of the whole app let through, if every stage that calls draws from one in this unit."""
    found: dict[str, int] = {}
    for stage in calling:
        drawn = [rule for rule in stage.costs.drawn if rule.unit == unit and rule.scope == "app"]
        if not drawn:
            return Bound(None, otherwise)
        least = min(drawn, key=lambda rule: rule.ceiling)
        found[least.name] = least.ceiling
    if not found:
        return Bound(None, otherwise)
    return Bound(sum(found.values()) / WHOLE, f"the budget {' and '.join(sorted(found))}")


def _priced(calls: Bound, usd_per_1000_calls: float | None) -> Bound:
    if usd_per_1000_calls is None:
        return Bound(None, "the cost of a call is not declared, and not everything is under a budget of the app in USD")
    if calls.most is None:
        return calls
    return Bound(calls.most * usd_per_1000_calls / 1_000, "the price of its calls")


def _calls_an_hour(source: Source) -> int | None:
    interval_us = source.gate.interval_us
    return None if interval_us is None else source.gate.burst + HOUR_MS * 1_000 // interval_us
