"""The options that many commands share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from onceward.support.logs import Form, Level, configure

DATABASE = Group("Which database", sort_key=2)
OUTPUT = Group("Output", sort_key=3)

Flag = Parameter(negative="", show_default=False)
Id = Annotated[int, Parameter(validator=Number(gte=1, lt=2**63))]
Ids = Annotated[tuple[Id, ...], Parameter(name="ID", help="The numbers of the tasks.")]

Filter = Annotated[
    str | None,
    Parameter(
        name="--filter",
        allow_leading_hyphen=True,
        help="All tasks that match, like 'status:failed kind:page error:\"timeout\"'; at first it says how many.",
    ),
]
Yes = Annotated[bool, Flag, Parameter(name="--yes", help="With --filter: do it without asking.")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Output:
    """How a command speaks."""

    json: Annotated[
        bool, Flag, Parameter(group=OUTPUT, help="Print one JSON document instead of text, with times in ISO 8601.")
    ] = False
    debug: Annotated[
        bool, Flag, Parameter(group=OUTPUT, help="Show the traceback of an error; ONCEWARD_DEBUG=1 does the same.")
    ] = False


Debug = Annotated[
    bool, Flag, Parameter(group=OUTPUT, help="Show the traceback of an error; ONCEWARD_DEBUG=1 does the same.")
]
"""For commands whose output is no document. The command line itself is asked for it when an error is told."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Where:
    """Which database a command is about."""

    app: Annotated[
        str | None,
        Parameter(
            group=DATABASE,
            help="The app whose database it is, as module:app or path/to/file.py:app. Or set ONCEWARD_APP.",
        ),
    ] = None
    db: Annotated[
        str | None,
        Parameter(
            group=DATABASE,
            help="The address of the database: sqlite:///file.db or postgresql://host/name. Or set ONCEWARD_DB.",
        ),
    ] = None


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Log:
    """How a worker logs, to stderr."""

    log_level: Annotated[
        Level,
        Parameter(group=OUTPUT, help="The least that is logged, of the engine and your code; others log warnings."),
    ] = "info"
    log_format: Annotated[Form, Parameter(group=OUTPUT, help="text for people, json for machines: a line each.")] = (
        "text"
    )
    log_json: Annotated[bool, Flag, Parameter(group=OUTPUT, show=False)] = False
    """The same as `--log-format json`."""

    def begin(self, app: str, output: Output) -> None:
        """Log that way, for the app of a command."""
        own = app.rpartition(":")[0].partition(".")[0] if ".py:" not in app else "__onceward_main__"
        configure(
            "json" if self.log_json else self.log_format, level="debug" if output.debug else self.log_level, own=own
        )


NOTHING_SAID = Output()
PLAIN_LOG = Log()
ANY_PLACE = Where()
