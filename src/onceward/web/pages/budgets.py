"""The budgets: what is spent, set aside and left of each, how one has gone, and another limit."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from onceward.operations.budgets import BudgetStatus
from onceward.web.answers import Done, Page
from onceward.web.burn_down import burn_down
from onceward.web.roles import Role
from onceward.web.route import Answer, Route, action, page
from onceward.web.stages import first_stage
from onceward.web.view import View

MOST = 200
UNITS = {"usd": "USD"}
NEARLY = Decimal("0.8")
ALL_BUT = Decimal("0.98")


def stands(one: BudgetStatus) -> tuple[str, str]:
    """Return the mark of a budget and how it stands, in few words."""
    if one.is_closed:
        return "failed", "closed"
    taken = (one.spent + one.reserved) / one.limit if one.limit else Decimal(1)
    if taken >= ALL_BUT or (one.waiting and not one.left):
        return "failed", "all but spent"
    if one.waiting:
        return "waiting", "too little left"
    if taken >= NEARLY:
        return "warning", f"{100 * taken:.0f}% spent"
    return "succeeded", "open"


def whom(one: BudgetStatus) -> str:
    """Say for whom a budget is, and how long its window lasts: the app, USD a day."""
    return f"{scope(one)}, {per(one)}"


def scope(one: BudgetStatus) -> str:
    """Say for whom a budget is: the app, a lineage, a pipeline."""
    return "the app" if not one.scope else f"lineage {one.scope}" if one.name == "lineage" else one.scope


def per(one: BudgetStatus) -> str:
    """Say what a budget counts, and in which time: USD a day."""
    return f"{unit_of(one)} {({'total': 'in all', 'hour': 'an hour'}).get(one.per, 'a day')}"


def unit_of(one: BudgetStatus) -> str:
    """Write the unit of a budget."""
    return UNITS.get(one.unit, one.unit)


def amount(one: BudgetStatus, value: Decimal, *, is_limit: bool = False) -> str:
    """Write an amount of a budget: money with four decimals, a limit with two, everything else as a count."""
    if one.unit == "usd":
        return f"{value:,.2f}" if is_limit and value == value.quantize(Decimal("0.01")) else f"{value:,.4f}"
    return f"{value:,.0f}" if value == value.to_integral_value() else f"{value:,.2f}"


async def show(view: View) -> Answer:
    """Show all budgets, and how one of them has gone."""
    app, query = view.app, view.query
    found = await app.budgets.alist(limit=MOST)
    found.sort(key=_urgency)
    chosen = next(
        (one for one in found if one.name == query.get("name") and one.scope == query.get("scope", "")),
        found[0] if found else None,
    )
    values: dict[str, Any] = {
        "budgets": [(one, *stands(one)) for one in found],
        "chosen": chosen,
        "whom": whom,
        "scope": scope,
        "per": per,
        "first_stage": partial(first_stage, view.app),
        "unit_of": unit_of,
        "amount": amount,
        "most": MOST,
    }
    if chosen is not None:
        points = await app.budgets.ahistory(chosen.name) if not chosen.scope else []
        holds = await app.budgets.aholds(chosen.name, limit=50)
        values |= {
            "chart": burn_down(points, chosen, view.now),
            "holds": [one for one in holds if one.scope == chosen.scope],
            "changes": [one for one in await app.budgets.achanges(chosen.name) if one.scope in (chosen.scope, "*")],
            "set_aside": await app.budgets.aset_aside(chosen.name, scope=chosen.scope, limit=20),
            "suggested": _suggested(chosen),
        }
    return Page("budgets.html", values, "Budgets", "budgets")


def _urgency(one: BudgetStatus) -> tuple[object, ...]:
    """The order of the list: those of the app first, and of them those with the least left."""
    taken = (one.spent + one.reserved) / one.limit if one.limit else Decimal(1)
    return (bool(one.scope), not one.is_closed, -one.waiting, -round(taken, 3), one.name, one.scope)


def _suggested(one: BudgetStatus) -> str:
    return f"{(one.limit * 2).normalize():f}"


async def set_limit(view: View) -> Answer:
    """Give a budget another limit, from its present window on."""
    form = await view.form()
    name, whose, limit = form.get("name", ""), form.get("scope", ""), form.get("limit", "").strip()
    await view.app.budgets.aset_limit(name, limit, scope=whose or None, author=view.caller.name)
    flag = f" --scope {quote(whose)}" if whose else ""
    said = f"The limit of {name} is now {limit}; tasks that wait for it and now fit are woken."
    return Done(
        said,
        f"/budgets?{urlencode({'name': name, 'scope': whose})}",
        1,
        f"onceward budgets {quote(name)} --limit {quote(limit)}{flag}",
    )


ROUTES: list[Route] = [
    page("/budgets", show),
    action("/budgets/limit", set_limit, "Give a budget another limit, from its present window on.", role=Role.ADMIN),
]
