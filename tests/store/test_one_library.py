"""One process opens one file through one SQLite library, whoever comes first."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from onceward import App, Migration
from onceward.errors import StoreError, StoreFull, StoreUnavailable, TwoSqliteLibraries, WriteRefused
from onceward.model.task import NewTask
from onceward.model.times import StoreClock, SystemClock
from onceward.store.drivers import sqlite3_client, sqlite_library_guard
from onceward.store.drivers.migrate import migrate
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.drivers.sqlite import SqliteSession
from onceward.store.drivers.sqlite3_client import ClientSqliteSession, StandardSqliteSession, has_wal_bug
from onceward.store.lines.enqueue import enqueue
from onceward.store.op import Call, Op, Query, drive

NOW = 1_700_000_000_000
CLOCK = StoreClock(SystemClock())
BY_LIBRARY = {SqliteSession: "apsw", StandardSqliteSession: "sqlite3"}


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A migrated file with a table of the program's own; nobody has it open."""
    file = str(tmp_path / "onceward.db")
    session = SqliteSession(file, CLOCK)
    migrate(session, NOW)
    session.opened().execute("CREATE TABLE own (number integer)")
    session.close()
    return file


@pytest.fixture
def worker() -> Iterator[None]:
    """This process is a worker until the test ends."""
    sqlite_library_guard.insist_on_apsw()
    yield
    sqlite_library_guard.insist_no_longer()


@pytest.fixture
def sessions() -> Iterator[Callable[..., Any]]:
    """Makes sessions and closes them after the test."""
    made: list[Session] = []

    def make(kind: Callable[..., Session], path: str, **options: Any) -> Session:
        made.append(kind(path, CLOCK, **options))
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.fixture(autouse=True)
def sound_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Python is linked with, it needs no warning here."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 99, 0))


def add_task() -> Op[list[int]]:
    task = NewTask("note", 1, "default", 2, None, b"i" * 16, b"{}", uuid.UUID(int=7), NOW, NOW)
    return enqueue([task], NOW)


def library_of(session: ClientSqliteSession) -> str:
    """The library that a client uses now."""
    return BY_LIBRARY[type(session._chosen())]


def play(scene: str, path: str, timeout_s: float = 30) -> str:
    """Run a scene as a process of its own; what it printed."""
    command = [sys.executable, "-m", "tests.store.one_library_scenes", scene, path]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=timeout_s).stdout.strip()


def look(path: str, query: str) -> list[Any]:
    """Ask the file from another process than the one under test, which has ended."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def assert_nothing_lost(path: str) -> None:
    assert look(path, "SELECT count(*), sum(number) FROM own") == [(101, 5050)]
    assert look(path, "PRAGMA integrity_check") == [("ok",)]


# Why


@pytest.mark.skipif(os.name == "nt", reason="there locks belong to the handle")
def test_two_libraries_in_one_process_both_get_the_write_lock(path: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as one, closing(apsw.Connection(path)) as other:
        one.execute("BEGIN IMMEDIATE")
        other.execute("BEGIN IMMEDIATE")  # this is what the rule is for
        one.execute("ROLLBACK")
        other.execute("ROLLBACK")


# In processes of their own


def test_a_file_open_through_sqlite3_is_refused_to_a_worker_and_no_row_is_lost(path: str) -> None:
    said = play("sqlite3_was_first", path)
    assert "close that connection first" in said
    assert "ctx.write and ctx.read" in said
    assert_nothing_lost(path)


def test_a_file_of_a_worker_is_refused_to_sqlite3_and_no_row_is_lost(path: str) -> None:
    assert "Write with ctx.write and read with ctx.read" in play("apsw_was_first", path)
    assert_nothing_lost(path)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are not listed")
def test_a_file_opened_before_the_watch_is_known_by_its_descriptor(path: str) -> None:
    assert play("opened_before_anybody_watched", path) == "True False"


def test_a_file_that_sqlite3_is_just_opening_is_refused(path: str) -> None:
    assert play("both_at_the_same_moment", path) == "refused"


@pytest.mark.torture
def test_clients_that_change_all_the_time_lose_nothing(path: str) -> None:
    assert play("many_at_once", path, timeout_s=60) == "in each other's way: 0, lost: 0"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_is_no_worker(path: str) -> None:
    assert play("child_of_a_worker", path) == "7"


# Which file is meant


def spellings(path: str, tmp_path: Path) -> list[Any]:
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "hard.db").hardlink_to(path)
    return [
        path,
        path.encode(),
        Path(path),
        os.path.relpath(path),
        tmp_path / "link.db",
        tmp_path / "hard.db",
        f"file:{path}",
        f"file://{path}?mode=ro",
        f"file:{path.replace('onceward', '%6Fnceward')}?cache=private#here",
    ]


def test_a_file_is_recognised_however_it_is_written(path: str, tmp_path: Path, worker: None, sessions: Any) -> None:
    sessions(SqliteSession, path).opened()
    for spelling in spellings(path, tmp_path):
        uri = str(spelling).startswith("file:")
        with pytest.raises(TwoSqliteLibraries):
            sqlite3.connect(spelling, uri=uri)


def test_databases_in_memory_and_other_files_are_not_guarded(
    path: str, tmp_path: Path, worker: None, sessions: Any
) -> None:
    sessions(SqliteSession, path).opened()
    for database in (":memory:", "", "file::memory:?cache=shared", f"file:{path}?mode=memory", tmp_path / "other.db"):
        sqlite3.connect(database, uri=str(database).startswith("file:")).close()
    sqlite_library_guard.opening_with_apsw(":memory:")
    assert not sqlite_library_guard.uses_standard_library(":memory:")


def test_a_file_that_went_with_its_folder_is_forgotten(tmp_path: Path) -> None:
    gone, deleted, there = (tmp_path / name / "onceward.db" for name in "abc")
    for file in (gone, deleted, there):
        file.parent.mkdir()
        SqliteSession(str(file), CLOCK).opened().close()
    shutil.rmtree(gone.parent)
    deleted.unlink()  # in its place a new one may be made at any time
    sqlite_library_guard.uses_standard_library(str(there))
    ours = {file for file in sqlite_library_guard._process.taken if file.startswith(str(tmp_path))}
    assert ours == {str(deleted), str(there)}


def test_what_is_no_name_is_left_to_sqlite3() -> None:
    with pytest.raises(TypeError):
        sqlite3.connect(7)


def test_many_sessions_through_apsw_are_fine(path: str, worker: None, sessions: Any) -> None:
    many = [sessions(SqliteSession, path) for _ in range(3)]
    for session in (*many, *many):
        session.transact(add_task)
    many[0].close()
    many[0].transact(add_task)


# A client gives way


def test_a_client_steps_aside_for_sqlite3_and_goes_on_through_it(path: str, sessions: Any) -> None:
    client = sessions(ClientSqliteSession, path)
    client.transact(add_task)
    assert library_of(client) == "apsw"
    with closing(sqlite3.connect(path)) as program:
        assert path not in [connection.filename for connection in apsw.connections()]
        program.execute("INSERT INTO own VALUES (1)")
        program.commit()
        client.transact(add_task)
        assert library_of(client) == "sqlite3"
        assert program.execute("SELECT count(*) FROM onceward_task").fetchone() == (2,)
    client.close()
    client.transact(add_task)
    assert library_of(client) == "apsw"
    client.close()
    assert look(path, "SELECT count(*) FROM onceward_task") == [(3,)]


def test_a_client_begins_with_sqlite3_where_the_program_has_it(path: str, sessions: Any) -> None:
    with closing(sqlite3.connect(path)):
        client = sessions(ClientSqliteSession, path)
        client.transact(add_task)
        assert library_of(client) == "sqlite3"
        client.close()


def test_every_client_of_a_file_steps_aside(path: str, sessions: Any) -> None:
    clients = [sessions(ClientSqliteSession, path) for _ in range(3)]
    for client in clients:
        client.transact(add_task)
    with closing(sqlite3.connect(path)):
        for client in clients:
            client.transact(add_task)
        assert [library_of(client) for client in clients] == ["sqlite3"] * 3


def test_inside_a_transaction_of_its_own_a_thread_cannot_open_the_file(path: str, sessions: Any) -> None:
    client = sessions(ClientSqliteSession, path)

    def careless() -> Op[list[int]]:
        ids = yield from add_task()
        with pytest.raises(TwoSqliteLibraries, match="let that transaction end first"):
            sqlite3.connect(path)
        return ids

    assert client.transact(careless) == [1]
    assert library_of(client) == "apsw"
    sqlite3.connect(path).close()


def test_sqlite3_waits_for_the_transaction_of_another_thread(path: str, sessions: Any) -> None:
    writing = sessions(ClientSqliteSession, path)
    asked = AskedBy(writing, threads=1)
    thread = threading.Thread(target=writing.transact, args=(asked.add_task_once_asked,))
    thread.start()
    asked.begun.wait()
    with closing(sqlite3.connect(path)) as program:
        assert program.execute("SELECT count(*) FROM onceward_task").fetchone() == (1,)
    thread.join()


def test_a_caller_that_comes_meanwhile_waits_for_it_too(path: str, sessions: Any) -> None:
    writing, other = sessions(ClientSqliteSession, path), sessions(ClientSqliteSession, path)
    asked = AskedBy(writing, threads=2)
    opening = threading.Thread(target=lambda: sqlite3.connect(path).close())
    threads = [threading.Thread(target=writing.transact, args=(asked.add_task_once_asked,)), opening]
    threads[0].start()
    asked.begun.wait()
    opening.start()
    asked.asked.wait()
    assert other.transact(add_task) == [2]
    for thread in threads:
        thread.join()


class AskedBy:
    """Holds a transaction of a client open until so many threads have asked the client to give way."""

    def __init__(self, client: ClientSqliteSession, *, threads: int) -> None:
        self.begun = threading.Event()
        self.asked = threading.Event()
        self._enough = threading.Event()
        self._wanted = threads
        self._threads: set[int] = set()
        self._still_uses = client._still_uses
        client._still_uses = self._ask  # type: ignore[method-assign]

    def _ask(self, other: type[Session]) -> bool:
        self._threads.add(threading.get_ident())
        self.asked.set()
        if len(self._threads) == self._wanted:
            self._enough.set()
        return self._still_uses(other)

    def add_task_once_asked(self) -> Op[list[int]]:
        self.begun.set()
        assert self._enough.wait(10)
        return (yield from add_task())


def test_a_connection_that_cannot_be_closed_is_in_the_way(path: str, sessions: Any) -> None:
    sessions(SqliteSession, path).opened()
    with pytest.raises(TwoSqliteLibraries, match="Close the apsw connection first"):
        sqlite3.connect(path)


def test_an_apsw_connection_of_the_programs_own_is_joined_by_apsw(path: str, sessions: Any) -> None:
    with closing(apsw.Connection(path)) as program:
        program.execute("SELECT * FROM own").fetchall()
        client = sessions(ClientSqliteSession, path)
        client.transact(add_task)
        assert library_of(client) == "apsw"


def test_when_a_worker_starts_the_client_comes_back_to_apsw(path: str, sessions: Any) -> None:
    program = sqlite3.connect(path)
    client = sessions(ClientSqliteSession, path)
    client.transact(add_task)
    program.close()
    sqlite_library_guard.insist_on_apsw()
    try:
        sessions(SqliteSession, path).transact(add_task)
        client.transact(add_task)
        assert library_of(client) == "apsw"
    finally:
        sqlite_library_guard.insist_no_longer()


def test_after_the_worker_sqlite3_may_open_the_file(path: str, worker: None, sessions: Any) -> None:
    session = sessions(SqliteSession, path)
    session.transact(add_task)
    session.close()
    sqlite_library_guard.insist_no_longer()
    assert look(path, "SELECT count(*) FROM onceward_task") == [(1,)]
    sqlite_library_guard.insist_on_apsw()


def test_a_client_that_is_gone_is_not_asked(path: str) -> None:
    client = ClientSqliteSession(path, CLOCK)
    client.transact(add_task)
    client.close()
    del client
    assert look(path, "SELECT count(*) FROM onceward_task") == [(1,)]


def test_where_descriptors_are_not_listed_a_file_stays_with_sqlite3(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sqlite_library_guard.watch()
    monkeypatch.setattr(sqlite_library_guard, "_DESCRIPTORS", "/nowhere")
    assert not sqlite_library_guard.uses_standard_library(path)
    sqlite3.connect(path).close()
    assert sqlite_library_guard.uses_standard_library(path)
    with pytest.raises(TwoSqliteLibraries):
        sqlite_library_guard.opening_with_apsw(path)


# Through sqlite3


def test_the_settings_are_the_engines_and_nothing_is_checkpointed(path: str, sessions: Any) -> None:
    seen: list[Any] = []
    connection = sessions(StandardSqliteSession, path, on_connect=seen.append).opened()
    assert seen == [connection]
    settings = {
        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "wal_autocheckpoint": 0}


def test_what_sqlite3_reports_means_the_same_as_from_apsw(
    path: str, tmp_path: Path, sessions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3_client, "BUSY_LIMIT_S", 0.01)
    session = sessions(StandardSqliteSession, path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TryAgainLater):
            session.run(Query("begin"))
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        drive(add_task(), sessions(StandardSqliteSession, path, read_only=True))
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        sessions(StandardSqliteSession, str(tmp_path / "nowhere" / "onceward.db")).opened()
    (tmp_path / "letter.db").write_text("Dear database, " * 100)
    with pytest.raises(StoreError, match="not a healthy"):
        sessions(StandardSqliteSession, str(tmp_path / "letter.db")).opened()
    session.opened().execute("PRAGMA max_page_count = 1")
    with pytest.raises(StoreFull):
        session.run(Query("write_receipt", {"token": bytes(500_000), "now": NOW}))
    broken = sqlite3.OperationalError("disk I/O error")
    broken.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    assert isinstance(sqlite3_client._engine_error(broken, path), ConnectionLost)


def test_a_lent_connection_may_write_rows_of_the_program_only(path: str, sessions: Any) -> None:
    session = sessions(StandardSqliteSession, path)
    session.run(Call([(lambda connection: connection.execute("INSERT INTO own VALUES (1)"), ())]))
    with pytest.raises(WriteRefused):
        session.run(Call([(lambda connection: connection.execute("REPLACE INTO onceward_blob VALUES (1, 2)"), ())]))
    with pytest.raises(WriteRefused):
        session.run(Call([(lambda connection: connection.execute("CREATE INDEX a ON onceward_blob (id)"), ())]))
    assert session.opened().execute("SELECT number FROM own").fetchall() == [(1,)]


@pytest.mark.parametrize("through_sqlite3", [False, True])
def test_a_migration_that_uses_the_app_is_refused_by_either_library(tmp_path: Path, *, through_sqlite3: bool) -> None:
    path = tmp_path / "onceward.db"
    apps: list[App] = []
    migration = Migration("asks the app", lambda connection: apps[0].stats.counts())
    with ExitStack() as stack:
        if through_sqlite3:
            stack.enter_context(closing(sqlite3.connect(path)))
        apps.append(stack.enter_context(App(f"sqlite:///{path}", migrations=[migration])))
        with pytest.raises(WriteRefused, match=r"raised .*ctx\.write"):
            apps[0].prepare()


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 54, 0), False),
    ],
)
def test_which_versions_can_lose_commits(version: tuple[int, int, int], affected: bool) -> None:
    assert has_wal_bug(version) is affected


def test_an_affected_version_is_warned_of_once(path: str, sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 40, 1))
    monkeypatch.setattr(sqlite3_client, "_warned", threading.Lock())
    with pytest.warns(RuntimeWarning, match=r"up to 3\.51\.2 can lose commits"):
        sessions(StandardSqliteSession, path).opened()
    with warnings.catch_warnings(action="error"):
        sessions(StandardSqliteSession, path).opened()
