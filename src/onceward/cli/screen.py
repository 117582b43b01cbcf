"""The terminal of a command: it is sent nothing that it would obey, and one hears when nobody reads any more."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from onceward.cli.words import harmless


class Screen(Console):
    """A console for texts that anybody may have put into the database."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich does, without any sign of a text that a terminal would obey."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                yield Segment("\n".join(map(harmless, segment.text.split("\n"))), segment.style)

    def on_broken_pipe(self) -> None:
        """What is called inside of the error; rich itself would end the program with 1, a bad answer."""
        raise BrokenPipeError("nobody reads this any more")
