"""The commands about a database as a whole: how things stand in it, whether they are right, its schema, its size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import Parameter
from rich.text import Text

from onceward.cli import documents, screens, target_app
from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import BAD_ANSWER, FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Output, Where
from onceward.cli.target_app import database


@command_line.command(sort_key=3, help_epilogue=example("onceward status --db sqlite:///shop.db"))
def status(*, where: Where = ANY_PLACE, output: Output = NOTHING_SAID) -> int:
    """Show how things stand: tasks by status, the backlog, the living workers."""
    with database(where) as app:
        counts, backlog, workers = app.stats.counts(), app.stats.backlog(), app.workers.list()
        facts = (target_app.place_of(app), counts, backlog, workers, target_app.present(app))
        answer(output, lambda: documents.status_document(*facts), lambda: screens.status_screen(*facts))
    return FINE


@command_line.command(sort_key=9, help_epilogue=example("onceward verify --db postgresql://localhost/shop"))
def verify(*, where: Where = ANY_PLACE, output: Output = NOTHING_SAID) -> int:
    """Check that every promise of the engine is true of the database, now, while it is in use.

    Nothing is written. The exit code is 1 if a promise is broken.
    """
    with database(where) as app:
        report = app.verify()
        place = target_app.place_of(app)
        answer(output, lambda: documents.report_document(place, report), lambda: screens.report_screen(report))
    return FINE if report.ok else BAD_ANSWER


@command_line.command(
    sort_key=10,
    help_epilogue=example(
        "onceward migrate --db postgresql://localhost/shop",
        "onceward migrate --app shop.tasks:app",
    ),
)
def migrate(*, where: Where = ANY_PLACE, output: Output = NOTHING_SAID) -> int:
    """Bring a database up to date, or make a new one; with --app the application's own tables too."""
    with database(where, may_create=True) as app:
        applied = app.migrate()
        place = target_app.place_of(app)

        def screen() -> Iterable[Any]:
            for step in applied:
                yield Text.assemble(("applied ", "green"), step)
            if not applied:
                yield Text("nothing to do: the database is up to date")

        answer(output, lambda: {"database": place, "applied": applied}, screen)
    return FINE


@command_line.command(sort_key=11, help_epilogue=example("onceward prune --older-than 30d --db sqlite:///shop.db"))
def prune(
    *,
    older_than: Annotated[
        str | None, Parameter(help="How long ago they have ended, like 12h or 30d; by default as configured, 30d.")
    ] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Delete ended tasks that are older than that, with all that belongs to them."""
    with database(where) as app:
        pruned = app.tasks.prune(older_than)
        facts = asdict(pruned)

        def screen() -> Iterable[Any]:
            told = ", ".join(f"{count:,} {name}" for name, count in facts.items() if count)
            yield Text(f"deleted {told}" if told else "nothing was old enough to be deleted")

        answer(output, lambda: facts, screen)
    return FINE
