"""Real processes on real databases: a test runs on a SQLite file and on PostgreSQL, unless it says otherwise."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults import fleet as fleets_
from tests.faults.fleet import Fleet, Fleets
from tests.nursery import ROOT


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
