"""Connections as programs have them: of every library that enqueue can join, each in the middle of a transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

import apsw
import asyncpg
import django
import psycopg
import sqlalchemy
from django.conf import settings
from psycopg.rows import dict_row
from sqlalchemy.orm import Session, scoped_session, sessionmaker

if not settings.configured:
    settings.configure(USE_TZ=True)
    django.setup()

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Caller:
    """A connection, and what its program does with it."""

    connection: Any
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


Callers = dict[str, Callable[[str], AbstractContextManager[Caller]]]
AsyncCallers = dict[str, Callable[[str], AbstractAsyncContextManager[Caller]]]


def file_of(url: str) -> str:
    """The path in the address of a SQLite file."""
    return url.removeprefix("sqlite:///")


def with_driver(url: str, driver: str) -> str:
    """An address as SQLAlchemy takes it."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}+{driver}://{rest}"


@contextmanager
def _by_sqlite3(url: str, **options: Any) -> Iterator[Caller]:
    connection = sqlite3.connect(file_of(url), **options)
    connection.row_factory = sqlite3.Row
    yield Caller(connection, connection.execute, connection.commit, connection.rollback)
    connection.close()


@contextmanager
def sqlite3_in_a_transaction_it_began(url: str) -> Iterator[Caller]:
    with _by_sqlite3(url, isolation_level=None) as caller:
        caller.execute("BEGIN")
        yield caller


@contextmanager
def by_apsw(url: str, *, begin: bool = True) -> Iterator[Caller]:
    connection = apsw.Connection(file_of(url))
    connection.row_trace = lambda _cursor, row: {"a": row}
    if begin:
        connection.execute("BEGIN")
    yield Caller(
        connection, connection.execute, lambda: connection.execute("COMMIT"), lambda: connection.execute("ROLLBACK")
    )
    connection.close()


@contextmanager
def _by_psycopg(url: str, **options: Any) -> Iterator[Caller]:
    with psycopg.connect(url, row_factory=dict_row, **options) as connection:
        connection.cursor_factory = psycopg.RawCursor
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@contextmanager
def _engine(url: str, driver: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(with_driver(url, driver))
    yield engine
    engine.dispose()


def sqlalchemy_connection(driver: str, **options: Any) -> Callable[[str], AbstractContextManager[Caller]]:
    @contextmanager
    def connected(url: str) -> Iterator[Caller]:
        with _engine(url, driver) as engine, engine.connect().execution_options(**options) as connection:
            yield Caller(connection, connection.exec_driver_sql, connection.commit, connection.rollback)

    return connected


def sqlalchemy_session(driver: str) -> Callable[[str], AbstractContextManager[Caller]]:
    @contextmanager
    def connected(url: str) -> Iterator[Caller]:
        with _engine(url, driver) as engine, Session(engine) as session:
            yield Caller(session, lambda text: session.execute(sqlalchemy.text(text)), session.commit, session.rollback)

    return connected


@contextmanager
def sqlalchemy_scoped_session(url: str) -> Iterator[Caller]:
    with _engine(url, "pysqlite") as engine:
        session = scoped_session(sessionmaker(engine))
        yield Caller(session, lambda text: session.execute(sqlalchemy.text(text)), session.commit, session.rollback)
        session.remove()


@contextmanager
def sqlalchemy_that_begins_by_a_listener(url: str) -> Iterator[Caller]:
    """The recipe of SQLAlchemy's own documentation for transactions of SQLite that begin when it says so."""
    with _engine(url, "pysqlite") as engine:

        @sqlalchemy.event.listens_for(engine, "connect")
        def leave_it_to_us(dbapi_connection: Any, _record: Any) -> None:
            dbapi_connection.isolation_level = None

        @sqlalchemy.event.listens_for(engine, "begin")
        def begin(connection: Any) -> None:
            connection.exec_driver_sql("BEGIN")

        with engine.connect() as connection:
            yield Caller(connection, connection.exec_driver_sql, connection.commit, connection.rollback)


def _django_settings(url: str) -> dict[str, Any]:
    if url.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": file_of(url)}
    info = psycopg.conninfo.conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": info["dbname"],
        "USER": info["user"],
        "HOST": info["host"],
    }


@contextmanager
def _django(url: str) -> Iterator[Any]:
    from django.db import ConnectionHandler, connections
    from django.utils.connection import ConnectionProxy

    alias = f"test_{next(_numbers)}"
    made = ConnectionHandler({"default": _django_settings(url)})
    connections.settings[alias] = made.settings["default"]
    yield ConnectionProxy(connections, alias)
    connections[alias].close()
    del connections[alias], connections.settings[alias]


def _django_execute(connection: Any) -> Callable[[str], None]:
    def execute(text: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(text)

    return execute


@contextmanager
def django_atomic(url: str) -> Iterator[Caller]:
    from django.db import transaction

    with _django(url) as connection:
        atomic = transaction.atomic(using=connection.alias)
        atomic.__enter__()

        def roll_back() -> None:
            connection.set_rollback(True)
            atomic.__exit__(None, None, None)

        yield Caller(connection, _django_execute(connection), lambda: atomic.__exit__(None, None, None), roll_back)


@contextmanager
def django_without_autocommit(url: str) -> Iterator[Caller]:
    with _django(url) as connection:
        connection.set_autocommit(False)
        yield Caller(connection, _django_execute(connection), connection.commit, connection.rollback)


@contextmanager
def django_with_autocommit(url: str) -> Iterator[Caller]:
    with _django(url) as connection:
        yield Caller(connection, _django_execute(connection), connection.commit, connection.rollback)


@asynccontextmanager
async def _by_async_psycopg(url: str, **options: Any) -> AsyncIterator[Caller]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row, **options) as connection:
        yield Caller(connection, connection.execute, connection.commit, connection.rollback)


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    yield Caller(connection, connection.execute, transaction.commit, transaction.rollback)
    await connection.close()


@asynccontextmanager
async def by_asyncpg_with_its_own_begin(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)
    await connection.execute("BEGIN")
    yield Caller(
        connection,
        connection.execute,
        lambda: connection.execute("COMMIT"),
        lambda: connection.execute("ROLLBACK"),
    )
    await connection.close()


@asynccontextmanager
async def by_asyncpg_pool(url: str) -> AsyncIterator[Caller]:
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield Caller(connection, connection.execute, transaction.commit, transaction.rollback)


@asynccontextmanager
async def asyncpg_outside_a_transaction(url: str) -> AsyncIterator[Caller]:
    connection = await asyncpg.connect(url)

    async def nothing() -> None:
        pass

    yield Caller(connection, connection.execute, nothing, nothing)
    await connection.close()


def async_sqlalchemy_connection(driver: str, **options: Any) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def connected(url: str) -> AsyncIterator[Caller]:
        from sqlalchemy.ext.asyncio import create_async_engine

        engine = create_async_engine(with_driver(url, driver)).execution_options(**options)
        async with engine.connect() as connection:
            yield Caller(connection, connection.exec_driver_sql, connection.commit, connection.rollback)
        await engine.dispose()

    return connected


def async_sqlalchemy_session(
    driver: str, *, scoped: bool = False
) -> Callable[[str], AbstractAsyncContextManager[Caller]]:
    @asynccontextmanager
    async def connected(url: str) -> AsyncIterator[Caller]:
        from sqlalchemy.ext.asyncio import async_scoped_session, async_sessionmaker, create_async_engine

        engine = create_async_engine(with_driver(url, driver))
        make = async_sessionmaker(engine)
        session: Any = async_scoped_session(make, scopefunc=lambda: None) if scoped else make()
        yield Caller(session, lambda text: session.execute(sqlalchemy.text(text)), session.commit, session.rollback)
        await session.close()
        await engine.dispose()

    return connected


IN_A_TRANSACTION: dict[str, Callers] = {
    "sqlite": {
        "sqlite3": _by_sqlite3,
        "sqlite3 that began": sqlite3_in_a_transaction_it_began,
        "apsw": by_apsw,
        "SQLAlchemy connection": sqlalchemy_connection("pysqlite"),
        "SQLAlchemy session": sqlalchemy_session("pysqlite"),
        "SQLAlchemy scoped session": sqlalchemy_scoped_session,
        "SQLAlchemy with a listener": sqlalchemy_that_begins_by_a_listener,
        "Django atomic": django_atomic,
        "Django without autocommit": django_without_autocommit,
    },
    "postgres": {
        "psycopg": _by_psycopg,
        "SQLAlchemy connection": sqlalchemy_connection("psycopg"),
        "SQLAlchemy session": sqlalchemy_session("psycopg"),
        "SQLAlchemy connection, psycopg2": sqlalchemy_connection("psycopg2"),
        "Django atomic": django_atomic,
        "Django without autocommit": django_without_autocommit,
    },
}
COMMITTING: dict[str, Callers] = {
    "sqlite": {
        "sqlite3": lambda url: _by_sqlite3(url, isolation_level=None),
        "apsw": lambda url: by_apsw(url, begin=False),
        "SQLAlchemy": sqlalchemy_connection("pysqlite", isolation_level="AUTOCOMMIT"),
        "Django": django_with_autocommit,
    },
    "postgres": {
        "psycopg": lambda url: _by_psycopg(url, autocommit=True),
        "SQLAlchemy": sqlalchemy_connection("psycopg", isolation_level="AUTOCOMMIT"),
        "SQLAlchemy, psycopg2": sqlalchemy_connection("psycopg2", isolation_level="AUTOCOMMIT"),
        "Django": django_with_autocommit,
    },
}
AWAITED_IN_A_TRANSACTION: dict[str, AsyncCallers] = {
    "sqlite": {
        "SQLAlchemy connection": async_sqlalchemy_connection("aiosqlite"),
        "SQLAlchemy session": async_sqlalchemy_session("aiosqlite"),
    },
    "postgres": {
        "psycopg": _by_async_psycopg,
        "asyncpg": by_asyncpg,
        "asyncpg that began": by_asyncpg_with_its_own_begin,
        "asyncpg pool": by_asyncpg_pool,
        "SQLAlchemy connection, psycopg": async_sqlalchemy_connection("psycopg"),
        "SQLAlchemy session, psycopg": async_sqlalchemy_session("psycopg"),
        "SQLAlchemy connection, asyncpg": async_sqlalchemy_connection("asyncpg"),
        "SQLAlchemy session, asyncpg": async_sqlalchemy_session("asyncpg"),
        "SQLAlchemy scoped session, asyncpg": async_sqlalchemy_session("asyncpg", scoped=True),
    },
}
AWAITED_COMMITTING: dict[str, AsyncCallers] = {
    "sqlite": {
        "SQLAlchemy": async_sqlalchemy_connection("aiosqlite", isolation_level="AUTOCOMMIT"),
    },
    "postgres": {
        "psycopg": lambda url: _by_async_psycopg(url, autocommit=True),
        "asyncpg": asyncpg_outside_a_transaction,
        "SQLAlchemy, psycopg": async_sqlalchemy_connection("psycopg", isolation_level="AUTOCOMMIT"),
        "SQLAlchemy, asyncpg": async_sqlalchemy_connection("asyncpg", isolation_level="AUTOCOMMIT"),
    },
}
