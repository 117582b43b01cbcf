"""What the commands of all applications share: options, exit codes and tables. `onceward.terminal` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter
from rich.table import Table
from rich.text import Text

from onceward.harmless import harmless

FINE, BAD_ANSWER, WRONG_USAGE, NO_DATABASE, INTERRUPTED = 0, 1, 2, 3, 130

OUTPUT = Group("Output", sort_key=3)
Flag = Parameter(negative="", show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Output:
    """How a command speaks."""

    json: Annotated[bool, Flag, Parameter(group=OUTPUT, help="Print one JSON document instead of text.")] = False
    debug: Annotated[bool, Flag, Parameter(group=OUTPUT, help="Show the traceback of an error.")] = False


NOTHING_SAID = Output()


def table(
    columns: Sequence[str],
    lines: Iterable[Sequence[str | Text]],
    *,
    right: Sequence[str] = (),
    folded: Sequence[str] = (),
) -> Table:
    """A table. Columns named `right` hold numbers; those named `folded` give way where it is narrow."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in folded,
            overflow="fold" if name in folded else "ellipsis",
        )
    for line in lines:
        made.add_row(*(Text(harmless(cell)) if isinstance(cell, str) else cell for cell in line))
    return made
