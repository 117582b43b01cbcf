"""Real processes on real databases: every test here runs on a SQLite file and on PostgreSQL, unless it says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.fleet import Fleet


@pytest.fixture(params=["sqlite", "postgres"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    """A database with the application's tables, and its worker processes; at the end all invariants hold."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    fleet = Fleet(url, tmp_path)
    try:
        yield fleet
        fleet.verified()
    finally:
        fleet.close()


@pytest.fixture
def postgres_fleet(postgres_url: str, tmp_path: Path) -> Iterator[Fleet]:
    """The same on PostgreSQL alone."""
    fleet = Fleet(postgres_url, tmp_path)
    try:
        yield fleet
        fleet.verified()
    finally:
        fleet.close()
