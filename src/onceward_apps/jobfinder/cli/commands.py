"""All commands of `onceward-jobs`, and every way in which one can end."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version

from cyclopts import App as CommandLine
from cyclopts import CycloptsError, Group, Parameter

from onceward import ConfigError, OncewardError, PayloadError, StoreError
from onceward_apps.jobfinder.cli.speaking import BAD_ANSWER, FINE, INTERRUPTED, NO_DATABASE, WRONG_USAGE, complain


def command_line() -> CommandLine:
    """The whole command line. What stands behind it is loaded here, so that a bad profile is an error like others."""
    from onceward_apps.jobfinder.cli import adding, demo, looking, running, setting_up, sources, telling

    made = CommandLine(
        name="onceward-jobs",
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


_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], int], ...] = (
    ((CycloptsError, ConfigError, PayloadError), WRONG_USAGE),
    (StoreError, NO_DATABASE),
    (KeyboardInterrupt, INTERRUPTED),
)
"""Which error ends with which code, the first that fits; any other is a bad answer."""


def carried_out(arguments: Sequence[str]) -> int:
    """Carry out a command line; returns its exit code, after one sentence on stderr if an error ended it."""
    try:
        code = command_line()(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FINE
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in arguments:
            sys.stderr.write(traceback.format_exc())
        complain(_sentence(error))
        return next((code for kinds, code in _CODES if isinstance(error, kinds)), BAD_ANSWER)
    return code if isinstance(code, int) else FINE


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OncewardError | CycloptsError):
        return str(error)
    return f"that was not expected: {type(error).__name__}: {error} (--debug shows where)"
