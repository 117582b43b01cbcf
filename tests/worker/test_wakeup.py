"""How an idle worker on SQLite hears of a commit: the system tells of the first write, or it looks now and then."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward.model.times import StoreClock, SystemClock
from onceward.store.drivers import postgres
from onceward.store.drivers.availability import Availability
from onceward.store.drivers.sqlite import SqliteSession
from onceward.worker import wakeup
from onceward.worker.inotify import FileWrites
from onceward.worker.wakeup import Listener, WatchFile

only_on_linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is a part of Linux")
PATIENCE_S = 10.0


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A file with a table in it."""
    return str(tmp_path / "watched.db")


@pytest.fixture
def ours(database: str) -> Iterator[SqliteSession]:
    """The connection of a worker."""
    session = SqliteSession(database, StoreClock(SystemClock()))
    session.opened().execute("CREATE TABLE note (text)")
    yield session
    session.close()


@pytest.fixture
def other(database: str, ours: SqliteSession) -> Iterator[SqliteSession]:
    """The connection of somebody else."""
    session = SqliteSession(database, ours.clock)
    yield session
    session.close()


def commit(session: SqliteSession) -> None:
    """Write something."""
    session.opened().execute("INSERT INTO note VALUES ('new')")


async def has_heard(watch: WatchFile, wake: threading.Event) -> bool:
    """Wait as the committer does; whether the watcher says that somebody has committed."""
    deadline = time.monotonic() + PATIENCE_S
    while not (heard := await asyncio.to_thread(watch.wait)) and time.monotonic() < deadline:
        wake.clear()
    return heard


@only_on_linux
def test_a_commit_of_another_connection_is_heard_of_without_looking(
    database: str, ours: SqliteSession, other: SqliteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        watch, wake = WatchFile(ours, database), threading.Event()
        watch.start(asyncio.get_running_loop(), wake)
        watch.before_looking()
        assert not watch.wait()  # it has asked to be told
        monkeypatch.setattr(watch, "_pause_s", 3 * PATIENCE_S)
        waiting = asyncio.create_task(asyncio.to_thread(watch.wait))
        await asyncio.to_thread(commit, other)
        await asyncio.wait_for(waiting, PATIENCE_S)  # by the word of the system alone: it would wait longer
        assert waiting.result() or await has_heard(watch, wake)
        watch.close()

    asyncio.run(scene())


@only_on_linux
def test_what_was_committed_before_it_asked_to_be_told_is_found_at_once(
    database: str, ours: SqliteSession, other: SqliteSession
) -> None:
    watch = WatchFile(ours, database)
    watch.before_looking()
    commit(other)
    assert watch.wait()
    watch.close()


def test_where_the_system_tells_nothing_it_looks_now_and_then(
    database: str, ours: SqliteSession, other: SqliteSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: str) -> FileWrites:
        raise OSError("too many of them are in use")

    monkeypatch.setattr(wakeup, "FileWrites", refuse)

    async def scene() -> None:
        watch, wake = WatchFile(ours, database), threading.Event()
        watch.start(asyncio.get_running_loop(), wake)
        watch.before_looking()
        assert not watch.wait()
        commit(other)
        assert await has_heard(watch, wake)
        watch.close()

    asyncio.run(scene())


def test_a_commit_of_its_own_is_no_news(database: str, ours: SqliteSession) -> None:
    async def scene() -> None:
        watch, wake = WatchFile(ours, database), threading.Event()
        watch.start(asyncio.get_running_loop(), wake)
        watch.before_looking()
        commit(ours)
        for _ in range(10):
            assert not await asyncio.to_thread(watch.wait)
        watch.close()

    asyncio.run(scene())


@only_on_linux
def test_writes_to_a_file_are_told_once_each_time_it_is_armed(tmp_path: Path) -> None:
    file = tmp_path / "file"

    async def scene() -> None:
        told = asyncio.Event()
        times = 0

        def heard() -> None:
            nonlocal times
            times += 1
            told.set()

        writes = FileWrites(str(file))
        writes.tell(asyncio.get_running_loop(), heard)
        assert not writes.arm()  # there is no such file yet
        file.write_bytes(b"")
        for expected in (1, 2):
            told.clear()
            assert writes.arm()
            for _ in range(3):
                file.write_bytes(b"something")
            await asyncio.wait_for(told.wait(), PATIENCE_S)
            assert (times, writes.is_armed) == (expected, False)
            file.write_bytes(b"something else, of which nobody wants to hear")
            for _ in range(5):
                await asyncio.sleep(0)
        assert times == 2
        writes.close()

    asyncio.run(scene())


@pytest.mark.parametrize("is_away", [False, True])
def test_a_listener_that_cannot_listen_says_so_once_and_not_where_the_database_is_away(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_away: bool
) -> None:
    tries = 0
    heard = threading.Event()
    connect = postgres.connect

    def refused(url: str, program: str) -> Any:
        nonlocal tries
        tries += 1
        if tries <= 5:
            raise OSError("no connection to spare")
        return connect(url, program)

    elsewhere = Availability()
    elsewhere.is_away = is_away
    monkeypatch.setattr(wakeup, "database", elsewhere)
    monkeypatch.setattr(wakeup, "TELL_DEAF_AFTER_S", 0.0)
    monkeypatch.setattr(wakeup, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(postgres, "connect", refused)
    caplog.set_level("INFO", "onceward.wakeup")
    listener = Listener(postgres_url, lambda _: heard.set())
    listener.start(lambda: None)
    assert heard.wait(PATIENCE_S)
    listener.stop()
    listener._thread.join(PATIENCE_S)
    told = [record.getMessage().partition(" error=")[0].partition(" after_s=")[0] for record in caplog.records]
    assert told == ([] if is_away else ["cannot listen, looking now and then instead", "listening again"])
