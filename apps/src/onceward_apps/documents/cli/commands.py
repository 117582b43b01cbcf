"""All commands of `onceward-docs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version

from cyclopts import App as CommandLine
from cyclopts import Group, Parameter

from onceward_apps import carrying_out
from onceward_apps.documents.cli import connections, export, ingest, rm, search, show, status, validate
from onceward_apps.documents.cli.speaking import PROGRAM

commands = CommandLine(
    name=PROGRAM,
    help="A searchable library of your books and papers, with the connections between their passages.",
    help_epilogue=(
        "[bold]Example[/bold]\n"
        "  onceward-docs ingest ~/books\n"
        "  onceward-docs search 'the comet of 1812'\n\n"
        "[dim]Exit codes: 0 all is well, 1 the answer is bad, 2 wrong usage, 3 the database cannot be used.[/dim]"
    ),
    help_format="rich",
    version=lambda: version("onceward"),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    group_commands=Group("Commands", sort_key=1),
    default_parameter=Parameter(negative_iterable=""),
)
COMMANDS: tuple[Callable[..., int], ...] = (
    ingest.ingest,
    search.search,
    connections.connections,
    show.show,
    status.status,
    export.export,
    rm.rm,
    validate.validate,
)
"""In the order in which the help shows them."""
for place, command in enumerate(COMMANDS):
    commands.command(command, sort_key=place)


def carried_out(arguments: Sequence[str]) -> int:
    """Carry out a command line; returns its exit code."""
    return carrying_out.carried_out(PROGRAM, lambda: commands, arguments)
