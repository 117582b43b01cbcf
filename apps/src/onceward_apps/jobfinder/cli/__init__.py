"""The command line `onceward-jobs`: one command for each thing that one does with the job finder.

Exit codes are for scripts: 0 all is well, 1 the answer is bad (bad rows, nothing found), 2 wrong usage, 3 the database
can't be used. An error is one sentence on stderr; `--debug` adds the traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from onceward import terminal
from onceward_apps import extras


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line; returns the exit code."""
    try:
        from onceward_apps.jobfinder.cli.commands import carried_out
    except ModuleNotFoundError as error:
        if (sentence := extras.missing(error.name or "")) is None:
            raise
        terminal.complain("onceward-jobs", sentence)
        return 2
    return carried_out(sys.argv[1:] if arguments is None else list(arguments))
