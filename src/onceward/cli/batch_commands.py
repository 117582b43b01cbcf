"""The command about batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.text import Text

from onceward.cli import documents, screens, target_app
from onceward.cli.answers import answer
from onceward.cli.command_line import command_line, example
from onceward.cli.exits import FINE
from onceward.cli.options import ANY_PLACE, NOTHING_SAID, Output, Where
from onceward.cli.target_app import database


@command_line.command(
    sort_key=8,
    help_epilogue=example("onceward batches --db sqlite:///shop.db", "onceward batches --status open --json"),
)
def batches(
    *,
    status: Annotated[
        Literal["open", "succeeded", "partial", "failed"] | None, Parameter(help="Only batches that stand there.")
    ] = None,
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=100_000), help="How many at most.")] = 20,
    where: Where = ANY_PLACE,
    output: Output = NOTHING_SAID,
) -> int:
    """List batches, newest first: how far they are, what has become of their tasks, what follows."""
    with database(where) as app:
        now = target_app.present(app)
        found = app.batches.list(status=status, limit=limit)

        def screen() -> Iterable[Any]:
            if found:
                yield screens.batches_table(found, now)
            if len(found) == limit:
                yield Text(f"the newest {limit}; --limit shows more", "dim")
            elif not found:
                yield Text("no such batch" if status else "no batch", "dim")

        answer(output, lambda: {"batches": [documents.batch_document(batch) for batch in found]}, screen)
    return FINE
