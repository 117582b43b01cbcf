"""From a command line to an exit code: every way in which a command can end, and what is said about it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import CycloptsError

from onceward import extras, terminal
from onceward.errors import ConfigError, OncewardError, PayloadError, StoreError
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater

FINE, BAD_ANSWER, WRONG_USAGE, NO_DATABASE, INTERRUPTED = 0, 1, 2, 3, 130
DEBUG_VARIABLE = "ONCEWARD_DEBUG"

_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], int], ...] = (
    ((CycloptsError, ConfigError, PayloadError), WRONG_USAGE),
    ((StoreError, ConnectionLost, TryAgainLater), NO_DATABASE),
    (KeyboardInterrupt, INTERRUPTED),
)
"""Which error ends with which code, the first that fits; any other is a bad answer."""


def carried_out(arguments: Sequence[str]) -> int:
    """Carry out a command line; returns its exit code, after one sentence on stderr if that is not 0."""
    from onceward.cli.commands import command_line, with_commands_for

    try:
        with_commands_for(arguments)
        command_line.console = terminal.Screen()
        code = command_line(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BrokenPipeError:
        terminal.stop_writing()
        return FINE
    except (Exception, KeyboardInterrupt) as error:
        if _is_debugging(arguments):
            terminal.complain_trace()
        complain(_sentence(error))
        return code_of(error)
    return code if isinstance(code, int) else FINE


def code_of(error: BaseException) -> int:
    """The exit code of a command that ended with an error."""
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), BAD_ANSWER)


def complain(sentence: str) -> None:
    """Say on stderr what is wrong."""
    terminal.complain("onceward", sentence)


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, (OncewardError, CycloptsError)):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (sentence := extras.missing(error.name or "")):
        return sentence
    if isinstance(error, (ConnectionLost, TryAgainLater)):
        return f"the database cannot be reached: {error}"
    return f"that was not expected: {type(error).__name__}: {error} (--debug shows where)"


def _is_debugging(arguments: Sequence[str]) -> bool:
    return "--debug" in arguments or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
