"""The command that shows a live view of a database in a terminal."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from onceward.cli.command_line import command_line, example
from onceward.cli.exits import FINE
from onceward.cli.options import ANY_PLACE, Debug, Where
from onceward.cli.target_app import database, place_named, place_of
from onceward.errors import ConfigError
from onceward.model.times import milliseconds


@command_line.command(
    sort_key=3.1, help_epilogue=example("onceward top shop.tasks:app", "onceward top --db sqlite:///shop.db --every 5s")
)
def top(
    app: Annotated[
        str | None, Parameter(name="APP", help="The app, as module:app or path/to/file.py:app. Or give --db.")
    ] = None,
    /,
    *,
    every: Annotated[str, Parameter(help="How often it looks; a large database is looked at less often.")] = "2s",
    where: Where = ANY_PLACE,
    debug: Debug = False,
) -> int:
    """Watch a database live in a terminal: health, pipelines, workers, sources, budgets, failures, open tasks."""
    from onceward.top.screen import run

    every_ms = milliseconds(every)
    if every_ms < 100:
        raise ConfigError(f"--every {every}: it is 100ms at least")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("top needs a terminal; onceward status --json answers programs")
    with database(place_named(app, where)) as found:
        run(found, every_s=every_ms / 1_000, place=place_of(found).rpartition("/")[2])
    return FINE
