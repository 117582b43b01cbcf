"""The connection that functions given to `ctx.write` and `ctx.read` receive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

Dialect = Literal["sqlite", "postgres"]


class Rows(Protocol):
    """What `Connection.execute` returns."""

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row."""

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class Connection(Protocol):
    """The connection that functions given to `ctx.write` and `ctx.read` receive."""

    @property
    def dialect(self) -> Dialect:
        """`"sqlite"` or `"postgres"`."""

    def execute(self, sql: str, params: Sequence[Any] | dict[str, Any] = ()) -> Rows:
        """Run one statement. Parameters are `?` or `:name` on SQLite, `%s` or `%(name)s` on PostgreSQL."""

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run one statement for many rows."""
