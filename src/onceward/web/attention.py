"""What needs a person, the worst first: a sentence each, with one button and the command that does the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import IntEnum
from shlex import quote
from urllib.parse import urlencode

from onceward.model.budget import amount_of, amount_text
from onceward.model.pause import scope_text
from onceward.operations.budgets import BudgetStatus
from onceward.operations.sources import SourceState, SourceStatus
from onceward.store.reports.standing import RefusedSpawns
from onceward.views.alerts import Alert
from onceward.web.facts import Facts
from onceward.web.words import span

MOST = 7
ALONE = 2
"""More alerts of one rule, and more sources or lineages of one sort, than this are told as one."""
FEWEST_REFUSED = 20
"""So many spawns that a limit has refused within an hour are worth a look: a limit is there to stop what runs away."""
FEWEST_REPEATED = 500
"""So many that were refused as the same work again: some are usual."""
LIMIT_RULES = ("limit", "depth", "budget", "stopped")
STOPPED_RULES = frozenset({"budget", "source", "ticks", "workers", "lease", "watch failed"})
"""Alerts of something that stands still, not only of something that may."""
TOLD_OTHERWISE = frozenset({"source", "budget", "budget nearly spent", "code"})
"""Alerts that say what the state of a source, a budget or a task says already."""


class Rank(IntEnum):
    """How bad it is."""

    STOPPED = 0
    ASKS = 1
    AT_RISK = 2
    REFUSED = 3


MARKS = {Rank.STOPPED: "failed", Rank.ASKS: "parked", Rank.AT_RISK: "warning", Rank.REFUSED: "refused"}


@dataclass(frozen=True, slots=True)
class Button:
    """What one press does: it leads somewhere, asks, or acts."""

    word: str
    to: str = ""
    """A page, or the address of the action; below the base path."""
    fields: dict[str, str] = field(default_factory=dict)
    """What the action is sent; without any it is a link."""
    dialog: str = ""
    """The dialog that it opens first."""
    role: str = "operator"


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that needs a person."""

    rank: Rank
    headline: str
    text: str
    command: str
    button: Button
    since: datetime | None = None
    mark: str = ""
    budget: BudgetStatus | None = None
    """The budget whose limit the button raises."""
    suggested: Decimal | None = None

    @property
    def glyph(self) -> str:
        """The name of its mark."""
        return self.mark or MARKS[self.rank]


def attention(facts: Facts) -> list[Item]:
    """Return all that needs a person, the worst first."""
    items = [
        *_workers(facts),
        *_pauses(facts),
        *_budgets(facts),
        *_sources(facts.sources, facts.now),
        *_waits(facts),
        *_alerts(facts),
        *(item for one in facts.standing.refused for item in _refused(one)),
    ]
    return sorted(items, key=lambda item: item.rank)


def _workers(facts: Facts) -> Iterator[Item]:
    alive = [one for one in facts.standing.workers if not one.is_dead]
    if not alive and facts.ready:
        age = facts.oldest_ready_ms
        yield Item(
            Rank.STOPPED,
            "No worker is alive.",
            f"{_tasks(facts.ready)} ready{'' if age is None else f', the first for {span(age)}'}.",
            "onceward run APP",
            Button("Workers", "/workers"),
        )
    now = round(facts.now.timestamp() * 1_000)
    if silent := [one for one in alive if one.is_silent(now)]:
        held = sum(one.holds for one in silent)
        named = ", ".join(one.name for one in silent[:3])
        yield Item(
            Rank.AT_RISK,
            f"{_count(len(silent), 'worker is', 'workers are')} silent.",
            f"{named}: {_tasks(held, 'held there')}, and taken over once the lease is over.",
            "onceward status",
            Button("Workers", "/workers"),
        )


def _pauses(facts: Facts) -> Iterator[Item]:
    for one in facts.pauses:
        what, _, name = one.scope.partition(":")
        said = "Everything is paused." if one.scope == "everything" else f"{_upper(scope_text(one.scope))} is paused."
        flag = f"--{what}" + (f" {quote(name)}" if name else "")
        yield Item(
            Rank.STOPPED if one.scope == "everything" else Rank.AT_RISK,
            said,
            f"{one.author} did that. Nothing of it begins before it is resumed; it keeps its place in line.",
            f"onceward resume {flag}",
            Button("Resume", "/overview/resume", {"scope": one.scope}),
            one.at,
            mark="paused",
        )


def _budgets(facts: Facts) -> Iterator[Item]:
    spent = [one for one in facts.budgets if one.waiting or one.is_closed]
    by_name: dict[str, list[BudgetStatus]] = {}
    for one in spent:
        by_name.setdefault(one.name, []).append(one)
    for name, some in by_name.items():
        if len(some) > ALONE:
            waiting = sum(one.waiting for one in some)
            yield Item(
                Rank.STOPPED,
                f"{len(some):,} budgets {name} are all but spent.",
                f"{_tasks(waiting, 'waiting for them')}. Each of them is for one {_whose(name)}.",
                f"onceward budgets {name}",
                Button("See them", "/budgets"),
            )
            continue
        for one in some:
            yield _budget(one, facts)


def _budget(one: BudgetStatus, facts: Facts) -> Item:
    whose = f" of {one.scope}" if one.scope else ""
    until = (
        "" if one.resets_at is None else f" Begins anew in {span((one.resets_at - facts.now).total_seconds() * 1_000)}."
    )
    closed = " A charge above its estimate has closed it." if one.is_closed else ""
    left, limit = _amount(one.left, one.unit), _amount(one.limit, one.unit)
    since = next((alert.raised_at for alert in facts.alerts if alert.subject.partition("/")[0] == one.name), None)
    suggested = one.limit * 2
    scope = f" --scope {quote(one.scope)}" if one.scope else ""
    return Item(
        Rank.STOPPED,
        f"Budget {one.name}{whose} is all but spent.",
        f"{_tasks(one.waiting, 'waiting')}: {left} of {limit} is left.{closed}{until}",
        f"onceward budgets {quote(one.name)} --limit {suggested:f}{scope}",
        Button("Raise the limit…", "/overview/limit", dialog=f"limit-{one.name}-{one.scope}", role="admin"),
        since,
        budget=one,
        suggested=suggested,
    )


def _sources(sources: Iterable[SourceStatus], now: datetime) -> Iterator[Item]:
    found: dict[tuple[str, SourceState], list[SourceStatus]] = {}
    for one in sources:
        if one.state in (SourceState.DISABLED, SourceState.PAUSED):
            found.setdefault((one.source, one.state), []).append(one)
    for (name, state), some in found.items():
        if len(some) > ALONE:
            waiting = sum(one.waiting for one in some)
            word = "disabled" if state is SourceState.DISABLED else "left alone"
            yield Item(
                Rank.STOPPED if state is SourceState.DISABLED else Rank.AT_RISK,
                f"{len(some):,} instances of source {name} are {word}.",
                f"{_tasks(waiting, 'in line for them')}, and use up nothing.",
                f"onceward sources {name}",
                Button("See them", "/sources"),
            )
            continue
        for one in some:
            yield _source(one, now)


def _source(one: SourceStatus, now: datetime) -> Item:
    is_disabled = one.state is SourceState.DISABLED
    for_how_long = "" if one.paused_until is None else f" for {span((one.paused_until - now).total_seconds() * 1_000)}"
    why = one.why or one.last_error or "an operator did that"
    error = f" ({one.last_error})" if one.last_error and one.last_error not in why else ""
    return Item(
        Rank.STOPPED if is_disabled else Rank.AT_RISK,
        f"Source {one.name} is {'disabled' if is_disabled else f'left alone{for_how_long}'}.",
        f"{_upper(why)}{error}. {_tasks(one.waiting, 'in line')}, and use up nothing.",
        f"onceward source {quote(one.name)} --enable",
        Button("Enable" if is_disabled else "Try it now", "/overview/enable", {"source": one.name}),
        one.last_failure_at,
    )


def _waits(facts: Facts) -> Iterator[Item]:
    waits = facts.standing.waits
    more = "" if facts.standing.waiting_is_whole else "at least "
    if count := waits.get("signal:approved", 0):
        one = count == 1
        yield Item(
            Rank.ASKS,
            f"{more.capitalize()}{count:,} task{' waits' if one else 's wait'} for your approval.",
            "Each says what it asks for; nothing of it is done before.",
            "onceward tasks --filter waiting:signal:approved",
            _link(f"Review {count:,}", "waiting:signal:approved"),
        )
    if count := waits.get("code", 0):
        one = count == 1
        yield Item(
            Rank.STOPPED,
            f"{more.capitalize()}{count:,} task{' waits' if one else 's wait'} for other code.",
            "What is stored of them does not fit the code that the workers run.",
            "onceward run APP",
            _link(f"See {count:,}", "waiting:code"),
        )


def _alerts(facts: Facts) -> Iterator[Item]:
    by_rule: dict[str, list[Alert]] = {}
    for one in facts.alerts:
        if one.rule not in TOLD_OTHERWISE or not _is_told(one, facts):
            by_rule.setdefault(one.rule, []).append(one)
    for rule, some in by_rule.items():
        rank = Rank.STOPPED if rule in STOPPED_RULES else Rank.AT_RISK
        first = some[0]
        if len(some) > ALONE:
            yield Item(
                rank,
                f"{len(some):,} alerts: {rule}.",
                f"The newest: {first.sentence}. {first.advice}",
                "onceward alerts",
                Button(f"See {len(some):,}", "/alerts"),
                min(one.raised_at for one in some),
            )
            continue
        for one in some:
            yield Item(rank, f"{_upper(one.sentence)}.", one.advice, *_way(one), one.raised_at)


def _is_told(one: Alert, facts: Facts) -> bool:
    """Whether an item on the same source, budget or wait says it already."""
    if one.rule == "code":
        return bool(facts.standing.waits.get("code"))
    name, _, scope = one.subject.partition("/")
    if one.rule == "source":
        return any(
            found.name == one.subject and found.state in (SourceState.DISABLED, SourceState.PAUSED)
            for found in facts.sources
        )
    return any(
        found.name == name and (not scope or found.scope == scope) and (found.waiting or found.is_closed)
        for found in facts.budgets
    )


def _way(one: Alert) -> tuple[str, Button]:
    """Return the command and the button that lead to what an alert is about."""
    if one.lineage is not None:
        return f"onceward lineage {one.lineage}", Button("Open the lineage", f"/lineages/{one.lineage}")
    if one.tasks:
        count = len(one.tasks)
        link = _link(f"See {count} task{'' if count == 1 else 's'}", f"id:{','.join(map(str, one.tasks))}")
        return f"onceward task {one.tasks[0]}", link
    return "onceward alerts", Button("Alerts", "/alerts")


def _refused(one: RefusedSpawns) -> Iterator[Item]:
    if one.count < (FEWEST_REFUSED if one.rule in LIMIT_RULES else FEWEST_REPEATED):
        return
    more = "" if one.is_whole else "at least "
    where = "" if one.lineages == 1 else f" in {one.lineages:,} lineages"
    yield Item(
        Rank.REFUSED,
        f"{_upper(more)}{one.count:,} spawns were refused by one rule{where}.",
        f"{one.rule}: {one.newest_reason}",
        f"onceward lineage {one.newest_parent}",
        Button("Open the lineage" if one.lineages == 1 else "Open the newest", f"/lineages/{one.newest_lineage}"),
    )


def _link(word: str, wanted: str) -> Button:
    return Button(word, f"/tasks?{urlencode({'filter': wanted})}")


def _whose(name: str) -> str:
    return "lineage" if name == "lineage" else "scope"


def _amount(amount: Decimal, unit: str) -> str:
    return amount_text(amount_of(amount, "an amount"), unit)


def _tasks(count: int, word: str = "") -> str:
    said = f"{count:,} task{'' if count == 1 else 's'} {'is' if count == 1 else 'are'}"
    return f"{said} {word}".rstrip()


def _count(count: int, one: str, several: str) -> str:
    return f"{count:,} {one if count == 1 else several}"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
