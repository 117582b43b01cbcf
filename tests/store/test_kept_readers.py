"""Reads on SQLite share a few connections, and none of them meets anything that another has left behind."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier
from typing import Any

import apsw
import pytest

from onceward import App, Connection
from onceward.client.snapshot_pool import MOST_KEPT
from onceward.store.drivers import sqlite_library_guard

READERS = 3 * MOST_KEPT


@pytest.fixture
def app(migrated_sqlite_url: str) -> Iterator[App]:
    with App(migrated_sqlite_url) as app:
        yield app


@pytest.fixture(autouse=True)
def sound_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Python is linked with, it needs no warning here."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 99, 0))


def raw(connection: Connection) -> Any:
    found: Any = connection
    return found._raw


def counted(connection: Connection) -> int:
    [(count,)] = connection.execute("SELECT count(*) FROM onceward_setting").fetchall()
    return int(count)


def file_of(app: App) -> Path:
    return Path(app.url.removeprefix("sqlite:///"))


def test_one_read_after_the_other_uses_one_connection(app: App) -> None:
    assert app.read(raw) is app.read(raw)


def test_after_many_at_once_a_few_are_kept_and_closed_with_the_app(app: App) -> None:
    app.prepare()
    own = len(apsw.connections())
    together = Barrier(READERS)

    def meet(_connection: Connection) -> None:
        together.wait(30)

    with ThreadPoolExecutor(READERS) as pool:
        assert len(list(pool.map(lambda _: app.read(meet), range(READERS)))) == READERS
    assert len(apsw.connections()) == own + MOST_KEPT
    app.close()
    assert len(apsw.connections()) == own - 1


@pytest.mark.parametrize(
    "said", ["PRAGMA case_sensitive_like = on", "/* for once */ PRAGMA case_sensitive_like = on", "SAVEPOINT mine"]
)
def test_a_connection_on_which_a_read_has_set_something_is_not_used_again(app: App, said: str) -> None:
    def setting(connection: Connection) -> Any:
        connection.execute(said)
        return raw(connection)

    first = app.read(setting)
    assert app.read(raw) is not first
    assert app.read(lambda connection: connection.execute("SELECT 'a' LIKE 'A'").fetchall()) == [(1,)]


def test_a_cursor_that_is_not_read_to_its_end_holds_no_snapshot(app: App) -> None:
    held = app.read(lambda connection: connection.execute("SELECT 1 UNION SELECT 2"))
    before = app.read(counted)
    app.settings.set("grace", "40s")
    assert app.read(counted) == before + 1
    with closing(apsw.Connection(str(file_of(app)))) as other:
        [(is_busy, _, _)] = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert not is_busy
    del held


def test_after_an_error_the_next_read_sees_what_is_there(app: App) -> None:
    def fail(connection: Connection) -> None:
        counted(connection)
        raise LookupError("as it happens")

    with pytest.raises(LookupError):
        app.read(fail)
    app.settings.set("grace", "40s")
    assert app.read(counted) == 1


def test_a_read_is_of_the_file_that_is_there(app: App, tmp_path: Path) -> None:
    app.settings.set("grace", "40s")
    file = file_of(app)
    assert app.read(counted) == 1
    shutil.copy(file, tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        copy.execute("DELETE FROM onceward_setting")
        copy.commit()
    for beside in ("-wal", "-shm"):
        Path(f"{file}{beside}").unlink()
    os.replace(tmp_path / "copy.db", file)
    assert app.read(counted) == 0


def test_a_kept_connection_gives_way_to_the_other_library(app: App) -> None:
    assert app.read(counted) == 0
    with closing(sqlite3.connect(file_of(app))) as own:
        assert sqlite_library_guard.uses_standard_library(str(file_of(app)))
        assert app.read(lambda connection: isinstance(raw(connection), sqlite3.Connection))
        assert own.execute("SELECT count(*) FROM onceward_setting").fetchall() == [(0,)]
