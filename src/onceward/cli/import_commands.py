"""The command that imports the items of an older system."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated

from cyclopts import Parameter

from onceward.cli import documents, screens
from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import BAD_ANSWER, FINE, complain
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Output, Where
from onceward.cli.target_app import database
from onceward.errors import ConfigError
from onceward.harmless import one_line


@command_line.command(
    name="import",
    sort_key=21,
    help_epilogue=example(
        "onceward import items.jsonl --kind listing --app shop.tasks:app",
        "onceward import items.jsonl --map kind=type,url=job.link --status archived=skipped --app shop.tasks:app",
    ),
)
def import_items(
    file: Annotated[
        str,
        Parameter(
            name="FILE", allow_leading_hyphen=True, help="The items, one JSON object a line; - is the standard input."
        ),
    ],
    /,
    *,
    kind: Annotated[str | None, Parameter(help="What they are; without it every line says so, as its kind.")] = None,
    map: Annotated[
        tuple[str, ...],
        Parameter(
            name="--map",
            help="Where something stands in a line, as ours=theirs: a field of the payload, or id, kind, status, "
            "payload, reason, created_at, ended_at, due_at.",
        ),
    ] = (),
    status: Annotated[
        tuple[str, ...],
        Parameter(name="--status", help="What a word for a status means, as theirs=ours; the usual ones are known."),
    ] = (),
    name: Annotated[
        str, Parameter(help="Which import it is. An item is imported once in each; name another system otherwise.")
    ] = "import",
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """Import items of an older system. Each becomes a task with a lineage of its own, once, however often this is run.

    What was in work there is pending here; what has ended stays ended, with its times and its reason.

    A line that cannot be read is told of and left out; then the exit code is 1.
    """
    with database(where) as app, _lines_of(file) as lines:
        if not app._registry.kinds:
            raise ConfigError("import needs the code, which knows what a payload looks like: give --app module:app")
        report = app.tasks.import_items(
            lines,
            kind=kind,
            name=name,
            fields=_pairs("--map", map),
            statuses=_pairs("--status", status),
            on_problem=lambda problem: complain(f"{file}:{problem.line}: {one_line(problem.reason)}"),
        )
        answer(output, lambda: documents.import_document(report), lambda: screens.import_screen(report))
    return FINE if report.ok else BAD_ANSWER


@contextmanager
def _lines_of(file: str) -> Iterator[Iterable[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        opened = open(file, "rb")  # noqa: SIM115 - what goes wrong later is no fault of the file
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    with opened:
        yield opened


def _pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in (part.strip() for text in given for part in text.split(",") if part.strip()):
        left, sign, right = one.partition("=")
        if not (sign and left.strip() and right.strip()):
            raise ConfigError(f"{option} {one}: say it as left=right")
        pairs[left.strip()] = right.strip()
    return pairs
