"""All commands of `onceward-jobs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version

from cyclopts import App as CommandLine
from cyclopts import Group, Parameter

from onceward_apps import carrying_out
from onceward_apps.jobfinder.cli.speaking import PROGRAM


def command_line() -> CommandLine:
    """The whole command line. What stands behind it is loaded here, so that a bad profile is an error like others."""
    from onceward_apps.jobfinder.cli import adding, deciding, demo, looking, running, setting_up, sources, telling

    made = CommandLine(
        name=PROGRAM,
        help="Finds jobs for you: looks at companies, reads their job boards, and ranks what fits, with why.",
        help_epilogue=(
            "[bold]Example[/bold]\n"
            "  onceward-jobs init\n"
            "  onceward-jobs add companies.csv https://example.com\n"
            "  onceward-jobs run\n"
            "  onceward-jobs matches\n\n"
            "[dim]Exit codes: 0 all is well, 1 the answer is bad, 2 wrong usage, 3 the database cannot be used.[/dim]"
        ),
        help_format="rich",
        version=lambda: version("onceward"),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        group_commands=Group("Commands", sort_key=1),
        default_parameter=Parameter(negative_iterable=""),
    )
    every: tuple[Callable[..., int], ...] = (
        setting_up.init,
        adding.add,
        running.run,
        looking.matches,
        telling.explain,
        deciding.applied,
        deciding.not_for_me,
        deciding.hide,
        looking.companies,
        sources.sources,
        sources.approve,
        telling.export,
        telling.report,
        demo.demo,
    )
    for place, command in enumerate(every):
        made.command(command, sort_key=place)
    return made


def carried_out(arguments: Sequence[str]) -> int:
    """Carry out a command line; returns its exit code."""
    return carrying_out.carried_out(PROGRAM, command_line, arguments)
