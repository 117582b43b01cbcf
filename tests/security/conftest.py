"""Both databases, empty, for tests of what an attacker or an accident can bring into them."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A database with the engine's tables and nothing in them, once of each kind."""
    url: str = request.getfixturevalue(
        {"sqlite": "migrated_sqlite_url", "postgres": "emptied_postgres_url"}[request.param]
    )
    return url
