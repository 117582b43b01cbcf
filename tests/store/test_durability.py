"""What a commit waits for, and how a file is opened: every connection of the engine, on both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onceward import App
from onceward.store.drivers.session import Session

WAL_FULL = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "mmap_size": 0}
"""A commit is on the disk when it returns; and the file is never mapped, where a stray write would reach it."""


def pragmas(connection: Any) -> dict[str, Any]:
    return {name: connection.execute(f"PRAGMA {name}").fetchall()[0][0] for name in WAL_FULL}


def test_a_commit_waits_for_the_disk(open_session: Callable[[], Session]) -> None:
    session = open_session()
    if session.dialect == "sqlite":
        assert pragmas(session.opened()) == WAL_FULL
    else:
        assert session.opened().execute("SHOW synchronous_commit").fetchone() == ("on",)


def test_a_commit_of_a_client_waits_for_the_disk_too(store_url: str) -> None:
    app = App(store_url)
    try:
        app.prepare()
        connection = app._session().opened()
        if app.dialect == "sqlite":
            assert pragmas(connection) == WAL_FULL
        else:
            assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    finally:
        app.close()


@pytest.mark.filterwarnings("ignore:.*SQLite")
def test_so_does_one_that_goes_through_the_standard_library(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    theirs = sqlite3.connect(path)
    app = App(f"sqlite:///{path}")
    try:
        app.prepare()
        connection = app._session().opened()
        assert isinstance(connection, sqlite3.Connection)
        assert pragmas(connection) == WAL_FULL
    finally:
        app.close()
        theirs.close()
