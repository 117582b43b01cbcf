"""The one place where commands write to people: to stdout and stderr, on terminals and in pipes.

Texts are shown as they are: brackets are no markup, and signs that a terminal would obey are escapes. What is wrong is
said without secrets. The commands of the engine and of the applications use this module and nothing else.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from onceward.harmless import harmless_lines, json_text, one_line
from onceward.support.redaction import redacted

PIPED_WIDTH = 1_000
"""Wide enough that no line of a pipe is broken."""


class Screen(Console):
    """A console for texts from outside."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, without any sign of a text that a terminal would obey."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                yield Segment(harmless_lines(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Raise what rich has caught; rich itself would end the program with 1, a bad answer."""
        raise BrokenPipeError("the reader of the output is gone")


def console(*, to_stderr: bool = False) -> Screen:
    """Where things are shown."""
    stream = sys.stderr if to_stderr else sys.stdout
    narrow = stream.isatty() or "COLUMNS" in os.environ
    return Screen(file=stream, highlight=False, markup=False, emoji=False, width=None if narrow else PIPED_WIDTH)


def show(*parts: RenderableType) -> None:
    """Print parts to stdout, one below the other."""
    where = console()
    for part in parts:
        where.print(part, crop=False)


def print_json(document: Any) -> None:
    """Write one JSON document to stdout, and nothing else."""
    sys.stdout.write(json_text(document) + "\n")


def print_pieces(pieces: Iterable[str]) -> None:
    """Write a file's content to stdout: into a pipe as it is, to a terminal without what it would obey."""
    is_seen = sys.stdout.isatty()
    for piece in pieces:
        sys.stdout.write(harmless_lines(piece.replace("\r\n", "\n")) if is_seen else piece)


def complain(program: str, sentence: str) -> None:
    """Say on stderr what is wrong, in the name of a program and without secrets."""
    where = Screen(stderr=True, soft_wrap=True, highlight=False)
    where.print(Text.assemble((f"{program}: ", "bold red"), redacted(one_line(sentence))))


def complain_trace() -> None:
    """Write the traceback of the error that is handled to stderr, without secrets."""
    sys.stderr.write(redacted(harmless_lines(traceback.format_exc())))


def stop_writing() -> None:
    """Discard all further output: its reader is gone, and Python would complain once more when it closes stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
