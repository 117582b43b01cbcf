"""The command about alerts: what the watches have found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from onceward.cli import target_app
from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.documents import iso
from onceward.cli.exits import BAD_ANSWER, FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Flag, Output, Where
from onceward.cli.target_app import database
from onceward.cli.words import age, time_of
from onceward.harmless import one_line
from onceward.views.alerts import Alert, json_body


@command_line.command(
    sort_key=3.5,
    help_epilogue=example(
        "onceward alerts --db sqlite:///shop.db", "onceward alerts --look --exit-code --app shop.tasks:app"
    ),
)
def alerts(
    *,
    all: Annotated[bool, Flag, Parameter(help="Those that are resolved too.")] = False,
    look: Annotated[
        bool,
        Flag,
        Parameter(help="Look now, before showing them; the watches of an application are looked at with --app."),
    ] = False,
    exit_code: Annotated[bool, Flag, Parameter(help="End with code 1 if there are alerts that last.")] = False,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000), help="How many at most, the newest.")] = 100,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show the alerts that last: what is wrong, since when, with whom, and what to do."""
    with database(where) as app:
        if look:
            app.alerts.look()
        now = target_app.present(app)
        found = app.alerts.list(open_only=not all, limit=limit)
        answer(
            output,
            lambda: {"at": iso(now), "alerts": [{**json_body(one), "told_at": iso(one.told_at)} for one in found]},
            lambda: _screen(found, now, limit),
        )
    return BAD_ANSWER if exit_code and any(one.is_open for one in found) else FINE


def _screen(found: Sequence[Alert], now: datetime, limit: int) -> Iterable[RenderableType]:
    if not found:
        yield Text("no alerts", "dim")
    for alert in found:
        style = "bold yellow" if alert.is_open else "green"
        state = f"for {age(now - alert.raised_at)}" if alert.is_open else f"resolved {time_of(_end(alert), now)}"
        yield Text.assemble((one_line(alert.rule), style), f"  {one_line(alert.subject)}  ", (state, "dim"))
        yield Padding(Text(one_line(alert.sentence)), (0, 0, 0, 2), expand=False)
        if alert.is_open:
            yield Padding(Text(one_line(alert.advice), "dim"), (0, 0, 0, 2), expand=False)
        if alert.tasks:
            yield Padding(Text(f"tasks {', '.join(map(str, alert.tasks))}", "dim"), (0, 0, 0, 2), expand=False)
    if len(found) == limit:
        yield Text(f"the newest {limit}; --limit shows more", "dim")


def _end(alert: Alert) -> datetime:
    return alert.resolved_at or alert.seen_at
