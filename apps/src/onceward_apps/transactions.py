"""A transaction of a command's own, in which rows of the application and tasks come to be together, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from onceward import App

PATIENCE_MS = 60_000
"""How long a command waits for another one that writes."""


class Direct:
    """A connection with an open transaction: functions of rows take it, and `raw` goes into `app.enqueue(conn=…)`."""

    def __init__(self, raw: Any, dialect: Literal["sqlite", "postgres"]) -> None:
        self.raw = raw
        self.dialect = dialect

    def execute(self, sql: str, params: Any = ()) -> Any:
        """Run one statement."""
        return self.raw.execute(sql, params)

    def executemany(self, sql: str, rows: Any) -> None:
        """Run one statement for many rows."""
        self.raw.cursor().executemany(sql, rows)


@contextmanager
def transaction(app: App) -> Iterator[Direct]:
    """A transaction on the database of an app that was prepared. It is committed at the end, or undone by an error."""
    if app.dialect == "postgres":
        import psycopg

        with psycopg.connect(app.url) as connection:
            yield Direct(connection, "postgres")
        return
    import apsw

    file = apsw.Connection(app.url.removeprefix("sqlite:///"), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        file.set_busy_timeout(PATIENCE_MS)
        file.execute("PRAGMA foreign_keys = on")
        file.execute("BEGIN IMMEDIATE")
        try:
            yield Direct(file, "sqlite")
        except BaseException:
            file.execute("ROLLBACK")
            raise
        file.execute("COMMIT")
    finally:
        file.close()
