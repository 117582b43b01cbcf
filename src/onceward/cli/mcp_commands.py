"""The command that serves an app to an assistant."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Annotated

from cyclopts import Parameter

from onceward.cli.command_line import command_line, example
from onceward.cli.exits import FINE
from onceward.cli.options import ANY_PLACE, Debug, Flag, Where
from onceward.cli.target_app import database, place_named


@command_line.command(
    sort_key=2.6,
    help_epilogue=example(
        "onceward mcp shop.tasks:app",
        "onceward mcp shop.tasks:app --allow-actions",
        "onceward mcp --db sqlite:///shop.db",
    ),
)
def mcp(
    app: Annotated[
        str | None, Parameter(name="APP", help="The app, as module:app or path/to/file.py:app. Or give --db.")
    ] = None,
    /,
    *,
    allow_actions: Annotated[
        bool, Flag, Parameter(help="Also offer retry, cancel, approve, signal, pause and resume, each with a preview.")
    ] = False,
    where: Where = ANY_PLACE,
    debug: Debug = False,
) -> int:
    """Serve an assistant on the standard streams, by the Model Context Protocol. Read-only by default."""
    from onceward.mcp.server import serve, stdout_kept_free

    with ExitStack() as until_the_end:
        with stdout_kept_free():  # what a module prints while it is imported is no answer
            opened = until_the_end.enter_context(database(place_named(app, where)))
        serve(opened, allow_actions=allow_actions)
    return FINE
