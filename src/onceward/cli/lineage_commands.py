"""The commands about lineages, and about what holds a task back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from onceward.cli import lineage_documents as documents
from onceward.cli import lineage_screens as screens
from onceward.cli import target_app
from onceward.cli.answers import answer, one_by_one
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import FINE
from onceward.cli.many_tasks import act_on_all
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Filter, Flag, Id, Ids, Output, Where, Yes
from onceward.cli.target_app import database
from onceward.errors import ConfigError
from onceward.model.lineage import Limits

LineageId = Annotated[
    str, Parameter(name="ID", help="The id of a lineage, or the number of a task: that task and all below it.")
]


@command_line.command(
    sort_key=5.1,
    help_epilogue=example(
        "onceward lineage 4711 --db sqlite:///shop.db",
        "onceward lineage 019a3f0e-52a1-7c50-9d1c-0d6f4b1c2a77 --json --db sqlite:///shop.db",
    ),
)
def lineage(
    id: Annotated[str, Parameter(name="ID", help="The id of a lineage, or the number of any task in it.")],
    /,
    *,
    subtree: Annotated[bool, Flag, Parameter(help="Only that task and what descends from it.")] = False,
    limit: Annotated[
        int, Parameter(validator=Number(gte=1, lte=1_000_000), help="How many tasks at most, the oldest.")
    ] = 200,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show a lineage as a tree: statuses, attempts, and what was refused, where, and why."""
    with database(where) as app:
        now = target_app.present(app)
        found = app.lineages.get(id, subtree=subtree, limit=limit)
        answer(output, lambda: documents.lineage_document(found), lambda: screens.lineage_screen(found, now))
    return FINE


@command_line.command(sort_key=5.2, help_epilogue=example("onceward lineages --largest --db sqlite:///shop.db"))
def lineages(
    *,
    largest: Annotated[bool, Flag, Parameter(help="The largest first, not the newest.")] = False,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000), help="How many at most.")] = 20,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """List lineages, newest first: those whose root has spawned, or was given limits of its own."""
    with database(where) as app:
        now = target_app.present(app)
        found = app.lineages.list(limit, largest=largest)

        def screen() -> Iterable[Any]:
            if found:
                yield from screens.lineages_screen(found, now)
            if len(found) == limit:
                yield Text(f"the {'largest' if largest else 'newest'} {limit}; --limit shows more", "dim")
            elif not found:
                yield Text("no task has spawned another yet", "dim")

        answer(output, lambda: {"lineages": [documents.summary_document(one) for one in found]}, screen)
    return FINE


@command_line.command(sort_key=5.3, help_epilogue=example("onceward why 4711 --db sqlite:///shop.db"))
def why(
    task_id: Annotated[Id, Parameter(name="ID", help="The number of the task.")],
    /,
    *,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Say why a task is not running, and until when, where that is known."""
    with database(where) as app:
        now = target_app.present(app)
        found = app.why(task_id)
        answer(output, lambda: documents.why_document(found), lambda: screens.why_screen(found, now))
    return FINE


@command_line.command(
    sort_key=7.3,
    help_epilogue=example(
        "onceward limits 4711 --db sqlite:///shop.db",
        "onceward limits 4711 --max-tasks 50000 --deadline 4d --db sqlite:///shop.db",
    ),
)
def limits(
    id: LineageId,
    /,
    *,
    max_tasks: Annotated[int | None, Parameter(help="How many tasks it may have, with its root.")] = None,
    max_depth: Annotated[int | None, Parameter(help="How deep it may grow; the root has depth 0.")] = None,
    max_children: Annotated[int | None, Parameter(help="How many children one task may have.")] = None,
    deadline: Annotated[
        str | None, Parameter(help="How long after the enqueue of its root it may spawn, like 12h or 4d.")
    ] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show the limits of a lineage or a part of it, or raise them, which only an operator can."""
    with database(where) as app:
        now_has = app.lineages.raise_limits(id, Limits(max_depth, max_tasks, max_children, deadline))
        answer(
            output,
            lambda: documents.limits_document(now_has),
            lambda: screens.limits_screen(f"{'task' if id.isdecimal() else 'lineage'} {id}", now_has),
        )
    return FINE


@command_line.command(
    sort_key=8.1,
    help_epilogue=example(
        "onceward approve 4711 --db sqlite:///shop.db",
        "onceward approve --filter 'kind:page parent:4711' --yes --db sqlite:///shop.db",
    ),
)
def approve(
    ids: Ids = (),
    /,
    *,
    filter: Filter = None,
    yes: Yes = False,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Approve tasks that wait for it: sends them the signal "approved"."""
    if bool(ids) == (filter is not None):
        raise ConfigError("give the numbers of tasks, or --filter" + (", not both" if ids else ""))
    with database(where) as app:
        if filter is not None:
            return act_on_all(app, output, "approve", filter, yes=yes)
        return one_by_one(output, "approved", ids, app.tasks.approve)
