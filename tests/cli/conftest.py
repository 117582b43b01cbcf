"""The command line on both databases: in this process where that is the same thing, as a real process where not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from onceward import App
from onceward.cli import main
from tests.cli import shop
from tests.conftest import postgres_database


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """What it printed, which is one JSON document."""
        return json.loads(self.out)


Ask = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _plain_surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONCEWARD_APP", "ONCEWARD_DB", "ONCEWARD_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """Carries out a command line in this process."""

    def asked(*arguments: object) -> Answer:
        capsys.readouterr()
        code = main([str(one) for one in arguments])
        return Answer(code, *capsys.readouterr())

    return asked


@pytest.fixture
def command() -> Ask:
    """Runs the command as a process of its own."""

    def ran(*arguments: object, **environment: str) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "onceward", *(str(one) for one in arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, **environment},
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return ran


@pytest.fixture(params=["sqlite", "postgres"])
def empty_url(request: pytest.FixtureRequest) -> str:
    """An empty database, once of each kind."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """The same with the engine's tables."""
    found: str = request.getfixturevalue(f"migrated_{request.param}_url")
    return found


@pytest.fixture
def app(url: str) -> Iterator[App]:
    """The shop on that database, before its first order."""
    made = shop.app.on(url)
    made.prepare()
    yield made
    made.close()


@pytest.fixture
def worked(app: App) -> App:
    """The shop after five orders, 1 to 5, one for each fate, and a worker that has done what could be done."""
    return _work(app)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def unchanged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """The same for tests that only look: they share it."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            url = f"sqlite:///{tmp_path_factory.mktemp('shop') / 'shop.db'}"
        else:
            server: str = request.getfixturevalue("postgres_server_url")
            url = stack.enter_context(postgres_database(server, request.getfixturevalue("postgres_pattern")))
        yield _work(stack.enter_context(shop.app.on(url)))


def _work(app: App) -> App:
    app.enqueue_many([shop.Order(f"thing {fate}", fate) for fate in shop.FATES])
    app.run(until_idle=True)
    return app
