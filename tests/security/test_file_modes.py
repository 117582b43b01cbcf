"""What the engine writes to a disk is for its owner alone, whatever the umask says."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward import App, Context, Payload, Pipeline, StoreError
from onceward.store.drivers.postgres import PostgresStore
from onceward.worker import presence


class Job(Payload, kind="job"):
    pass


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=["umask 000", "umask 022", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """The umask of this process, for one test."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """The modes of everything below a folder; files of workers are called by their folder."""
    return {
        path.name if path.parent == folder else f"{path.parent.name}/…": oct(stat.S_IMODE(path.stat().st_mode))
        for path in folder.rglob("*")
    }


def test_everything_beside_a_sqlite_database_is_private_while_a_worker_runs(tmp_path: Path, umask: int) -> None:
    job = Pipeline(Job)
    seen: dict[str, str] = {}

    @job.stage
    def look(ctx: Context[Job]) -> None:
        seen.update(modes(tmp_path))

    with App(f"sqlite:///{tmp_path / 'app.db'}", [job]) as app:
        app.enqueue(Job())
        app.run(until_idle=True)
    assert seen == {
        "app.db": "0o600",
        "app.db-wal": "0o600",
        "app.db-shm": "0o600",
        "app.db-workers": "0o700",
        "app.db-workers/…": "0o600",
    }
    assert {mode for name, mode in modes(tmp_path).items() if name != "app.db-workers"} == {"0o600"}


@pytest.mark.filterwarnings("ignore:.*SQLite")
def test_a_database_made_through_the_standard_library_is_private_too(tmp_path: Path, umask: int) -> None:
    import onceward.store.drivers.sqlite3_client as standard
    from onceward.model.times import StoreClock, SystemClock

    session = standard.StandardSqliteSession(str(tmp_path / "app.db"), StoreClock(SystemClock()))
    assert isinstance(session.opened(), sqlite3.Connection)
    session.opened().execute("CREATE TABLE one (value)")
    assert modes(tmp_path) == {"app.db": "0o600", "app.db-wal": "0o600", "app.db-shm": "0o600"}
    session.close()


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "app.db"
    path.touch()
    path.chmod(0o640)
    with App(f"sqlite:///{path}") as app:
        app.prepare()
        assert set(modes(tmp_path).values()) == {"0o640"}


def test_a_database_behind_a_link_is_private_too(tmp_path: Path, umask: int) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "app.db").symlink_to(tmp_path / "data" / "real.db")
    with App(f"sqlite:///{tmp_path / 'app.db'}") as app:
        app.prepare()
        assert set(modes(tmp_path / "data").values()) == {"0o600"}


def test_who_looks_at_a_database_that_is_not_there_hears_what_is_wrong(tmp_path: Path) -> None:
    with (
        App(f"sqlite:///{tmp_path / 'no' / 'app.db'}") as app,
        pytest.raises(StoreError, match="folder does not exist"),
    ):
        app.prepare()
    assert list(tmp_path.iterdir()) == []


def test_beside_postgresql_the_files_of_workers_are_private_and_apart_for_each_user(umask: int, monkeypatch: Any,
                                                                                   tmp_path: Path) -> None:  # fmt: skip
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = PostgresStore("postgresql://nowhere/x", None).presence_folder  # type: ignore[arg-type]
    assert folder == tmp_path / f"onceward-workers-{os.geteuid()}"
    here = presence.Presence(presence.new_path(folder), 4)
    assert modes(tmp_path) == {folder.name: "0o700", f"{folder.name}/…": "0o600"}
    here.remove()
    assert modes(tmp_path) == {}


def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "app.db-workers"
    folder.mkdir()
    folder.chmod(0o770)
    presence.Presence(presence.new_path(folder), 4).remove()  # a group may share it
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    with pytest.raises(StoreError, match="others can write to"):
        presence.Presence(presence.new_path(folder), 4)
    assert list(folder.iterdir()) == []
