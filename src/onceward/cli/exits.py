"""From a command line to an exit code: every way in which a command can end, and what is said about it."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

from cyclopts import CycloptsError
from rich.console import Console
from rich.text import Text

from onceward.cli.screen import Screen
from onceward.cli.words import one_line
from onceward.errors import ConfigError, OncewardError, PayloadError, StoreError
from onceward.redaction import redacted
from onceward.store.session import ConnectionLost, TryAgainLater

FINE, BAD_ANSWER, WRONG_USAGE, NO_DATABASE, INTERRUPTED = 0, 1, 2, 3, 130
DEBUG_VARIABLE = "ONCEWARD_DEBUG"

_CODES: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], int], ...] = (
    ((CycloptsError, ConfigError, PayloadError), WRONG_USAGE),
    ((StoreError, ConnectionLost, TryAgainLater), NO_DATABASE),
    (KeyboardInterrupt, INTERRUPTED),
)
"""Which error ends with which code, the first that fits; any other is a bad answer."""


def say_no_more() -> None:
    """Whoever read our output has seen enough. Python would complain once more when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def carried_out(arguments: Sequence[str]) -> int:
    """Carry out a command line; returns its exit code, after one sentence on stderr if that is not 0."""
    from onceward.cli.commands import command_line

    command_line.console = Screen()
    try:
        code = command_line(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
    except BrokenPipeError:
        say_no_more()
        return FINE
    except (Exception, KeyboardInterrupt) as error:
        if _is_debugging(arguments):
            sys.stderr.write(redacted(traceback.format_exc()))
        complain(_sentence(error))
        return code_of(error)
    return code if isinstance(code, int) else FINE


def code_of(error: BaseException) -> int:
    """The exit code of a command that ended with an error."""
    return next((code for kinds, code in _CODES if isinstance(error, kinds)), BAD_ANSWER)


def complain(sentence: str) -> None:
    """Say on stderr what is wrong."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("onceward: ", "bold red"), sentence))


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, (OncewardError, CycloptsError)):
        return _said(str(error))
    if isinstance(error, (ConnectionLost, TryAgainLater)):
        return _said(f"the database cannot be reached: {error}")
    return _said(f"that was not expected: {type(error).__name__}: {error} (--debug shows where)")


def _said(text: str) -> str:
    """A text in one line, without secrets."""
    return redacted(one_line(text))


def _is_debugging(arguments: Sequence[str]) -> bool:
    return "--debug" in arguments or os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")
