"""Libraries on both databases, with a clock moved by hand. Whatever a test leaves behind must be sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward_apps.documents import app as app_module
from tests.apps.documents.shared_data import DATA
from tests.apps.documents.shelf import Shelf
from tests.conftest import postgres_database


@pytest.fixture(params=["sqlite", "postgres"])
def library_url(request: pytest.FixtureRequest) -> str:
    """The address of a database with nothing in it but the engine's tables, once of each kind."""
    name = "migrated_sqlite_url" if request.param == "sqlite" else "emptied_postgres_url"
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def lasting_library_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an empty database that all tests of a module share, once of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('library') / 'library.db'}"
    else:
        with postgres_database(request.getfixturevalue("postgres_server_url")) as url:
            yield url


@pytest.fixture
def shelf(library_url: str, tmp_path: Path) -> Iterator[Shelf]:
    """A library and a folder of files; in the end it is looked at whether it is sound."""
    made = Shelf(app_module.library(library_url), library_url, tmp_path)
    yield made
    try:
        made.assert_sound()
    finally:
        made.close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real books and papers, which is not part of the source."""
    if not DATA.is_dir():
        pytest.skip("the shared data is not here")
    return DATA
