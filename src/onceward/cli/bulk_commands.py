"""The command about actions on many tasks: to see them, to stop one, to carry one on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import FINE
from onceward.cli.many_tasks import Progress, bulk_document, sentence_of
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Output, Where
from onceward.cli.tables import table
from onceward.cli.target_app import database
from onceward.errors import ConfigError
from onceward.operations.bulk import BulkStatus


@command_line.command(
    sort_key=7.5,
    help_epilogue=example(
        "onceward bulk list --db sqlite:///shop.db",
        "onceward bulk stop 3 --db sqlite:///shop.db",
        "onceward bulk go-on 3 --app shop.tasks:app",
    ),
)
def bulk(
    action: Annotated[
        Literal["list", "show", "stop", "go-on"], Parameter(name="ACTION", help="list, show, stop or go-on.")
    ],
    id: Annotated[
        int | None,
        Parameter(name="ID", validator=Number(gte=1, lt=2**63), help="The number of the action on many tasks."),
    ] = None,
    /,
    *,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000), help="With list: how many at most.")] = 20,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show actions on many tasks, stop one, or carry one on here. Workers carry them on, too.

    They begin with retry, cancel and approve --filter, and on the dashboard.
    """
    if (id is None) != (action == "list"):
        raise ConfigError("list takes no number" if action == "list" else f"which one? onceward bulk {action} ID")
    with database(where) as app:
        if id is None:
            found = app.bulk.list(limit)
            answer(output, lambda: {"bulk": [bulk_document(one) for one in found]}, lambda: _screen(found))
            return FINE
        if action == "stop":
            status = app.bulk.stop(id)
        elif action == "go-on":
            shown = Progress()
            try:
                status = app.bulk.carry_on(id, shown.show)
            finally:
                shown.end()
        else:
            status = app.bulk.get(id)
        answer(output, lambda: bulk_document(status), lambda: [sentence_of(status)])
    return FINE


def _screen(found: Sequence[BulkStatus]) -> Iterable[Any]:
    if not found:
        yield Text("nothing was done to many tasks yet", "dim")
        return
    yield table(
        ("id", "action", "state", "done", "left alone", "of", "by", "filter"), map(_row, found), right=("id", "done")
    )


def _row(one: BulkStatus) -> tuple[str, ...]:
    return (
        str(one.id),
        one.action,
        one.state,
        f"{one.done:,}",
        f"{one.left_alone:,}",
        str(one.expected),
        one.author,
        one.filter,
    )
