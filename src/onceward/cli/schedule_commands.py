"""The command about schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from onceward.cli import target_app
from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.documents import Document, iso
from onceward.cli.exits import BAD_ANSWER, FINE, complain
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Output, Where
from onceward.cli.tables import table
from onceward.cli.target_app import database
from onceward.cli.words import age, time_of
from onceward.errors import ConfigError
from onceward.harmless import one_line
from onceward.operations.schedules import ScheduleStatus


@command_line.command(
    sort_key=8.2,
    help_epilogue=example(
        "onceward schedules --db sqlite:///shop.db",
        "onceward schedules --pause nightly --db sqlite:///shop.db",
        "onceward schedules --run-now nightly --app shop.tasks:app",
    ),
)
def schedules(
    *,
    pause: Annotated[str | None, Parameter(help="Let this one fire no more before it is resumed.")] = None,
    resume: Annotated[
        str | None, Parameter(help="Let this one go on; the times in between count as missed, and are treated so.")
    ] = None,
    run_now: Annotated[
        str | None, Parameter(help="Enqueue the work of this one now; needs --app, which knows what that is.")
    ] = None,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """List schedules: when each fires next and has fired last. Or pause, resume or run one of them, by its name."""
    if sum(name is not None for name in (pause, resume, run_now)) > 1:
        raise ConfigError("give one of --pause, --resume and --run-now, not several")
    with database(where) as app:
        if pause is not None:
            app.schedules.pause(pause)
            answer(output, lambda: {"paused": pause}, lambda: [_done("paused", pause)])
        elif resume is not None:
            app.schedules.resume(resume)
            answer(output, lambda: {"resumed": resume}, lambda: [_done("resumed", resume)])
        elif run_now is not None:
            if not app._registry.kinds:
                raise ConfigError("--run-now needs the code, which knows what is to be enqueued: give --app module:app")
            begun = app.schedules.run_now(run_now)
            told = f"task {begun.task}{'' if begun.created else ', which was there already'}"
            answer(
                output,
                lambda: {"schedule": run_now, "task": begun.task, "created": begun.created, "reason": begun.reason},
                lambda: [Text.assemble(("enqueued ", "green"), told)] if begun else [],
            )
            if not begun:
                complain(f"nothing was enqueued: {begun.reason}")
                return BAD_ANSWER
        else:
            now = target_app.present(app)
            found = app.schedules.list()
            answer(output, lambda: {"schedules": [_document(one) for one in found]}, lambda: _screen(found, now))
    return FINE


def _document(one: ScheduleStatus) -> Document:
    return {
        "name": one.name,
        "kind": one.kind,
        "expression": one.expression,
        "tz": one.tz,
        "missed": one.missed,
        "next_at": iso(one.next_at),
        "last_at": iso(one.last_at),
        "last_task": one.last_task,
        "fired": one.fired,
        "paused": one.paused,
    }


def _screen(found: Sequence[ScheduleStatus], now: datetime) -> Iterable[Any]:
    if found:
        yield _table(found, now)
    else:
        yield Text("no schedule", "dim")


def _table(found: Sequence[ScheduleStatus], now: datetime) -> Table:
    return table(
        ("name", "kind", "times", "tz", "missed", "next", "last", "task", "fired"),
        (
            (
                one_line(one.name),
                one.kind,
                one.expression,
                one.tz,
                one.missed,
                _next(one, now),
                "" if one.last_at is None else time_of(one.last_at, now),
                "" if one.last_task is None else str(one.last_task),
                f"{one.fired:,}",
            )
            for one in found
        ),
        right=("task", "fired"),
        cut=("name", "kind"),
        first_out=("missed", "task", "tz", "fired"),
    )


def _next(one: ScheduleStatus, now: datetime) -> Text:
    if one.paused:
        return Text("paused", "magenta")
    if one.next_at <= now:
        return Text(f"due since {age(now - one.next_at)}", "yellow")
    return Text(f"in {age(one.next_at - now)}")


def _done(word: str, name: str) -> Text:
    return Text.assemble((f"{word} ", "green"), one_line(name))
