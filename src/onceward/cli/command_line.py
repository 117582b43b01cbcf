"""The command line itself: its name, its help, and how a command shows examples. Commands add themselves to it."""

from __future__ import annotations

from importlib.metadata import version

from cyclopts import App as CommandLine
from cyclopts import Group, Parameter

command_line = CommandLine(
    name="onceward",
    help="A durable task engine: staged work that survives crashes, spawns safely and stays within its limits.",
    help_epilogue=(
        "[bold]Example[/bold]\n"
        "  onceward demo\n\n"
        "[dim]Exit codes: 0 all is well, 1 the answer is bad, 2 wrong usage, 3 the database cannot be used.[/dim]"
    ),
    help_format="rich",
    version=lambda: version("onceward"),
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    group_commands=Group("Commands", sort_key=1),
    default_parameter=Parameter(negative_iterable=""),
)
command_line.register_install_completion_command(name="--install-completion")


def example(*lines: str) -> str:
    """The end of the help of a command: how one calls it."""
    return "[bold]Example[/bold]\n" + "\n".join(f"  {line}" for line in lines)
