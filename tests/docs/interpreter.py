"""The interpreter of one page: blocks come in as lines of JSON, what they print goes back."""

from __future__ import annotations

import io
import json
import os
import traceback
from contextlib import redirect_stderr, redirect_stdout
from typing import Any


def main() -> None:
    """Run blocks until there are no more."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a block prints past sys.stdout must not disturb the answers
    page: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    for line in requests:
        request = json.loads(line)
        printed, error = io.StringIO(), None
        with redirect_stdout(printed), redirect_stderr(printed):
            try:
                # Lines are counted from where the block stands, so that a traceback points into the page.
                shifted = "\n" * (request["line"] - 1) + request["code"]
                exec(compile(shifted, request["page"], "exec"), page)
            except BaseException:
                error = traceback.format_exc()
        answers.write(json.dumps({"printed": printed.getvalue(), "error": error}).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
