"""Every way in which a command of an application can end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from cyclopts import App as CommandLine
from cyclopts import CycloptsError

from onceward import ConfigError, OncewardError, PayloadError, StoreError, terminal
from onceward_apps import extras
from onceward_apps.speaking import BAD_ANSWER, FINE, INTERRUPTED, NO_DATABASE, WRONG_USAGE

_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], int], ...] = (
    ((CycloptsError, ConfigError, PayloadError), WRONG_USAGE),
    (StoreError, NO_DATABASE),
    (KeyboardInterrupt, INTERRUPTED),
)
"""Which error ends with which code, the first that fits; any other is a bad answer."""


def carried_out(program: str, command_line: Callable[[], CommandLine], arguments: Sequence[str]) -> int:
    """Carry out a command line of a program; returns its exit code, after one sentence on stderr if an error ended it.

    The command line is made here, so that what is wrong with what stands behind it is an error like others.
    """
    try:
        program_line = command_line()
        program_line.console = terminal.Screen()
        code = program_line(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BrokenPipeError:
        terminal.stop_writing()
        return FINE
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in arguments:
            terminal.complain_trace()
        terminal.complain(program, _sentence(error))
        return next((code for kinds, code in _CODES if isinstance(error, kinds)), BAD_ANSWER)
    return code if isinstance(code, int) else FINE


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OncewardError | CycloptsError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (sentence := extras.missing(error.name or "")):
        return sentence
    return f"that was not expected: {type(error).__name__}: {error} (--debug shows where)"
