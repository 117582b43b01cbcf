"""How SQL is said to either database. A statement is a constant with `?` for its values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from onceward import Connection


def rows(connection: Connection, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """All rows of the answer."""
    return connection.execute(_spelled(statement, connection.dialect), values).fetchall()


def row(connection: Connection, statement: str, *values: Any) -> tuple[Any, ...] | None:
    """The first row of the answer, if there is one."""
    return connection.execute(_spelled(statement, connection.dialect), values).fetchone()


def change(connection: Connection, statement: str, *values: Any) -> None:
    """Change something."""
    connection.execute(_spelled(statement, connection.dialect), values)


def change_each(connection: Connection, statement: str, many: Sequence[Sequence[Any]]) -> None:
    """Change something for each of many rows of values."""
    connection.executemany(_spelled(statement, connection.dialect), many)


@cache
def _spelled(statement: str, dialect: str) -> str:
    return statement if dialect == "sqlite" else statement.replace("?", "%s")
