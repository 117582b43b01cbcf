"""All commands of `onceward-docs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version

from cyclopts import App as CommandLine
from cyclopts import Group, Parameter

from onceward_apps import carrying_out
from onceward_apps.documents.cli import connections, export, ingest, rm, search, show, status, validate
from onceward_apps.documents.cli.speaking import PROGRAM
from onceward_apps.speaking import epilogue

commands = CommandLine(
    name=PROGRAM,
    help="A searchable library of your books and papers, with the connections between their passages.",
    help_epilogue=epilogue("onceward-docs ingest ~/books", "onceward-docs search 'the comet of 1812'"),
    help_format="rich",
    version=lambda: version("onceward"),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    group_commands=Group("Commands", sort_key=1),
    default_parameter=Parameter(negative_iterable=""),
)
COMMANDS: tuple[tuple[Callable[..., int], tuple[str, ...]], ...] = (
    (ingest.ingest, ("ingest ~/books 'notes/*.md'", "ingest ~/books --follow-links --processes 4")),
    (search.search, ("search 'the comet of 1812'",)),
    (connections.connections, ("connections", "connections war-and-peace.epub")),
    (show.show, ("show war-and-peace.epub", "show war-and-peace.epub --passages")),
    (status.status, ("status", "status war-and-peace.epub --json")),
    (export.export, ("export --all --format html > library.html", "export war-and-peace.epub --format jsonl")),
    (rm.rm, ("rm war-and-peace.epub",)),
    (validate.validate, ("validate",)),
)
"""In the order in which the help shows them, each with its examples."""
for place, (command, examples) in enumerate(COMMANDS):
    shown = epilogue(*(f"{PROGRAM} {example}" for example in examples))
    commands.command(command, sort_key=place, help_epilogue=shown)


def carried_out(arguments: Sequence[str]) -> int:
    """Carry out a command line; returns its exit code."""
    return carrying_out.carried_out(PROGRAM, lambda: commands, arguments)
