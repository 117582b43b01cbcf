"""The command about budgets: what was spent and what is left, and a new limit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from onceward.cli import target_app
from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.documents import Document, iso
from onceward.cli.exits import FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Output, Where
from onceward.cli.tables import table
from onceward.cli.target_app import database
from onceward.cli.words import age
from onceward.errors import BudgetNotFound, ConfigError
from onceward.harmless import one_line
from onceward.operations.budgets import BudgetStatus, HoldStatus


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
            app.budgets.set_limit(name, limit, scope=scope, author=author)
        now = target_app.present(app)
        found = [one for one in app.budgets.list(name) if scope in (None, one.scope)]
        if name is not None and not found and limit is None and name not in app._registry.budgets:
            raise BudgetNotFound(name, list(app._registry.budgets))
        held = [one for one in app.budgets.holds(name) if scope in (None, one.scope)]
        answer(
            output,
            lambda: {"budgets": [_document(one) for one in found], "holds": [_hold_document(one) for one in held]},
            lambda: _screen(found, held, now),
        )
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
        "held": float(one.held),
        "left": float(one.left),
        "window_at": iso(one.window_at),
        "resets_at": iso(one.resets_at),
        "waiting": one.waiting,
        "closed": one.is_closed,
    }


def _hold_document(one: HoldStatus) -> Document:
    return {
        "task": one.task,
        "kind": one.kind,
        "name": one.name,
        "budget": one.budget,
        "scope": one.scope,
        "amount": float(one.amount),
        "state": one.state,
        "since": iso(one.since),
    }


def _screen(found: Sequence[BudgetStatus], held: Sequence[HoldStatus], now: datetime) -> Iterable[Any]:
    yield _table(found, now) if found else Text("no budget was drawn from yet", "dim")
    if held:
        yield Text("")
        yield _holds(held, now)


def _holds(held: Sequence[HoldStatus], now: datetime) -> Table:
    """What tasks hold beyond their stages."""
    return table(
        ("held as", "by task", "kind", "budget", "amount", "state", "since"),
        (
            (
                one_line(one.name),
                str(one.task),
                one_line(one.kind or "gone"),
                one_line(one.budget),
                _number(one.amount),
                Text(one.state, "" if one.state == "held" else "yellow"),
                f"{age(now - one.since)} ago",
            )
            for one in held
        ),
        right=("by task", "amount"),
        cut=("held as", "budget"),
        first_out=("since", "kind"),
    )


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
        cut=("for", "name"),
        first_out=("unit", "reserved", "begins anew"),
    )


def _number(amount: Decimal) -> str:
    return f"{amount:,f}"


def _left(one: BudgetStatus) -> Text:
    if one.is_closed:
        return Text("closed", "bold red")
    return Text(_number(one.left), "" if one.left else "bold red")
