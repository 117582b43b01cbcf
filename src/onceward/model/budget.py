"""Budgets: ceilings on money, tokens, calls and tasks, and the arithmetic of what is set aside, spent and left.

An amount is a whole number of 10^-9 of its unit, rounded up, so that never less is counted than was spent. What a stage
may cost at most is set aside before it runs. What it says it has cost is spent when it ends, and the rest is free
again; of one that is never heard of again, all that was set aside is spent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal, InvalidOperation
from math import isfinite
from typing import Any, Literal

import msgspec

from onceward.errors import ConfigError
from onceward.model.arguments import shown
from onceward.model.gates import BUDGET
from onceward.model.holds import Settlement

Amount = int | float | str | Decimal
"""`5`, `0.02`, `"0.02"` or a `Decimal`: so much of a unit."""
Estimate = Amount | Callable[[Any], Amount]
Unit = Literal["usd", "tokens", "calls", "tasks"]

USD, TOKENS, CALLS, TASKS = "usd", "tokens", "calls", "tasks"
WHOLE = 10**9
"""One of a unit."""
MOST = 4 * 10**9
"""How many of a unit a budget may be about; more do not fit into 64 bits when they are added up."""
MOST_AT_ONCE = MOST * WHOLE
"""How much one change of a sum may count. The sum ends at five quarters of it: both together fit into 64 bits."""

LINEAGE = "lineage"
"""The name of what `Limits(budget=…)` sets: it belongs to a lineage, or to a branch of it."""
APP = ""
"""Whom a budget of the whole app is for."""
EVERY_SCOPE = "*"
"""An operator means everybody whom a budget is for."""

_WAIT = "budget:"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_EXACT = Context(prec=120, Emin=-(10**6), Emax=10**6)
_WINDOWS_MS = {"total": None, "hour": 3_600_000, "day": 86_400_000}
_SCOPES = ("app", "pipeline", "source", "lineage", "batch")


def amount_of(value: Any, what: str) -> int:
    """So much of a unit, as a whole number of 10^-9 of it, rounded up."""
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise ConfigError(f"{what} is {shown(value)}; it is a number")
    if isinstance(value, float) and not isfinite(value):
        raise ConfigError(f"{what} is {shown(value)}; it is a number that one can count to")
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except (InvalidOperation, ValueError):
        raise ConfigError(f"{what} is {shown(value)}; it is a number") from None
    if not number.is_finite():
        raise ConfigError(f"{what} is {shown(value)}; it is a number that one can count to")
    if number < 0:
        raise ConfigError(f"{what} is {shown(value)}; it is not below zero")
    if number > MOST:
        raise ConfigError(f"{what} is {shown(value)}; more than {MOST:,} cannot be counted")
    if number.adjusted() < -18:
        return int(number != 0)
    return int(_EXACT.multiply(number, Decimal(WHOLE)).to_integral_value(ROUND_CEILING))


def read_amount(amount: int) -> Decimal:
    """An amount as a number of its unit."""
    return Decimal(amount).scaleb(-9).normalize() + 0


def amount_text(amount: int, unit: str) -> str:
    """An amount as a person would say it."""
    number = read_amount(amount)
    if unit == USD:
        return f"{number:,.2f} USD" if number == number.quantize(Decimal("0.01")) else f"{number:,f} USD"
    return f"{number:,f} {unit}"


class BudgetRule(msgspec.Struct, frozen=True, gc=False):
    """A budget as the engine knows it."""

    name: str
    unit: str
    per: str
    scope: str
    ceiling: int
    fails: bool = False
    """Whether a task fails for which there is nothing left; else it waits."""

    def window(self, now: int) -> tuple[int, int | None]:
        """When the present window began, and when it ends; hours and days are those of UTC."""
        length = _WINDOWS_MS[self.per]
        return (0, None) if length is None else (now - now % length, now - now % length + length)

    def whose(self, kind: str, source: str | None, lineage: str, batch: int | None) -> str | None:
        """For whom a task with these draws from it; None if there is no limit for such a one."""
        match self.scope:
            case "pipeline":
                return kind
            case "source":
                return source
            case "lineage":
                return lineage
            case "batch":
                return None if batch is None else str(batch)
        return APP


class Counted(msgspec.Struct, frozen=True, gc=False):
    """A budget that counts a task when it is made, and the instance of the source that its stage uses."""

    rule: BudgetRule
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """A hard ceiling on what stages spend. Its state is shared by all workers of a database.

    `scope` says for whom: the whole app, or each pipeline, source instance, lineage or batch for itself. `per` is the
    window after which it begins anew. When it is spent, tasks wait until it is raised or its window is over; with
    `when_spent="fail"` they fail. One in `"tasks"` counts the tasks of a pipeline when they are made: a task
    too many is refused.
    """

    name: str
    limit: Amount
    unit: Unit = field(default="usd", kw_only=True)
    per: Literal["total", "hour", "day"] = field(default="total", kw_only=True)
    scope: Literal["app", "pipeline", "source", "lineage", "batch"] = field(default="app", kw_only=True)
    when_spent: Literal["wait", "fail"] = field(default="wait", kw_only=True)
    rule: BudgetRule = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name) or self.name == LINEAGE:
            raise ConfigError(
                f"{shown(self.name)} is no name for a budget; take letters, digits, dots, dashes, and not 'lineage', "
                "which is what Limits(budget=…) sets"
            )
        for what, given, possible in (
            ("unit", self.unit, (USD, TOKENS, CALLS, TASKS)),
            ("per", self.per, tuple(_WINDOWS_MS)),
            ("scope", self.scope, _SCOPES),
            ("when_spent", self.when_spent, ("wait", "fail")),
        ):
            if not isinstance(given, str) or given not in possible:
                raise ConfigError(f"budget {self.name!r}: {what}={shown(given)}; it is one of {', '.join(possible)}")
        ceiling = amount_of(self.limit, f"the limit of budget {self.name!r}")
        if self.unit == TASKS and self.when_spent != "wait":
            raise ConfigError(f"budget {self.name!r} counts tasks: one too many is refused, it neither waits nor fails")
        fails = self.when_spent == "fail"
        object.__setattr__(self, "rule", BudgetRule(self.name, self.unit, self.per, self.scope, ceiling, fails))


class StageCosts:
    """What a stage may cost: the budgets it draws from, and its estimate, which is an upper bound."""

    def __init__(
        self, stage: str, budget: Any, estimate: Any, calls: int, *, has_source: bool, holds: Any = None
    ) -> None:
        given = _several(budget)
        for one in given:
            if not isinstance(one, Budget):
                raise ConfigError(f"stage {stage!r}: budget={shown(one)}; it is a Budget, or several")
            if one.scope == "source" and not has_source:
                raise ConfigError(f"stage {stage!r}: budget {one.name!r} is for each source, and the stage has none")
        if len({one.name for one in given}) < len(given):
            raise ConfigError(f"stage {stage!r}: a budget is named twice")
        self.stage = stage
        self.held = tuple(_held_rule(stage, one, has_source=has_source) for one in _several(holds))
        """Those of which it may hold something beyond itself."""
        self.counting = tuple(one.rule for one in given if one.unit == TASKS)
        """Those that count tasks, when they are made."""
        self.drawn = tuple(one.rule for one in given if one.unit != TASKS)
        """Those from which something is set aside before the stage runs."""
        units = {rule.unit for rule in self.drawn} - {CALLS}
        if len(units) > 1:
            raise ConfigError(f"stage {stage!r}: one estimate cannot be in USD and in tokens; give it budgets of one")
        self.unit = units.pop() if units else CALLS if self.drawn else USD
        """That of the estimate."""
        if self.unit != CALLS and self.drawn and estimate is None:
            name = self.drawn[0].name
            raise ConfigError(f"stage {stage!r}: budget {name!r} needs an estimate: what the stage costs at most")
        self.calls = calls if self.unit != CALLS or estimate is None else self._calls(estimate, calls)
        """How many calls it may make at most, as far as is known before."""
        self._function = estimate if callable(estimate) else None
        self._amount: int | None = None
        if self.unit == CALLS:
            self._check(self.calls * WHOLE, CALLS)
        elif estimate is not None and self._function is None:
            self._amount = amount_of(estimate, f"the estimate of stage {stage!r}")
            self._check(self._amount, self.unit)
        self.draws_on_lineage = self.unit == USD and (self._function is not None or self._amount is not None)
        """Whether it spends money, of which its lineage may have a budget."""
        self.is_governed = bool(self.drawn) or self.draws_on_lineage
        """Whether something is set aside before it runs."""

    @property
    def gates(self) -> list[tuple[str, int]]:
        """Its budgets as gates; one that counts calls with how many of them the stage may make."""
        if not self.drawn:
            return [(BUDGET + LINEAGE, 1)] if self.draws_on_lineage else []
        return [(BUDGET + rule.name, self.calls if rule.unit == CALLS else 1) for rule in self.drawn]

    @property
    def chargeable(self) -> dict[str, str]:
        """The units of the budgets that the stage may charge, by their names."""
        if not self.drawn:
            return {LINEAGE: USD} if self.draws_on_lineage else {}
        return {rule.name: rule.unit for rule in self.drawn}

    @property
    def holdable(self) -> dict[str, BudgetRule]:
        """The budgets of which the stage may hold something, by their names."""
        return {rule.name: rule for rule in (*self.drawn, *self.held) if rule.unit in (USD, TOKENS)}

    @property
    def varies(self) -> bool:
        """Whether what the stage may cost depends on the payload."""
        return self._function is not None

    def estimate(self, payload: Any) -> int | None:
        """What the stage may cost at most, for a task with this payload."""
        if self._function is None:
            return self._amount
        return amount_of(self._function(payload), f"the estimate of stage {self.stage!r}")

    def _calls(self, estimate: Any, calls: int) -> int:
        if not isinstance(estimate, int) or isinstance(estimate, bool) or not calls <= estimate <= MOST:
            raise ConfigError(
                f"stage {self.stage!r}: estimate={estimate!r}; for a budget of calls it is a whole number, "
                f"at least the {calls} of the stage"
            )
        return estimate

    def _check(self, estimate: int, unit: str) -> None:
        for rule in self.drawn:
            if rule.unit == unit and estimate > rule.ceiling:
                raise ConfigError(above_limit(self.stage, estimate, rule.name, rule.ceiling, unit))


def _several(given: Any) -> tuple[Any, ...]:
    return () if given is None else tuple(given) if isinstance(given, list | tuple) else (given,)


def _held_rule(stage: str, budget: Any, *, has_source: bool) -> BudgetRule:
    if not isinstance(budget, Budget):
        raise ConfigError(f"stage {stage!r}: holds={shown(budget)}; it is a Budget, or several")
    if budget.unit not in (USD, TOKENS):
        raise ConfigError(f"stage {stage!r} cannot hold {budget.unit} of budget {budget.name!r}: only USD and tokens")
    if budget.scope == "source" and not has_source:
        raise ConfigError(f"stage {stage!r}: budget {budget.name!r} is for each source, and the stage has none")
    return budget.rule


def above_limit(stage: str | None, estimate: int, name: str, ceiling: int, unit: str) -> str:
    """Why a stage could never run."""
    what = f"the estimate of stage {stage!r}" if stage else "its estimate"
    limit = amount_text(ceiling, unit)
    return f"{what}, {amount_text(estimate, unit)}, is above the limit of budget {name!r}, {limit}: it can never run"


def too_little(account: Account, left: int, amount: int) -> str:
    """What is left of a budget, what a task may need of it, and the smallest limit that would do."""
    used = max(account.spent + account.reserved, 0 if account.is_closed else account.ceiling - left)
    said = [amount_text(one, account.unit) for one in (left, account.ceiling, amount, used + amount)]
    return f"{said[0]} of {said[1]} is left, and a task may need {said[2]}; a limit of {said[3]} would do"


class Account(msgspec.Struct, frozen=True, gc=False):
    """What is known of a budget for one scope in one window."""

    name: str
    scope: str
    window_at: int
    unit: str
    ceiling: int
    spent: int = 0
    reserved: int = 0
    ends_at: int | None = None
    is_closed: int = 0
    """Whether a charge above its estimate has closed it, until an operator says otherwise or its window is over."""
    fails: int = 0
    """Whether tasks of its lineage fail when it is spent; for budgets of the code their rule says that."""

    @property
    def key(self) -> AccountKey:
        """How it is found."""
        return (self.name, self.scope, self.window_at)

    @property
    def left(self) -> int:
        """What may still be set aside."""
        return 0 if self.is_closed else max(0, self.ceiling - self.spent - self.reserved)

    def left_at(self, now: int) -> int:
        """What may still be set aside, in this window or in the one that has come after it."""
        return self.ceiling if self.ends_at is not None and self.ends_at <= now else self.left


AccountKey = tuple[str, str, int]
"""The name of a budget, whom it is for, and when the window began."""


class Charge(msgspec.Struct, frozen=True, gc=False):
    """What a stage says it has spent of a budget."""

    budget: str
    amount: int
    unit: str = USD


class Bill(msgspec.Struct, frozen=True, gc=False):
    """What is to be settled with a commit."""

    charges: tuple[Charge, ...] = ()
    frees: bool = False
    """Whether what was set aside and not charged is free again: the stage has come to an end, or has never begun."""
    settlements: tuple[Settlement, ...] = ()
    """What becomes of holds, if the effects of the stage are kept."""

    def charged(self, budget: str) -> int | None:
        """What was charged to a budget, or to that of the lineage with all money; None if nothing was said of it."""
        found = [one.amount for one in self.charges if one.budget == budget or (budget == LINEAGE and one.unit == USD)]
        return sum(found) if found else None

    @property
    def usd(self) -> int:
        """The money among it."""
        return sum(one.amount for one in self.charges if one.unit == USD)


NOT_BEGUN = Bill(frees=True)
"""Of a stage that has never begun."""


class Settled(msgspec.Struct, frozen=True, gc=False):
    """What becomes of what was set aside: so much is spent, and so much of that is above the estimate."""

    spent: int
    above: int = 0


def settled(reserved: int, charged: int | None, *, frees: bool) -> Settled:
    """What becomes of an amount that was set aside when its stage has ended."""
    if charged is None:
        return Settled(0 if frees else reserved)
    return Settled(charged, max(0, charged - reserved))


def wait_of(name: str, scope: str) -> str:
    """What a task waits for that finds a budget spent."""
    return f"{_WAIT}{name}/{scope}" if scope else f"{_WAIT}{name}"


def account_waited_for(waiting_for: str) -> tuple[str, str]:
    """The budget that a task waits for, and for whom."""
    name, _, scope = waiting_for.removeprefix(_WAIT).partition("/")
    return name, scope


def is_budget_wait(waiting_for: str | None) -> bool:
    """Whether a task waits for a budget."""
    return waiting_for is not None and waiting_for.startswith(_WAIT)


def may_fit(amounts: Sequence[int], left: int) -> list[int]:
    """The places of those that fit into what is left together, taken in order."""
    places = []
    for place, amount in enumerate(amounts):
        if amount <= left:
            left -= amount
            places.append(place)
    return places
