"""Enqueueing inside the caller's own transaction: tasks are in line when it commits, and never were if it rolls back.

Errors of the caller's driver pass unchanged.

Connections are recognised by the names of their classes, so that no library is imported that the caller does not use.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from onceward.errors import ConfigError, WrongTwin
from onceward.model.connection import Dialect
from onceward.store import queries
from onceward.store.drivers.caller_driver import (
    AsyncCallerDriver,
    CallerDriver,
    Placeholder,
    TransactionState,
    psycopg_state,
    sqlite3_state,
)
from onceward.store.op import Rows

_ACCEPTED = (
    "enqueue takes a connection of sqlite3, apsw or psycopg, a Connection or Session of SQLAlchemy, or "
    "django.db.connection; aenqueue takes a psycopg.AsyncConnection, a connection of asyncpg, or an AsyncConnection "
    "or AsyncSession of SQLAlchemy; the database is SQLite or PostgreSQL"
)


class _Sqlite3(CallerDriver):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection, "sqlite", queries.colon)

    def execute(self, text: str, params: Any = None) -> Rows:
        cursor = self._connection.cursor()
        cursor.row_factory = None
        rows: Rows = cursor.execute(text, params or {}).fetchall()
        return rows

    def state(self) -> TransactionState:
        return sqlite3_state(self._connection)


class _Apsw(CallerDriver):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection, "sqlite", queries.colon)

    def execute(self, text: str, params: Any = None) -> Rows:
        cursor = self._connection.cursor()
        cursor.row_trace = lambda _cursor, row: row  # in place of one of the connection's
        rows: Rows = cursor.execute(text, params).fetchall()
        return rows

    def state(self) -> TransactionState:
        return TransactionState(self._connection.in_transaction, True)


@cache
def _plain_adapters() -> Any:
    """The adapters of psycopg itself, without any that were registered for a connection or globally."""
    from types import SimpleNamespace

    from psycopg import adapt, postgres

    plain = adapt.AdaptersMap(types=postgres.types)
    postgres.register_default_adapters(SimpleNamespace(adapters=plain, connection=None))
    return plain


def _use_plain_adapters(cursor: Any) -> None:
    """Let a cursor use psycopg's own adapters, whatever the caller has registered on the connection."""
    from psycopg.adapt import AdaptersMap

    cursor._adapters = AdaptersMap(_plain_adapters())
    cursor._reset()


class _Psycopg(CallerDriver):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection, "postgres", queries.percent)

    def execute(self, text: str, params: Any = None) -> Rows:
        from psycopg import Cursor, rows

        # Not the connection's own cursor and row factories: they may take other placeholders or return other rows.
        with Cursor(self._connection, row_factory=rows.tuple_row) as cursor:
            _use_plain_adapters(cursor)
            if self._connection.pgconn.pipeline_status:  # in a pipeline no rows come back before its end
                with self._connection.pipeline():
                    cursor.execute(text, params)
            else:
                cursor.execute(text, params)
            return cursor.fetchall() if cursor.description else []

    def state(self) -> TransactionState:
        return psycopg_state(self._connection)


class _AsyncPsycopg(AsyncCallerDriver):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection, "postgres", queries.percent)

    async def aexecute(self, text: str, params: Any = None) -> Rows:
        from psycopg import AsyncCursor, rows

        async with AsyncCursor(self._connection, row_factory=rows.tuple_row) as cursor:
            _use_plain_adapters(cursor)
            if self._connection.pgconn.pipeline_status:
                async with self._connection.pipeline():
                    await cursor.execute(text, params)
            else:
                await cursor.execute(text, params)
            return await cursor.fetchall() if cursor.description else []

    async def astate(self) -> TransactionState:
        return psycopg_state(self._connection)


_ARRAY = re.compile(r"(\$\d+)::(?!text\b)(?=\w+\[\])")


@cache
def _with_arrays_of_texts(text: str) -> str:
    return _ARRAY.sub(r"\1::text[]::", text)


def _as_text(value: Any) -> str | None:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"\\x{value.hex()}"
    return None if value is None else str(value)


class _Asyncpg(AsyncCallerDriver):
    """Runs statements without the codecs that the caller has set, which asyncpg would still use inside arrays.

    So arrays are sent as arrays of texts, whose codec asyncpg never replaces.
    """

    def __init__(self, connection: Any) -> None:
        super().__init__(connection, "postgres", queries.dollar)

    async def aexecute(self, text: str, params: Any = None) -> Rows:
        from asyncpg import Record

        values = [[_as_text(one) for one in value] if isinstance(value, list) else value for value in params or ()]
        rows: Rows = await self._connection._execute(
            _with_arrays_of_texts(text), values, 0, None, ignore_custom_codec=True, record_class=Record
        )
        return rows

    async def astate(self) -> TransactionState:
        return TransactionState(self._connection.is_in_transaction(), True)


_DJANGO_DIALECTS: dict[str, Dialect] = {"sqlite": "sqlite", "postgresql": "postgres"}


class _Django(CallerDriver):
    """Runs statements through Django's cursor, so that its logs and wrappers see them."""

    def __init__(self, connection: Any) -> None:
        if connection.vendor not in _DJANGO_DIALECTS:
            raise ConfigError(f"a Django connection to {connection.vendor} cannot enqueue; {_ACCEPTED}")
        super().__init__(connection, _DJANGO_DIALECTS[connection.vendor], queries.percent)

    def execute(self, text: str, params: Any = None) -> Rows:
        with self._connection.cursor() as cursor:
            cursor.execute(text, params)
            return cursor.fetchall() if cursor.description else []

    def state(self) -> TransactionState:
        self._connection.ensure_connection()
        raw = self._connection.connection
        return sqlite3_state(raw) if self.dialect == "sqlite" else psycopg_state(raw)


_SQLALCHEMY_DIALECTS: dict[tuple[str, str], tuple[Dialect, Placeholder]] = {
    ("sqlite", "pysqlite"): ("sqlite", queries.colon),
    ("sqlite", "aiosqlite"): ("sqlite", queries.colon),
    ("postgresql", "psycopg"): ("postgres", queries.percent),
    ("postgresql", "psycopg2"): ("postgres", queries.percent),
    ("postgresql", "asyncpg"): ("postgres", queries.dollar),
}


def _sqlalchemy_spelling(dialect: Any) -> tuple[Dialect, Placeholder]:
    try:
        return _SQLALCHEMY_DIALECTS[dialect.name, dialect.driver]
    except KeyError:
        known = ", ".join(f"{name}+{driver}" for name, driver in _SQLALCHEMY_DIALECTS)
        raise ConfigError(f"SQLAlchemy on {dialect.name}+{dialect.driver} cannot enqueue; it can on {known}") from None


_ENQUEUE_TYPES = {"bool": 16, "bytea": 17, "bigint": 20, "smallint": 21, "integer": 23, "text": 25, "uuid": 2950}
"""The types in statements of an enqueue, with their numbers in PostgreSQL."""


def _refuse_codecs(connection: Any) -> None:
    """Refuse an asyncpg connection with codecs of the caller that SQLAlchemy would use for an enqueue."""
    codec = connection.get_settings().get_data_codec
    for name, oid in _ENQUEUE_TYPES.items():
        if codec(oid) is not codec(oid, ignore_custom_codec=True):
            raise ConfigError(
                f"this connection has a codec of your own for {name}, which SQLAlchemy would use for the rows of a "
                "task too; enqueue on a connection without it, or on the connection of asyncpg itself"
            )


class _Sqlalchemy(CallerDriver):
    """Runs statements through SQLAlchemy's connection, which knows of the transaction and logs them."""

    def __init__(self, given: Any) -> None:
        connection = given.connection() if hasattr(given, "get_bind") else given  # a session begins here
        super().__init__(connection, *_sqlalchemy_spelling(connection.dialect))

    def execute(self, text: str, params: Any = None) -> Rows:
        result = self._connection.exec_driver_sql(text, params)
        rows: Rows = result.fetchall() if result.returns_rows else []
        return rows

    def state(self) -> TransactionState:
        if not self._connection.in_transaction():
            self._connection.begin()  # as it would at the first statement; a listener may send BEGIN there
        driver = self._connection.connection.driver_connection
        match self._connection.dialect.driver:
            case "pysqlite" | "aiosqlite":
                return sqlite3_state(driver)
            case "asyncpg":
                _refuse_codecs(driver)
                return TransactionState(
                    driver.is_in_transaction(), self._connection.connection.dbapi_connection.autocommit
                )
        return psycopg_state(driver)


class _AsyncSqlalchemy(AsyncCallerDriver):
    """Runs the blocking driver as SQLAlchemy runs blocking code on an awaited connection."""

    def __init__(self, given: Any) -> None:
        given = given() if callable(given) else given  # the session of a scope
        bind = given.get_bind() if hasattr(given, "get_bind") else given
        super().__init__(given, *_sqlalchemy_spelling(bind.dialect))

    async def aexecute(self, text: str, params: Any = None) -> Rows:
        rows: Rows = await self._connection.run_sync(lambda given: _Sqlalchemy(given).execute(text, params))
        return rows

    async def astate(self) -> TransactionState:
        state: TransactionState = await self._connection.run_sync(lambda given: _Sqlalchemy(given).state())
        return state


_BLOCKING: dict[str, Callable[[Any], CallerDriver]] = {
    "sqlite3.Connection": _Sqlite3,
    "apsw.Connection": _Apsw,
    "psycopg.Connection": _Psycopg,
    "sqlalchemy.engine.base.Connection": _Sqlalchemy,
    "sqlalchemy.orm.session.Session": _Sqlalchemy,
    "sqlalchemy.orm.scoping.scoped_session": _Sqlalchemy,
    "django.db.backends.base.base.BaseDatabaseWrapper": _Django,
    "django.utils.connection.ConnectionProxy": _Django,
}
_AWAITED: dict[str, Callable[[Any], AsyncCallerDriver]] = {
    "psycopg.AsyncConnection": _AsyncPsycopg,
    "asyncpg.connection.Connection": _Asyncpg,
    "asyncpg.pool.PoolConnectionProxy": _Asyncpg,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _AsyncSqlalchemy,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _AsyncSqlalchemy,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": _AsyncSqlalchemy,
}


def driver_for(connection: object) -> CallerDriver:
    """The driver for a blocking connection of the caller."""
    for name in _class_names(connection):
        if name in _BLOCKING:
            return _BLOCKING[name](connection)
        if name in _AWAITED:
            raise WrongTwin(f"{name} is awaited; use: await app.aenqueue(..., conn=...)")
    raise _unknown(connection)


def async_driver_for(connection: object) -> AsyncCallerDriver:
    """The driver for an awaited connection of the caller."""
    for name in _class_names(connection):
        if name in _AWAITED:
            return _AWAITED[name](connection)
        if name in _BLOCKING:
            raise WrongTwin(f"{name} blocks; use: app.enqueue(..., conn=...), without await")
    raise _unknown(connection)


def _class_names(connection: object) -> list[str]:
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in type(connection).__mro__]


def _unknown(connection: object) -> ConfigError:
    return ConfigError(
        f"conn= was given {_class_names(connection)[0]}, whose transaction cannot be joined; {_ACCEPTED}"
    )
