"""What an hour can come to at worst, from the configuration alone: runs, compute minutes, tasks, calls, money.

Ticks are what runs by itself: one every so often, and as many after it as the chain allows, each with a limit on time
and on tasks. Every task may call outside as often as the retries allow, and its stages say. Rates of sources and
budgets hold besides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from onceward.config import Config
from onceward.errors import ConfigError
from onceward.model.asked import shown
from onceward.model.budget import USD, WHOLE, BudgetRule, amount_of, spoken_amount
from onceward.model.hours import HOUR_MS, Typical
from onceward.model.source import Source


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


@dataclass(frozen=True, slots=True)
class Hourly:
    """The worst case of an hour of ticks, and what bounds it besides."""

    runs: int
    minutes: int
    tasks: int
    calls: int
    usd: float | None
    """None where nobody has said what a call costs and no budget is over all of them."""
    bounded_by: str
    """What the figure for money follows from."""
    sources: tuple[SourceHour, ...]
    budgets: tuple[BudgetHour, ...]
    typical: Typical | None = None

    @property
    def document(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            **asdict(self),
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
        usd = "unknown" if self.usd is None else f"{self.usd:,.2f}"
        worst = (f"{self.runs:,}", f"{self.minutes:,}", f"{self.tasks:,}", f"{self.calls:,}", usd)
        names = ("runs", "compute minutes", "tasks", "calls with their retries", "USD")
        return [("an hour of ticks", "at worst", "typically"), *zip(names, worst, usual, strict=True)]

    @property
    def sentence(self) -> str:
        """What an hour can cost, and why."""
        if self.usd is None:
            return f"nobody knows what an hour can cost: {self.bounded_by}"
        return f"an hour can cost at most {self.usd:,.2f} USD, because of {self.bounded_by}"

    def exceeds(self, usd: float) -> bool:
        """Whether an hour can cost more than that. What has no known bound does."""
        return self.usd is None or self.usd > usd


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
    sources: Iterable[Source],
    budgets: Iterable[BudgetRule],
    *,
    usd_per_1000_calls: float | None = None,
    covered: bool = False,
    most_calls: int = 0,
) -> Hourly:
    """The worst case of an hour. `covered`: whatever uses a source is under a budget of the whole app, in USD.
    `most_calls`: what a stage may make by its own word, with the retries of its source."""
    rules = sorted(budgets, key=lambda rule: rule.name)
    runs = -(-HOUR_MS // config.tick_every_ms) * (1 + config.chain)
    tasks = runs * config.tick_tasks
    calls = tasks * max(1 + config.call_retries, most_calls)
    usd, bounded_by = None, "nobody has said what a call costs, and not everything is under a budget of the app"
    if usd_per_1000_calls is not None:
        usd, bounded_by = calls * usd_per_1000_calls / 1_000, "the price of its calls"
    money = [rule for rule in rules if rule.unit == USD and rule.scope == "app"]
    if covered and money:
        ceiling = sum(rule.ceiling for rule in money) / WHOLE
        if usd is None or ceiling < usd:
            usd, bounded_by = ceiling, f"the budget {' and '.join(rule.name for rule in money)}"
    return Hourly(
        runs=runs,
        minutes=-(-runs * config.tick_limit_ms // 60_000),
        tasks=tasks,
        calls=calls,
        usd=usd,
        bounded_by=bounded_by,
        sources=tuple(
            SourceHour(one.name, _calls_an_hour(one)) for one in sorted(sources, key=lambda source: source.name)
        ),
        budgets=tuple(
            BudgetHour(rule.name, rule.scope, rule.per, spoken_amount(rule.ceiling, rule.unit)) for rule in rules
        ),
    )


def _calls_an_hour(source: Source) -> int | None:
    interval_us = source.gate.interval_us
    return None if interval_us is None else source.gate.burst + HOUR_MS * 1_000 // interval_us
