"""The worker on both databases, with a clock moved by hand. Whatever a test leaves behind must pass `verify`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import pytest

from onceward import App, Connection, Migration, Pipeline
from onceward.model.task import Lease
from onceward.store.drivers.session import Session
from onceward.store.op import Op, drive
from onceward.testing import FakeClock, Harness
from tests.store import trouble
from tests.store.conftest import NOON, Hands

store_trouble, trouble_is_counted = trouble.store_trouble, trouble.trouble_is_counted
TROUBLED = ("test_joins", "test_resume")
"""Modules whose tests run once more with a store that has trouble, also where nobody has asked for it."""

NOTES = Migration("notes", "CREATE TABLE note (task integer NOT NULL, text varchar(40) NOT NULL CHECK (text <> ''))")
"""A table of the application's own."""


def insert_note(connection: Connection, task: int, text: str) -> None:
    """A row of it, on either database."""
    marks = "?, ?" if connection.dialect == "sqlite" else "%s, %s"
    connection.execute(f"INSERT INTO note (task, text) VALUES ({marks})", (task, text))


def notes(app: App) -> list[tuple[int, str]]:
    """All its rows, in order."""
    return app.read(lambda connection: sorted(connection.execute("SELECT task, text FROM note").fetchall()))


class Start(Protocol):
    """Starts an app of some pipelines on the database of this test."""

    def __call__(self, *pipelines: Pipeline[Any], after: Harness | None = None, **options: Any) -> Harness: ...


def lease(task: int) -> Lease:
    """The right to a job that nobody has run yet."""
    return Lease(
        task=task, fence=1, token=b"t" * 16, worker=1, run=1, kind="job", version=1, queue="default", band=2, rank=0,
        stage=None, payload=b"{}", failures=0, crashes=0, company=0, deferrals=0, signals=0, touched=0,
        lineage_bytes=bytes(16), parent=None, depth=0, created_at=0, started_at=0,
    )  # fmt: skip


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    trouble.vary(metafunc, TROUBLED)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A database with nothing in it but the engine's tables, once of each kind."""
    url: str = request.getfixturevalue("migrated_sqlite_url" if request.param == "sqlite" else "emptied_postgres_url")
    return url


@pytest.fixture
def start(store_url: str) -> Iterator[Start]:
    """Starts apps, one after the other, and in the end verifies what they have left behind."""
    started: list[Harness] = []

    def start_one(*pipelines: Pipeline[Any], after: Harness | None = None, **options: Any) -> Harness:
        harness = Harness(App("sqlite:///:memory:", pipelines, **options), url=store_url)
        if after is not None:  # time has not stood still since
            harness.clock.advance((after.clock.now() - harness.clock.now()) / 1_000)
        started.append(harness)
        return harness

    yield start_one
    try:
        for harness in started:
            assert_verified(harness.app)
    finally:
        for harness in started:
            harness.app.close()


def assert_verified(app: App) -> None:
    """Every promise of the engine holds."""
    breaches = [breach.sentence for check in app.verify().checks for breach in check.breaches]
    assert breaches == []


class Clockwork:
    """Sessions of workers on the database of a test, all on one clock that the test moves."""

    def __init__(self, url: str) -> None:
        self.clock = FakeClock(NOON)
        self.app = App(url).on(url, clock=self.clock)
        self.app.prepare()
        self.opened: list[Session] = []

    def session(self) -> Session:
        """A connection of its own."""
        self.opened.append(self.app._store.session(patience_s=5))
        return self.opened[-1]

    def hands(self) -> Hands:
        """The engine's operations, driven by hand."""
        hands = Hands(self.session())
        hands.now = self.clock.now()
        return hands


@pytest.fixture
def clockwork(store_url: str) -> Iterator[Clockwork]:
    """A migrated database and a clock; in the end it is verified."""
    made = Clockwork(store_url)
    yield made
    try:
        assert_verified(made.app)
    finally:
        for session in made.opened:
            session.close()
        made.app.close()


@pytest.fixture
def hands(clockwork: Clockwork) -> Hands:
    """The engine's operations, driven by hand on a migrated database."""
    return clockwork.hands()


def ask(session: Session, operation: Callable[[], Op[Any]]) -> Any:
    """Run an operation that only reads."""
    return drive(operation(), session)


def words(harness: Harness, task: Any) -> list[str]:
    """What has happened to a task, in words."""
    return [one.event.word for one in harness.task(task).history]


def statuses(harness: Harness, tasks: Sequence[Any]) -> list[str]:
    """Where tasks stand, in words."""
    return [harness.task(task).status.word for task in tasks]


@pytest.fixture
def sqlite_harness_of() -> Iterator[Callable[..., Harness]]:
    """Starts apps in memory, for what only SQLite does; in the end verified."""
    started: list[Harness] = []

    def start_one(*pipelines: Pipeline[Any], **options: Any) -> Harness:
        started.append(Harness(App("sqlite:///:memory:", pipelines, **options)))
        return started[-1]

    yield start_one
    for harness in started:
        assert_verified(harness.app)
        harness.app.close()
