"""What the commands of `onceward-jobs` share: the option that names the database, and the form of errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from onceward import terminal

PROGRAM = "onceward-jobs"
DATABASE = Group("Which database", sort_key=2)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Where:
    """Which database a command is about."""

    db: Annotated[
        str | None,
        Parameter(
            group=DATABASE,
            help="The database: a file, or an address like postgresql://host/name. Or set ONCEWARD_JOBS.",
        ),
    ] = None


OWN_DATABASE = Where()


def complain(sentence: str) -> None:
    """Say on stderr what is wrong."""
    terminal.complain(PROGRAM, sentence)
