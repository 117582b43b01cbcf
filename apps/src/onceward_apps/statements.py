"""How SQL is said to either database, and how rows are read. A statement is a constant with `?` for its values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

import msgspec

from onceward import Connection

R = TypeVar("R", bound=msgspec.Struct)


def rows(connection: Connection, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """All rows of the answer."""
    return connection.execute(_spelled(statement, connection.dialect), values).fetchall()


def row(connection: Connection, statement: str, *values: Any) -> tuple[Any, ...] | None:
    """The first row of the answer, if there is one."""
    return connection.execute(_spelled(statement, connection.dialect), values).fetchone()


def records(connection: Connection, kind: type[R], statement: str, *values: Any) -> list[R]:
    """All rows of a `SELECT *`, each as a record whose fields are the columns in their order.

    A field that ends in `_json` is text in the row; `stored` and `loaded` are for those.
    """
    fields = kind.__struct_fields__
    return [
        msgspec.convert(dict(zip(fields, found, strict=False)), kind, strict=False)
        for found in rows(connection, statement, *values)
    ]


def record(connection: Connection, kind: type[R], statement: str, *values: Any) -> R | None:
    """The first of them, if there is one."""
    found = records(connection, kind, statement, *values)
    return found[0] if found else None


def change(connection: Connection, statement: str, *values: Any) -> None:
    """Change something."""
    connection.execute(_spelled(statement, connection.dialect), values)


def change_each(connection: Connection, statement: str, many: Sequence[Sequence[Any]]) -> None:
    """Change something for each of many rows of values."""
    if many:
        connection.executemany(_spelled(statement, connection.dialect), many)


def stored(value: Any) -> str:
    """A value as the text of a column that ends in `_json`."""
    return msgspec.json.encode(value).decode()


def loaded(text: str | None, kind: Any) -> Any:
    """The value of such a column; None if it is empty."""
    return None if text is None else msgspec.json.decode(text, type=kind)


@cache
def _spelled(statement: str, dialect: str) -> str:
    return statement if dialect == "sqlite" else statement.replace("?", "%s")
