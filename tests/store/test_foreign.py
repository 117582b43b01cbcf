"""Enqueueing in the caller's own transaction, with real connections of every library that is supported."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import apsw
import psycopg
import pytest

from onceward.errors import ConfigError, SchemaTooOld, WrongTwin
from onceward.model.task import NewTask
from onceward.model.times import StoreClock, SystemClock
from onceward.store.drivers.caller_connection import async_driver_for, driver_for
from onceward.store.drivers.caller_driver import sqlite3_state
from onceward.store.drivers.migrate import migrate
from onceward.store.drivers.postgres import PostgresSession
from onceward.store.drivers.session import Session
from onceward.store.drivers.sqlite import SqliteSession
from onceward.store.lines.enqueue import enqueue
from onceward.store.op import Op, Query, adrive, drive
from tests.store import callers
from tests.store.callers import file_of

NOW = 1_700_000_000_000
TASKS = [
    NewTask("note", 1, "default", 2, None, b"i" * 16, payload, uuid.UUID(int=7), due_at, NOW)
    for payload, due_at in [(b"{}", NOW), (b"x" * 5_000, NOW), (b"{}", NOW + 60_000)]
]
"""One that is ready, one with a payload that goes to a blob, one for later."""


class Found(NamedTuple):
    """What stands in a database after a test: tasks, places in line, and rows of the caller's own."""

    tasks: list[int]
    ready: list[int]
    due: list[int]
    blobs: int
    own: int


NOTHING = Found([], [], [], 0, 0)
EVERYTHING = Found([1, 2, 3], [1, 2], [3], 1, 1)


def migrate_and_leave(url: str) -> None:
    """Give a database our tables and one of the caller's own; nobody is connected to it afterwards."""
    clock = StoreClock(SystemClock())
    session: Session = SqliteSession(file_of(url), clock) if url.startswith("sqlite") else PostgresSession(url, clock)
    migrate(session, NOW)
    session.opened().execute("CREATE TABLE own (number integer)")
    session.close()


@pytest.fixture(scope="module")
def sqlite_pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file to copy: that takes less time than to migrate."""
    pattern = tmp_path_factory.mktemp("pattern") / "onceward.db"
    migrate_and_leave(f"sqlite:///{pattern}")
    return pattern


@pytest.fixture(scope="module")
def postgres_place(postgres_server_url: str) -> str:
    """A database to empty: that takes less time than to migrate."""
    with psycopg.connect(postgres_server_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE foreign_transactions")
    place = postgres_server_url.replace("/postgres?", "/foreign_transactions?", 1)
    migrate_and_leave(place)
    return place


@pytest.fixture
def url(database: str, request: pytest.FixtureRequest, sqlite_url: str) -> str:
    """The address of a database with our tables and one of the caller's own, all empty."""
    if "psycopg2" in request.node.callspec.id:
        pytest.importorskip("psycopg2")
    if database == "sqlite":
        shutil.copy(request.getfixturevalue("sqlite_pattern"), file_of(sqlite_url))
        return sqlite_url
    place: str = request.getfixturevalue("postgres_place")
    with psycopg.connect(place) as connection:
        connection.execute(
            "TRUNCATE own, onceward_task, onceward_blob, onceward_ready, onceward_due, onceward_checkpoint, "
            "onceward_cache RESTART IDENTITY"
        )
    return place


def found(url: str, library: Callable[[str], Any] = sqlite3.connect) -> Found:
    """Look at a database from a connection of its own; through the library, if it is a file, that has it open."""
    connection: Any = library(file_of(url)) if url.startswith("sqlite") else psycopg.connect(url)
    with closing(connection):

        def column(query: str) -> list[int]:
            return [row[0] for row in connection.execute(query).fetchall()]

        return Found(
            column("SELECT id FROM onceward_task ORDER BY id"),
            column("SELECT task FROM onceward_ready ORDER BY task"),
            column("SELECT task FROM onceward_due ORDER BY task"),
            column("SELECT count(*) FROM onceward_blob")[0],
            column("SELECT count(*) FROM own")[0],
        )


def cut_off() -> Op[None]:
    """An enqueue that fails after it has inserted tasks."""
    yield from enqueue(TASKS, NOW)
    yield Query("store_signal", {"task": None, "name": "x", "number": 1, "value": b"1", "now": NOW})


def every(kinds: Mapping[str, Mapping[str, Any]]) -> Callable[[Any], Any]:
    """Run a test for each kind of caller, on the database that it connects to."""
    chosen = [
        pytest.param(database, open_one, id=f"{database}-{name}")
        for database, by_name in kinds.items()
        for name, open_one in by_name.items()
    ]
    return pytest.mark.parametrize(("database", "open_caller"), chosen)


@pytest.fixture
def async_url(url: str, request: pytest.FixtureRequest) -> str:
    """The same, where the libraries are there: awaited connections of SQLAlchemy need more than SQLAlchemy."""
    if "SQLAlchemy" in request.node.callspec.id:
        pytest.importorskip("greenlet")
    if "sqlite" in request.node.callspec.id:
        pytest.importorskip("aiosqlite")
    return url


@every(callers.IN_A_TRANSACTION)
def test_what_is_committed_is_in_line_once(url: str, open_caller: Any) -> None:
    with open_caller(url) as caller:
        driver = driver_for(caller.connection)
        with driver.framed():
            ids = drive(enqueue(TASKS, NOW), driver)
        caller.execute("INSERT INTO own VALUES (1)")
        caller.commit()
    assert ids == [1, 2, 3]
    assert found(url) == EVERYTHING


@every(callers.IN_A_TRANSACTION)
def test_what_is_rolled_back_was_never_enqueued(url: str, open_caller: Any) -> None:
    with open_caller(url) as caller:
        driver = driver_for(caller.connection)
        with driver.framed():
            drive(enqueue(TASKS, NOW), driver)
        caller.execute("INSERT INTO own VALUES (1)")
        caller.rollback()
    assert found(url) == NOTHING


@every(callers.IN_A_TRANSACTION)
def test_after_an_error_the_callers_transaction_goes_on(url: str, open_caller: Any) -> None:
    with open_caller(url) as caller:
        caller.execute("INSERT INTO own VALUES (1)")
        driver = driver_for(caller.connection)
        with pytest.raises(Exception, match=r"(?i)not.null"), driver.framed():
            drive(cut_off(), driver)
        caller.commit()
    assert found(url) == NOTHING._replace(own=1)


@every(callers.IN_A_TRANSACTION)
def test_an_error_in_the_first_statement_leaves_nothing(url: str, open_caller: Any) -> None:
    with open_caller(url) as caller:
        driver = driver_for(caller.connection)
        with pytest.raises(Exception, match=r"(?i)not.null"), driver.framed():
            drive(cut_off(), driver)
        caller.execute("INSERT INTO own VALUES (1)")
        caller.commit()
    assert found(url) == NOTHING._replace(own=1)


@every(callers.COMMITTING)
def test_a_connection_that_commits_each_statement_commits_an_enqueue_whole(url: str, open_caller: Any) -> None:
    with open_caller(url) as caller:
        library = apsw.Connection if isinstance(caller.connection, apsw.Connection) else sqlite3.connect
        driver = driver_for(caller.connection)
        with pytest.raises(Exception, match=r"(?i)not.null"), driver.framed():
            drive(cut_off(), driver)
        assert found(url, library) == NOTHING
        with driver.framed():
            ids = drive(enqueue(TASKS, NOW), driver)
        assert found(url, library)._replace(own=1) == EVERYTHING._replace(tasks=ids, ready=ids[:2], due=ids[2:])


@every(callers.AWAITED_IN_A_TRANSACTION)
def test_awaited_what_is_committed_is_in_line_once(async_url: str, open_caller: Any) -> None:
    async def program() -> list[int]:
        async with open_caller(async_url) as caller:
            driver = async_driver_for(caller.connection)
            async with driver.aframed():
                ids = await adrive(enqueue(TASKS, NOW), driver)
            await caller.execute("INSERT INTO own VALUES (1)")
            await caller.commit()
        return ids

    assert asyncio.run(program()) == [1, 2, 3]
    assert found(async_url) == EVERYTHING


@every(callers.AWAITED_IN_A_TRANSACTION)
def test_awaited_what_is_rolled_back_was_never_enqueued(async_url: str, open_caller: Any) -> None:
    async def program() -> None:
        async with open_caller(async_url) as caller:
            driver = async_driver_for(caller.connection)
            async with driver.aframed():
                await adrive(enqueue(TASKS, NOW), driver)
            await caller.execute("INSERT INTO own VALUES (1)")
            await caller.rollback()

    asyncio.run(program())
    assert found(async_url) == NOTHING


@every(callers.AWAITED_IN_A_TRANSACTION)
def test_awaited_after_an_error_the_callers_transaction_goes_on(async_url: str, open_caller: Any) -> None:
    async def program() -> None:
        async with open_caller(async_url) as caller:
            await caller.execute("INSERT INTO own VALUES (1)")
            driver = async_driver_for(caller.connection)
            with pytest.raises(Exception, match=r"(?i)not.null"):
                async with driver.aframed():
                    await adrive(cut_off(), driver)
            await caller.commit()

    asyncio.run(program())
    assert found(async_url) == NOTHING._replace(own=1)


@every(callers.AWAITED_COMMITTING)
def test_awaited_a_connection_that_commits_each_statement_commits_an_enqueue_whole(
    async_url: str, open_caller: Any
) -> None:
    async def program() -> list[int]:
        async with open_caller(async_url) as caller:
            driver = async_driver_for(caller.connection)
            with pytest.raises(Exception, match=r"(?i)not.null"):
                async with driver.aframed():
                    await adrive(cut_off(), driver)
            assert found(async_url) == NOTHING
            async with driver.aframed():
                return await adrive(enqueue(TASKS, NOW), driver)

    ids = asyncio.run(program())
    assert found(async_url)._replace(own=1) == EVERYTHING._replace(tasks=ids, ready=ids[:2], due=ids[2:])


@every({"postgres": {"asyncpg": callers.asyncpg_outside_a_transaction}})
def test_a_cancelled_enqueue_leaves_nothing(url: str, open_caller: Any) -> None:
    async def program() -> None:
        async with open_caller(url) as caller:
            driver = async_driver_for(caller.connection)
            framed = driver.aframed()
            await framed.__aenter__()
            await adrive(enqueue(TASKS, NOW), driver)
            assert not await framed.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None)
            assert not caller.connection.is_in_transaction()

    asyncio.run(program())
    assert found(url) == NOTHING


@pytest.mark.parametrize(("database", "library"), [("sqlite", "sqlite3"), ("postgres", "psycopg")])
def test_a_database_without_our_tables_is_named_as_such(
    database: str, library: str, request: pytest.FixtureRequest
) -> None:
    with callers.IN_A_TRANSACTION[database][library](request.getfixturevalue(f"{database}_url")) as caller:
        driver = driver_for(caller.connection)
        with pytest.raises(SchemaTooOld, match="onceward migrate"), driver.framed():
            drive(enqueue(TASKS, NOW), driver)


@pytest.mark.parametrize("make", [driver_for, async_driver_for])
def test_what_cannot_be_joined_is_refused_with_a_list_of_what_can(make: Callable[[object], object]) -> None:
    with pytest.raises(ConfigError, match=r"given builtins\.str.*sqlite3, apsw or psycopg.*Django|django.*asyncpg"):
        make("sqlite:///onceward.db")


def test_an_awaited_connection_is_not_taken_by_the_blocking_form(postgres_url: str) -> None:
    async def program() -> None:
        async with callers.by_asyncpg(postgres_url) as caller:
            with pytest.raises(WrongTwin, match=r"await app\.aenqueue"):
                driver_for(caller.connection)

    asyncio.run(program())


def test_a_blocking_connection_is_not_taken_by_the_awaited_form() -> None:
    with closing(sqlite3.connect(":memory:")) as connection, pytest.raises(WrongTwin, match=r"app\.enqueue"):
        async_driver_for(connection)


@pytest.mark.parametrize(
    ("attributes", "commits_each_statement"),
    [
        ({"isolation_level": None}, True),
        ({"isolation_level": "DEFERRED"}, False),
        ({"isolation_level": None, "autocommit": -1}, True),
        ({"isolation_level": "", "autocommit": -1}, False),
        ({"isolation_level": "", "autocommit": True}, True),
        ({"isolation_level": None, "autocommit": False}, False),
    ],
)
def test_autocommit_of_newer_pythons_goes_before_the_isolation_level(
    attributes: dict[str, Any], commits_each_statement: bool
) -> None:
    connection = SimpleNamespace(in_transaction=False, **attributes)
    assert sqlite3_state(connection).commits_each_statement is commits_each_statement


def test_no_library_is_imported_to_recognise_a_connection() -> None:
    program = "import sys, onceward.store.drivers.caller_connection as f; f._class_names(1); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"sqlite3", "psycopg", "asyncpg", "sqlalchemy", "django"} & set(loaded)
