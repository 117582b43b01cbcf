"""Job finders on both databases, with a clock moved by hand, in a small web of their own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onceward.testing import Harness
from onceward_apps.jobfinder import surroundings
from onceward_apps.jobfinder.finder import jobfinder
from tests.apps.jobfinder.loopback import World
from tests.apps.jobfinder.shared_data import DATA

PROFILE = """
[person]
titles = ["backend engineer"]
levels = ["mid", "senior"]

[skills]
python = 10
postgresql = 8
docker = 6
go = 4
redis = 2

[places]
office = "Portland"
wanted = ["Portland", "Seattle"]
"""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An empty web; the one that this process fetches from."""
    made = World()
    monkeypatch.setenv(surroundings.WEB, json.dumps(made.options()))
    yield made
    made.close()


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A profile, and how it is written anew."""
    path = tmp_path / "profile.toml"
    monkeypatch.setenv(surroundings.PROFILE, str(path))

    def write(text: str) -> None:
        path.write_text(text, encoding="utf-8")

    write(PROFILE)
    return write


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """The address of a database with nothing in it but the engine's tables, once of each kind."""
    name = "migrated_sqlite_url" if request.param == "sqlite" else "emptied_postgres_url"
    found: str = request.getfixturevalue(name)
    return found


@pytest.fixture
def finder(world: World, profile: Callable[[str], None], url: str) -> Iterator[Harness]:
    """A job finder with its worker; in the end it is looked at whether all rules of the engine hold."""
    made = Harness(jobfinder(url, surroundings.profile()), url=url)
    yield made
    try:
        report = made.app.verify()
        assert report.ok, report
    finally:
        made.app.close()


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real answers and files, which is not part of the source."""
    if not DATA.is_dir():
        pytest.skip("there is no folder of real answers; ONCEWARD_DATA names one")
    return DATA
