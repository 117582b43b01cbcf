"""The query catalogue: named queries from `.sql` files, spelled for each database and each driver's parameters.

A query is a block that begins with `-- name: …`. Parameters are written `:name`. Short forms keep one text for both
databases where only the spelling differs:

`IN :ids`            a list of task ids: an array on PostgreSQL, a JSON text on SQLite
`IN TEXTS :names`    a list of texts, likewise
`ROWS (a type, …)`   the rows of a `Many`: `VALUES` on SQLite, `unnest` of arrays on PostgreSQL; columns marked
                     `same` are its `same` values and stand first
`#waiting`           the number of a status, on both; `IN #open` and `IN #startable` are sets of statuses, `#ended` is
                     the lowest number of an ended task, `#batch_open` and `#batch_failed` are of batches
`LEASE OF t`         the columns of a lease, from a row of the task table: `LEASE_COLUMNS`, in their order
`NO LEASE`           as many times NULL

On SQLite every write is `OR FAIL`: a failed statement is undone with its transaction or by a savepoint, never by
itself. Otherwise SQLite would journal every page that a statement with several rows changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from onceward.model.batch import BatchOutcome
from onceward.model.connection import Dialect
from onceward.model.status import Status

_FOLDER = Path(__file__).parent / "sql"
_BLOCK = re.compile(r"^-- name: (\w+)\n", re.M)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")
_LIST = re.compile(r"\bIN (TEXTS )?:(\w+)")
_STATUS = re.compile(r"#([a-z_]+)")
_STATUSES = {
    **{status.word: str(int(status)) for status in Status},
    "open": "(0, 1, 2, 3)",
    "startable": "(0, 2)",
    "ended": str(int(Status.SUCCEEDED)),
    "batch_open": str(int(BatchOutcome.OPEN)),
    "batch_failed": str(int(BatchOutcome.FAILED)),
}
LEASE_COLUMNS = (
    "id", "fence", "run", "kind", "version", "queue", "band", "rank", "stage", "payload", "payload_blob", "failures",
    "crashes", "company", "deferrals", "signals", "touched", "lineage", "parent", "depth", "created_at", "started_at",
    "gates", "scheduled_at", "clock_at", "expiry", "ancestry", "limits", "children",
)  # fmt: skip
"""The row of a lease. PostgreSQL returns it as it was written, SQLite reads it as it will be."""
_LEASE_AS: dict[str, dict[Dialect, str]] = {
    "fence": {"sqlite": "{0}.fence + 1"},
    "lineage": {"postgres": "uuid_send({0}.lineage)"},
    "started_at": {"sqlite": "coalesce({0}.started_at, :now)"},
    "clock_at": {
        "postgres": "coalesce({0}.clock_at, {0}.progressed_at, {0}.started_at)",
        "sqlite": "coalesce(CASE WHEN {0}.clock_at < 0 THEN :now + {0}.clock_at ELSE {0}.clock_at END, "
        "{0}.progressed_at, {0}.started_at, :now)",
    },
    "children": {"postgres": "{0}.children - {0}.members", "sqlite": "{0}.children - {0}.members"},
}
"""The columns of a lease that are not simply columns of the task table."""
_LEASE = re.compile(r"\bLEASE OF (\w+)")
_NO_LEASE = re.compile(r"\bNO LEASE\b")
_ROWS = re.compile(r"ROWS \(([^()]*)\)")
_WRITE = re.compile(r"^(INSERT(?= INTO)|UPDATE(?= onceward_))", re.M)


@dataclass(frozen=True, slots=True)
class Statement:
    """A query as one driver takes it: its text, and its parameters in order."""

    text: str
    places: tuple[str, ...]
    columns: tuple[str, ...]
    """The columns of a `Many`, in the order of the values in its rows."""
    text_for_one: str
    """The text for a `Many` of one row, with values instead of arrays."""
    kinds: tuple[str, ...]
    """The types of those columns."""


def parse_blocks(text: str) -> dict[str, str]:
    """Split a file into its named blocks, without comments; a repeated name is an error."""
    pieces = _BLOCK.split(text)
    queries: dict[str, str] = {}
    for name, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if name in queries:
            raise ValueError(f"query {name} stands twice")
        lines = [line for line in body.splitlines() if not line.lstrip().startswith("--")]
        queries[name] = "\n".join(lines).strip().rstrip(";")
    return queries


def read(name: str) -> str:
    """Read a file of the sql folder."""
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def queries(dialect: Dialect) -> dict[str, str]:
    """All queries of a database: the common ones, and those of this database alone."""
    merged: dict[str, str] = {}
    for file in sorted(_FOLDER.glob("*.sql")):
        if file.stem.partition(".")[2] not in ("", dialect):
            continue
        for name, text in parse_blocks(read(file.name)).items():
            if name in merged:
                raise ValueError(f"query {name} stands in two files")
            merged[name] = text
    return merged


class _Column(NamedTuple):
    name: str
    kind: str
    is_same: bool


def _columns(declaration: str) -> list[_Column]:
    columns = []
    for part in declaration.split(","):
        words = part.split()
        is_same = words[0] == "same"
        name, *kind = words[1:] if is_same else words
        columns.append(_Column(name, " ".join(kind), is_same))
    return columns


def _rows_as_values(match: re.Match[str]) -> str:
    return f"VALUES ({', '.join(f':{column.name}' for column in _columns(match[1]))})"


def _rows_as_arrays(match: re.Match[str]) -> str:
    columns = _columns(match[1])
    varying = [column for column in columns if not column.is_same]
    chosen = ", ".join(f":{column.name}::{column.kind}" if column.is_same else column.name for column in columns)
    arrays = ", ".join(f":{column.name}::{column.kind}[]" for column in varying)
    names = ", ".join(column.name for column in varying)
    return f"SELECT {chosen} FROM unnest({arrays}) WITH ORDINALITY AS given ({names}, place) ORDER BY place"


def _row_as_values(match: re.Match[str]) -> str:
    return f"SELECT {', '.join(f':{column.name}::{column.kind}' for column in _columns(match[1]))}"


def _list_as_array(match: re.Match[str]) -> str:
    return f"= ANY (:{match[2]}::{'text' if match[1] else 'bigint'}[])"


def _lease_of(table: str, dialect: Dialect) -> str:
    spelled = {name: _LEASE_AS.get(name, {}).get(dialect, "{0}." + name) for name in LEASE_COLUMNS}
    return ", ".join(f"{how.format(table)} AS {name}" for name, how in spelled.items())


def spell_out(text: str, dialect: Dialect, *, one_row: bool = False) -> str:
    """Write out the short forms of a query for a database; its parameters stay `:name`."""
    text = _STATUS.sub(lambda match: _STATUSES[match[1]], text)
    text = _LEASE.sub(lambda match: _lease_of(match[1], dialect), text)
    text = _NO_LEASE.sub(", ".join(["NULL"] * len(LEASE_COLUMNS)), text)
    if dialect == "postgres":
        return _ROWS.sub(_row_as_values if one_row else _rows_as_arrays, _LIST.sub(_list_as_array, text))
    in_json = _LIST.sub(r"IN (SELECT value FROM json_each(:\2))", text)
    return _WRITE.sub(r"\g<0> OR FAIL", _ROWS.sub(_rows_as_values, in_json))


@cache
def text_for_rows(name: str, count: int) -> str:
    """A SQLite query for that many rows of a `Many`: the shared values come first, then row by row."""
    text = queries("sqlite")[name]
    declared = _ROWS.search(text)
    assert declared is not None, f"query {name} takes no rows"
    columns = _columns(declared[1])
    same = [column.is_same for column in columns].count(True)
    heads = [f"?{place}" for place in range(1, same + 1)]
    varying = len(columns) - same
    rows = [
        ", ".join([*heads, *(f"?{place}" for place in range(first, first + varying))])
        for first in range(same + 1, same + 1 + count * varying, varying)
    ]
    return spell_out(_ROWS.sub("VALUES " + ", ".join(f"({row})" for row in rows), text), "sqlite")


class Statements(dict[str, Statement]):
    """The queries of a database for one driver; `placeholder(name, place)` writes a parameter its way.

    A statement is made at its first use: there are hundreds, and most processes use a few dozen.
    """

    def __init__(self, dialect: Dialect, placeholder: Callable[[str, int], str]) -> None:
        self._dialect = dialect
        self._placeholder = placeholder

    def __missing__(self, name: str) -> Statement:
        text = queries(self._dialect)[name]
        rows = _ROWS.search(text)
        declared = _columns(rows[1]) if rows else []
        columns = tuple(column.name for column in declared)
        kinds = tuple(column.kind for column in declared)
        places: list[str] = []

        def placeholder(match: re.Match[str]) -> str:
            if match[1] not in places:
                places.append(match[1])
            return self._placeholder(match[1], places.index(match[1]) + 1)

        spelled_out = _PARAMETER.sub(placeholder, spell_out(text, self._dialect))
        for_one = _PARAMETER.sub(placeholder, spell_out(text, self._dialect, one_row=True))
        self[name] = made = Statement(spelled_out, tuple(places), columns, for_one, kinds)
        return made


def colon(name: str, _place: int) -> str:
    """`:name`, as apsw and sqlite3 take it."""
    return f":{name}"


def percent(name: str, _place: int) -> str:
    """`%(name)s`, as psycopg and Django take it."""
    return f"%({name})s"


def dollar(_name: str, place: int) -> str:
    """`$1`, as asyncpg takes it."""
    return f"${place}"


def brace(name: str, _place: int) -> str:
    """`{name}`, for `str.format`: only for values that need no quoting."""
    return f"{{{name}}}"


def migrations(dialect: Dialect) -> list[tuple[int, str, list[str]]]:
    """The steps of the schema, in order: number, name, statements."""
    steps = []
    for entry in sorted((_FOLDER / "migrations").iterdir()):
        stem, _, rest = entry.name.partition(".")
        if rest == f"{dialect}.sql":
            number, _, name = stem.partition("_")
            lines = [line for line in entry.read_text(encoding="utf-8").splitlines() if not line.startswith("--")]
            body = [statement.strip() for statement in "\n".join(lines).split(";\n")]
            steps.append((int(number), name, [statement.rstrip(";") for statement in body if statement]))
    return steps
