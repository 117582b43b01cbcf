"""What a single fault of the disk was once passed on as, to people who could not know what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward import App
from onceward.errors import StoreUnavailable
from tests.disk.disk import standing_between
from tests.disk.engine import Order, app_on
from tests.disk.failing import FailingDisk, Fault, Kind


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database with one task."""
    with app_on(tmp_path / "onceward.db") as app:
        app.enqueue(Order(1))
    return tmp_path / "onceward.db"


@pytest.fixture
def app(file: Path) -> Iterator[App]:
    """An app that has not opened it yet."""
    with app_on(file) as made:
        yield made


def failing(file: Path, kind: Kind, number: int) -> FailingDisk:
    """A disk that fails once."""
    return FailingDisk(str(file), Fault(kind, number, "fails", stays=False))


@pytest.mark.parametrize(
    ("kind", "number"),
    [("read", 1), ("open", 2), ("shm map", 1), ("shm lock", 1)],
    ids=["the first page", "the log", "the index of the log", "its lock"],
)
def test_a_file_that_could_not_be_opened_once_is_opened_again(app: App, file: Path, kind: Kind, number: int) -> None:
    disk = failing(file, kind, number)
    with standing_between(disk):
        assert app.enqueue(Order(2)).created
    assert disk.hits == 1


def test_a_file_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    with app_on(tmp_path / "nowhere" / "onceward.db") as app, pytest.raises(StoreUnavailable, match="does not exist"):
        app.enqueue(Order(1))


def test_a_read_that_fails_says_that_it_is_the_database(app: App, file: Path) -> None:
    told = []
    for number in range(1, 13):  # some while it is opened, which is tried again, and some in the function itself
        app.close()
        app.prepare()
        with standing_between(failing(file, "read", number)):
            try:
                app.read(lambda connection: connection.execute("SELECT * FROM onceward_task").fetchall())
            except StoreUnavailable as error:
                told.append(str(error))
    assert told
    assert all("the database went away while it was read: input or output failed" in one for one in told)


@pytest.mark.parametrize("number", [1, 5, 10])
def test_verify_reads_again_what_could_not_be_read(app: App, file: Path, number: int) -> None:
    app.prepare()
    disk = failing(file, "read", number)
    with standing_between(disk):
        assert app.verify().ok
    assert disk.hits == 1


def test_who_reads_begins_again_where_that_failed(app: App, file: Path) -> None:
    app.prepare()
    disk = failing(file, "read", 2)
    with standing_between(disk):
        [(count,)] = app.read(lambda connection: connection.execute("SELECT count(*) FROM onceward_task").fetchall())
    assert (count, disk.hits) == (1, 1)
