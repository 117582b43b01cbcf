"""The command about budgets: what was spent and what is left, and a new limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from onceward.budgeting import BudgetStatus
from onceward.cli import asking
from onceward.cli.answers import answer
from onceward.cli.asking import database
from onceward.cli.command_line import command_line, example
from onceward.cli.documents import Document, iso
from onceward.cli.exits import FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Output, Where
from onceward.cli.screens import table
from onceward.cli.words import age, one_line
from onceward.errors import BudgetNotFound, ConfigError


@command_line.command(
    sort_key=8.6,
    help_epilogue=example(
        "onceward budgets --app shop.tasks:app",
        "onceward budgets model-usd --limit 20 --db sqlite:///shop.db",
        "onceward budgets lineage --limit 7.50 --scope 01983f5e-… --db sqlite:///shop.db",
    ),
)
def budgets(
    name: Annotated[str | None, Parameter(name="NAME", help="One budget; all of them without it.")] = None,
    /,
    *,
    limit: Annotated[
        str | None, Parameter(help="Give it this limit, from its present window on; tasks that now fit are woken.")
    ] = None,
    scope: Annotated[
        str | None, Parameter(help="Only for this pipeline, source, lineage or batch; for everybody without it.")
    ] = None,
    author: Annotated[str | None, Parameter(help="Who does this; by default the user.")] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """List budgets: what was spent, what is set aside and what is left, and how many tasks wait. Or change a limit."""
    if limit is None and author is not None:
        raise ConfigError("--author says who changes a limit: give --limit")
    if limit is not None and name is None:
        raise ConfigError("--limit is for one budget: give its name")
    with database(where) as app:
        if limit is not None and name is not None:
            app.raise_budget(name, limit, scope=scope, author=author)
        now = asking.present(app)
        found = [one for one in app.budgets(name) if scope in (None, one.scope)]
        if name is not None and not found and limit is None and name not in app.registry.budgets:
            raise BudgetNotFound(name, list(app.registry.budgets))
        answer(output, lambda: {"budgets": [_document(one) for one in found]}, lambda: _screen(found, now))
    return FINE


def _document(one: BudgetStatus) -> Document:
    return {
        "name": one.name,
        "scope": one.scope,
        "unit": one.unit,
        "per": one.per,
        "limit": float(one.limit),
        "spent": float(one.spent),
        "reserved": float(one.reserved),
        "left": float(one.left),
        "window_at": iso(one.window_at),
        "resets_at": iso(one.resets_at),
        "waiting": one.waiting,
        "closed": one.is_closed,
    }


def _screen(found: Sequence[BudgetStatus], now: datetime) -> Iterable[Any]:
    yield _table(found, now) if found else Text("no budget was drawn from yet", "dim")


def _table(found: Sequence[BudgetStatus], now: datetime) -> Table:
    return table(
        ("name", "for", "unit", "limit", "spent", "reserved", "left", "begins anew", "waiting"),
        (
            (
                one_line(one.name),
                one_line(one.scope) or "the app",
                one.unit,
                _number(one.limit),
                _number(one.spent),
                _number(one.reserved),
                _left(one),
                "never" if one.resets_at is None else f"in {age(one.resets_at - now)}",
                Text(f"{one.waiting:,}", "yellow" if one.waiting else "dim"),
            )
            for one in found
        ),
        right=("limit", "spent", "reserved", "left", "waiting"),
        cut=("for",),
    )


def _number(amount: Decimal) -> str:
    return f"{amount:,f}"


def _left(one: BudgetStatus) -> Text:
    if one.is_closed:
        return Text("closed", "bold red")
    return Text(_number(one.left), "" if one.left else "bold red")
