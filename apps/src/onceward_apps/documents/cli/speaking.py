"""What the commands of `onceward-docs` share: the option that names the library, and the form of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from onceward import terminal

PROGRAM = "onceward-docs"
LIBRARY = Group("Which library", sort_key=2)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Where:
    """Which library a command is about."""

    library: Annotated[
        str | None,
        Parameter(
            group=LIBRARY,
            help="The library: a file, or an address like postgresql://host/name. Or set ONCEWARD_DOCS.",
        ),
    ] = None


OWN_LIBRARY = Where()


def complain(sentence: str) -> None:
    """Say on stderr what is wrong."""
    terminal.complain(PROGRAM, sentence)
