"""What the commands of all applications share: options, exit codes and tables. `onceward.terminal` writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
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


def epilogue(*examples: str) -> str:
    """What stands at the end of the help of a command: examples of it, and the exit codes of all."""
    return (
        "[bold]Example[/bold]\n" + "".join(f"  {example}\n" for example in examples) + "\n"
        "[dim]Exit codes: 0 all is well, 1 the answer is bad, 2 wrong usage, 3 the database cannot be used.[/dim]"
    )


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
        made.add_row(*map(_text, line))
    return made


Entry = tuple[Sequence[str | Text], Sequence[str | Text]]
"""The cells of one line, and what stands below it: whole and on lines of its own, as a link has to."""


@dataclass(frozen=True, slots=True)
class Entries:
    """A table that stays readable on any terminal: each entry is one line of cells, and notes below it.

    Where it is too narrow, the columns that give way are cut, the widest first. A note that is one word, as a link, is
    never broken; one of several is wrapped.
    """

    columns: Sequence[str]
    entries: Sequence[Entry]
    gives_way: Sequence[str]
    right: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        lines = [[_text(cell) for cell in cells] for cells, _ in self.entries]
        heads = [Text(name, "bold") for name in self.columns]
        widths = self._widths([heads, *lines], options.max_width)
        yield self._line(heads, widths)
        for cells, (_, notes) in zip(lines, self.entries, strict=True):
            yield self._line(cells, widths)
            for note in map(_text, notes):
                is_whole = " " not in note.plain
                width = options.max_width - NOTE_INDENT
                for part in [note] if is_whole else note.wrap(console, width):
                    yield Text.assemble(" " * NOTE_INDENT, part, no_wrap=True, overflow="ignore")

    def _widths(self, lines: Sequence[Sequence[Text]], most: int) -> list[int]:
        widths = [max(cell_len(line[column].plain) for line in lines) for column in range(len(self.columns))]
        giving = [column for column, name in enumerate(self.columns) if name in self.gives_way]
        while sum(widths) + GAP * (len(widths) - 1) > most:
            widest = max(giving, key=lambda column: widths[column])
            if widths[widest] <= NARROWEST:
                break
            widths[widest] -= 1
        return widths

    def _line(self, cells: Sequence[Text], widths: Sequence[int]) -> Text:
        made = Text(no_wrap=True, overflow="ignore")
        for name, cell, width in zip(self.columns, cells, widths, strict=True):
            shown = cell.copy()
            if cell_len(shown.plain) > width:
                shown = Text(f"{set_cell_size(shown.plain, width - 1).rstrip()}…", shown.style)
            gap = " " * (width - cell_len(shown.plain))
            made.append_text(Text.assemble(gap, shown) if name in self.right else Text.assemble(shown, gap))
            made.append(" " * GAP)
        made.rstrip()
        return made


GAP, NOTE_INDENT, NARROWEST = 2, 4, 8


def _text(cell: str | Text) -> Text:
    return Text(harmless(cell)) if isinstance(cell, str) else cell
