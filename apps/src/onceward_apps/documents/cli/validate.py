"""`onceward-docs validate`: see for yourself that nothing is lost."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from onceward.terminal import console, print_json
from onceward_apps.documents.app import opened
from onceward_apps.documents.validating import Validation
from onceward_apps.speaking import BAD_ANSWER, FINE, NOTHING_SAID, Output, table


def validate(
    *,
    processes: Annotated[int, Parameter(validator=Number(gte=1, lte=64), help="How many processes work.")] = 2,
    output: Output = NOTHING_SAID,
) -> int:
    """See for yourself that nothing is lost: documents are made, ingested, and their workers killed.

    It takes about a minute, on a library of its own among the temporary files. Yours is not touched.
    """
    screen = console(to_stderr=True)
    results = []
    with (
        tempfile.TemporaryDirectory(prefix="onceward-docs-") as folder,
        opened(f"{folder}/library.db", new=True) as app,
    ):
        for result in Validation(app, Path(folder), processes=processes).results():
            results.append(result)
            screen.print(Text(f"{result.seconds:5.1f}s  {result.scenario}: {'ok' if result.ok else 'FAILED'}"))
    if output.json:
        print_json([msgspec.to_builtins(result) for result in results])
    else:
        cells = [
            (one.scenario, one.expected, one.found, Text("ok", "green") if one.ok else Text("FAILED", "bold red"))
            for one in results
        ]
        console().print(table(("scenario", "expected", "found", " "), cells, folded=("expected", "found")))
    return FINE if all(result.ok for result in results) else BAD_ANSWER
