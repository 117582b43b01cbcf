"""The command line: `onceward`, one command for each thing that one does with tasks and workers.

Exit codes are for scripts: 0 all is well, 1 the answer is bad (a breach, a task that is not there), 2 wrong usage,
3 the database cannot be used. An error is one sentence on stderr; `--debug` adds the traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command line; returns the exit code."""
    try:
        # Not before it is needed: what a worker imports of this package should not read the whole command line.
        from onceward.cli.exits import carried_out

        return carried_out(sys.argv[1:] if arguments is None else list(arguments))
    except KeyboardInterrupt:  # while that was imported
        return 130
