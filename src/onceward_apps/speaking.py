"""What the commands of all applications share: options, exit codes, and how they speak."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import Group, Parameter
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

FINE, BAD_ANSWER, WRONG_USAGE, NO_DATABASE, INTERRUPTED = 0, 1, 2, 3, 130
PIPED_WIDTH = 1_000
"""Wide enough that no line of a pipe is broken."""

OUTPUT = Group("Output", sort_key=3)
Flag = Parameter(negative="", show_default=False)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Output:
    """How a command speaks."""

    json: Annotated[bool, Flag, Parameter(group=OUTPUT, help="Print one JSON document instead of text.")] = False
    debug: Annotated[bool, Flag, Parameter(group=OUTPUT, help="Show the traceback of an error.")] = False


NOTHING_SAID = Output()


def console(*, to_stderr: bool = False) -> Console:
    """Where things are shown."""
    stream = sys.stderr if to_stderr else sys.stdout
    narrow = stream.isatty() or "COLUMNS" in os.environ
    return Console(file=stream, highlight=False, width=None if narrow else PIPED_WIDTH)


def show(*parts: RenderableType) -> None:
    """Print parts to stdout, one below the other."""
    where = console()
    for part in parts:
        where.print(plain(part) if isinstance(part, str) else part)


def plain(text: str) -> Text:
    """A text from outside as it is: brackets are no markup, and signs that a terminal would obey are spaces."""
    return Text("".join(sign if sign.isprintable() or sign == "\n" else " " for sign in text))


def show_json(document: Any) -> None:
    """Print one JSON document to stdout."""
    print(json.dumps(document, indent=2, ensure_ascii=False, default=str))


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
        made.add_row(*(plain(cell) if isinstance(cell, str) else cell for cell in line))
    return made


def complain_as(program: str, sentence: str) -> None:
    """Say on stderr what is wrong, in the name of a program."""
    where = Console(stderr=True, soft_wrap=True, highlight=False)
    where.print(Text.assemble((f"{program}: ", "bold red"), plain(" ".join(sentence.split()))))
