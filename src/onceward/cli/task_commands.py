"""The commands about tasks: to see them, and to act on them."""

from __future__ import annotations

import json as json_format
from collections.abc import Iterable
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from onceward import App
from onceward.cli import documents, screens, target_app
from onceward.cli.answers import answer, one_by_one, together
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import FINE
from onceward.cli.many_tasks import act_on_all
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Filter, Flag, Id, Ids, Output, Where, Yes
from onceward.cli.target_app import database
from onceward.cli.words import time_of
from onceward.errors import ConfigError
from onceward.model.status import Status
from onceward.views.task import Task


@command_line.command(
    sort_key=4,
    help_epilogue=example(
        "onceward tasks --db sqlite:///shop.db --status failed --limit 50",
        "onceward tasks --app shop.tasks:app --key 'https://example.com/*'",
        "onceward tasks --lineage 4711 --status failed --db sqlite:///shop.db",
        "onceward tasks --filter 'status:failed error:timeout cost>0.1' --db sqlite:///shop.db",
    ),
)
def tasks(
    *,
    status: Annotated[Status | None, Parameter(help="Only tasks that stand there.")] = None,
    kind: Annotated[str | None, Parameter(help="Only tasks of this kind.")] = None,
    key: Annotated[str | None, Parameter(help="Only tasks with this key; a * at its end stands for anything.")] = None,
    lineage: Annotated[
        str | None, Parameter(help="Only tasks of this lineage: its id, or the number of any task in it.")
    ] = None,
    min_depth: Annotated[
        int | None, Parameter(validator=Number(gte=0), help="Only tasks so many spawns away from their root, or more.")
    ] = None,
    stuck: Annotated[
        bool, Flag, Parameter(help="Only running tasks whose worker has been silent for longer than its lease.")
    ] = False,
    filter: Annotated[
        str | None,
        Parameter(
            allow_leading_hyphen=True,
            help="Only tasks that match: terms like 'status:failed,cancelled kind:page cost>0.1 payload.url~example'.",
        ),
    ] = None,
    cursor: Annotated[
        str | None, Parameter(help="With --filter: go on where a list has ended, as it says there.")
    ] = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000), help="How many at most.")] = 20,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """List tasks, newest first."""
    if filter is not None:
        if stuck or any(one is not None for one in (status, kind, key, lineage, min_depth)):
            raise ConfigError("--filter says all of it: leave out --status, --kind, --key, --lineage and the others")
        with database(where) as app:
            return _filtered(app, filter, cursor, limit, output)
    with database(where) as app:
        now = target_app.present(app)
        within = None if lineage is None else target_app.lineage_named(app, lineage)
        found = app.tasks.list(
            status=status, kind=kind, key=key, lineage=within, min_depth=min_depth, stuck=stuck, limit=limit
        )

        def screen() -> Iterable[Any]:
            if found:
                yield from screens.tasks_screen(found, now, stuck=stuck)
            if len(found) == limit:
                yield Text(f"the newest {limit}; --limit shows more", "dim")
            elif not found:
                yield Text("no task is stuck" if stuck else "no such task", "dim")

        answer(output, lambda: {"tasks": [documents.task_document(task, now) for task in found]}, screen)
    return FINE


def _filtered(app: App, wanted: str, cursor: str | None, limit: int, output: Output) -> int:
    """List the tasks that match a filter, with how many there are."""
    now = target_app.present(app)
    found: list[Task] = []
    page = app.tasks.search(wanted, cursor, limit)
    found += page.tasks
    while page.next is not None and page.is_whole and len(found) < limit:
        page = app.tasks.search(wanted, page.next, limit - len(found))
        found += page.tasks
    count = app.tasks.count(wanted)

    def screen() -> Iterable[Any]:
        if found:
            yield from screens.tasks_screen(found, now)
        yield Text(f"{len(found):,} of {count} that match" if found else "no task matches", "dim")
        if page.searched_back_to is not None:
            yield Text(f"searched back to {time_of(page.searched_back_to, now)}", "dim")
        if page.next is not None:
            yield Text(f"--cursor {page.next} goes on", "dim")

    answer(
        output,
        lambda: {
            "tasks": [documents.task_document(task, now) for task in found],
            "count": count.n,
            "count_is_exact": count.is_exact,
            "next": page.next,
            "searched_back_to": documents.iso(page.searched_back_to),
        },
        screen,
    )
    return FINE


@command_line.command(sort_key=5, help_epilogue=example("onceward task 4711 --app shop.tasks:app"))
def task(
    task_id: Annotated[Id, Parameter(name="ID", help="The number of the task.")],
    /,
    *,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Show everything about one task: its fields, its stages and their results, its history."""
    with database(where) as app:
        found = app.tasks.get(task_id)
        pipeline = app._registry[found.kind] if found.kind in app._registry.kinds else None
        facts = (found, target_app.stored_payload(app, task_id), pipeline, target_app.present(app))
        answer(output, lambda: documents.whole_task_document(*facts), lambda: screens.task_screen(*facts))
    return FINE


@command_line.command(
    sort_key=6,
    help_epilogue=example(
        "onceward retry 4711 4712 --db sqlite:///shop.db",
        "onceward retry 4711 --from-stage price --app shop.tasks:app",
        "onceward retry --lineage 4711 --db sqlite:///shop.db",
        "onceward retry --filter 'kind:page error:timeout' --db sqlite:///shop.db",
    ),
)
def retry(
    ids: Ids = (),
    /,
    *,
    lineage: Annotated[
        str | None,
        Parameter(help="All failed tasks of this lineage; of a part of it, if this is the number of a task in it."),
    ] = None,
    filter: Filter = None,
    yes: Yes = False,
    fresh: Annotated[bool, Flag, Parameter(help="Forget all finished stages and begin again.")] = False,
    from_stage: Annotated[
        str | None, Parameter(help="Forget this stage and those after it; needs --app, which knows their order.")
    ] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Open ended tasks again. Finished stages are kept and not run again, unless you say so."""
    if fresh and from_stage is not None:
        raise ConfigError("give --fresh or --from-stage, not both")
    _one_of(ids, lineage, filter)
    if not ids and (fresh or from_stage is not None):
        raise ConfigError(
            "--lineage and --filter keep finished stages; give the numbers of the tasks that are to forget them"
        )
    with database(where) as app:
        if filter is not None:
            return act_on_all(app, output, "retry", filter, yes=yes)
        if lineage is not None:
            retried = app.lineages.retry(lineage)
            return together(output, "retried", retried.tasks, "nothing of it has failed", retried.refused)
        if from_stage is not None and not app._registry.kinds:
            raise ConfigError("--from-stage needs the code, which knows the order of the stages: give --app module:app")
        return one_by_one(output, "retried", ids, lambda one: app.tasks.retry(one, fresh=fresh, stage=from_stage))


@command_line.command(
    sort_key=7,
    help_epilogue=example(
        "onceward cancel 4711 --reason 'sold out' --db sqlite:///shop.db",
        "onceward cancel --lineage 4711 --db sqlite:///shop.db",
        "onceward cancel --filter 'kind:page created>7d' --yes --db sqlite:///shop.db",
    ),
)
def cancel(
    ids: Ids = (),
    /,
    *,
    lineage: Annotated[
        str | None,
        Parameter(help="All open tasks of this lineage; of a part of it, if this is the number of a task in it."),
    ] = None,
    filter: Filter = None,
    yes: Yes = False,
    reason: Annotated[str, Parameter(help="Why, kept with the task.")] = "cancelled by an operator",
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Cancel tasks that have not ended. After this nothing of them is written any more, also if they are running."""
    _one_of(ids, lineage, filter)
    with database(where) as app:
        if filter is not None:
            return act_on_all(app, output, "cancel", filter, yes=yes, reason=reason)
        if lineage is not None:
            return together(output, "cancelled", app.lineages.cancel(lineage, reason), "nothing of it is open")
        return one_by_one(output, "cancelled", ids, lambda one: app.tasks.cancel(one, reason))


def _one_of(ids: Iterable[int], lineage: str | None, filter: str | None) -> None:
    given = bool(ids) + (lineage is not None) + (filter is not None)
    if given != 1:
        raise ConfigError(f"give the numbers of tasks, --lineage or --filter{', one of them' if given else ''}")


@command_line.command(
    sort_key=8,
    help_epilogue=example(
        "onceward signal 4711 approved --db sqlite:///shop.db",
        """onceward signal 4711 price '{"cents": 990}' --db sqlite:///shop.db""",
    ),
)
def signal(
    task_id: Annotated[Id, Parameter(name="ID", help="The number of the task.")],
    name: Annotated[str, Parameter(name="NAME", help="The name of the signal.")],
    value: Annotated[
        str | None,
        Parameter(
            name="VALUE",
            allow_leading_hyphen=True,
            help="A value in JSON, true by default; what is not JSON is taken as text.",
        ),
    ] = None,
    /,
    *,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Send a signal to a task, before or while it waits for it."""
    meant = True if value is None else _as_json_or_text(value)
    with database(where) as app:
        app.tasks.signal(task_id, name, meant)
        answer(
            output,
            lambda: {"task": task_id, "signal": name, "value": meant},
            lambda: [Text(f"task {task_id} has the signal {name}")],
        )
    return FINE


def _as_json_or_text(text: str) -> Any:
    try:
        return json_format.loads(text)
    except ValueError:
        return text
