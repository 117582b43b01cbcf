"""Tables that fit a terminal: columns that give way, columns that are left out, plain columns where it is piped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence, Set

from rich.table import Table
from rich.text import Text

from onceward.harmless import harmless
from onceward.terminal import console

LEAST_WIDTH = 20
"""How far a column that gives way may be pressed together."""
GAP = 2


def heading(text: str, note: str = "") -> Text:
    """A line above a table."""
    return Text.assemble(("\n" + text, "bold"), (f"  {note}" if note else "", "dim"))


def table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
    folded: Sequence[str] = (),
    first_out: Sequence[str] = (),
) -> Table:
    """A table. Columns named `right` hold numbers; where it is narrow those named `cut` and `folded` give way, and on a
    terminal those named `first_out` are left out, one by one. If that is not enough its lines are longer than the
    screen."""
    cells = [[Text(harmless(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    if sys.stdout.isatty():
        columns, cells = _without(columns, cells, first_out, {*cut, *folded})
    natural = _natural(columns, cells)
    gaps = GAP * max(0, len(columns) - 1)
    room = console().width
    yielding = [place for place, name in enumerate(columns) if name in cut or name in folded]
    widths = _fitted(natural, yielding, room - gaps)
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for name, width in zip(columns, widths, strict=True):
        made.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in folded,
            overflow="fold" if name in folded else "ellipsis",
            min_width=width,
            max_width=width,
        )
    if sum(widths) + gaps > room:
        made.width = sum(widths) + gaps
    for row in cells:
        made.add_row(*row)
    return made


def _natural(columns: Sequence[str], cells: Sequence[Sequence[Text]]) -> list[int]:
    """How wide columns are by what stands in them."""
    return [max(len(name), *(row[place].cell_len for row in cells), 0) for place, name in enumerate(columns)]


def _without(
    columns: Sequence[str], cells: list[list[Text]], first_out: Sequence[str], yielding: Set[str]
) -> tuple[Sequence[str], list[list[Text]]]:
    """A table without those columns for which there is no room, though others give way."""
    for name in first_out:
        widths = zip(columns, _natural(columns, cells), strict=True)
        least = [min(width, LEAST_WIDTH) if column in yielding else width for column, width in widths]
        if sum(least) + GAP * (len(columns) - 1) <= console().width:
            break
        place = columns.index(name)
        columns = [column for column in columns if column != name]
        cells = [row[:place] + row[place + 1 :] for row in cells]
    return columns, cells


def _fitted(natural: Sequence[int], yielding: Sequence[int], room: int) -> list[int]:
    """How wide columns are: as wide as what stands in them, but those that give way so narrow that all have room, the
    widest first. Rich would take from all alike, until the narrow ones are gone."""
    widths = list(natural)
    while sum(widths) > room:
        widest = max(yielding, key=lambda place: widths[place], default=None)
        if widest is None or widths[widest] <= LEAST_WIDTH:
            break
        second = max((widths[place] for place in yielding if place != widest), default=0)
        most = sum(widths) - room
        widths[widest] -= min(most, max(1, widths[widest] - max(second, LEAST_WIDTH)))
    return widths
