"""Functions given to `ctx.write` that raise, lose their transaction or take long: only their own tasks feel it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import apsw
import psycopg
import pytest
from psycopg import errors as pg

from onceward import App, Config, Connection, Context, Payload, Pipeline, Retry, Status
from onceward.worker import writer

BESIDE = 50
LIMIT_S = 15.0

Write = Callable[[Connection], object]


class Bad(Payload, kind="bad"):
    number: int


class Good(Payload, kind="good"):
    number: int


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A migrated database of each kind, of its own: connections are lost here."""
    found: str = request.getfixturevalue(f"migrated_{request.param}_url")
    return found


class Scene:
    """Bad tasks among good ones, run by a real worker in this process."""

    def __init__(
        self,
        url: str,
        writes: list[Write],
        retries: int = 1,
        on_connect: Callable[[Any], None] | None = None,
        good_after: str | None = None,
        **config: Any,
    ) -> None:
        self.writes = writes
        self.calls: Counter[int] = Counter()
        self.good_at = 0.0
        bad = Pipeline(Bad, retry=Retry(retries=retries, base="10ms"))
        good = Pipeline(Good)

        @bad.stage
        async def refuse(ctx: Context[Bad]) -> None:
            ctx.write(self.write, ctx.payload.number)

        @good.stage
        async def succeed(ctx: Context[Good]) -> None:
            if ctx.payload.number % 2:
                ctx.write(self.note)

        self.app = App(url, [bad, good], config=Config(grace="1s", **config), on_connect=on_connect)
        self.app.prepare()
        self.good = self.app.enqueue_many([Good(number) for number in range(BESIDE // 2)], after=good_after)
        self.bad = self.app.enqueue_many([Bad(number) for number in range(len(writes))])
        self.good += self.app.enqueue_many([Good(number) for number in range(BESIDE // 2, BESIDE)], after=good_after)

    def write(self, connection: Connection, number: int) -> None:
        self.calls[number] += 1
        self.writes[number](connection)

    def note(self, connection: Connection) -> None:
        connection.execute("SELECT 1").fetchall()
        self.good_at = time.monotonic()

    def run(self) -> float:
        """Work until nothing is left; after how many seconds the last of the good ones was written."""
        began = time.monotonic()
        end = threading.Timer(2 * LIMIT_S, os.kill, (os.getpid(), signal.SIGTERM))  # or a failure would never end
        end.start()
        try:
            self.app.run(until_idle=True)
        finally:
            end.cancel()
        return self.good_at - began

    def assert_kept_apart(self) -> None:
        """Every good task has succeeded, every bad one has ended by its retries, and every promise holds."""
        ended = Counter(self.app.tasks.get(task.id).status for task in self.good)
        assert ended == {Status.SUCCEEDED: BESIDE}
        for number, task in enumerate(self.bad):
            seen = self.app.tasks.get(task.id)
            assert (seen.status, seen.reason[:22] if seen.reason else "") == (
                Status.FAILED,
                "failed after 1 retry: ",
            ), (number, seen)
        assert [breach for check in self.app.verify().checks for breach in check.breaches] == []
        self.app.close()


def raising(error: Exception) -> Write:
    def write(_: Connection) -> None:
        raise error

    return write


def every_error_of_postgres() -> list[Write]:
    """One of each class of SQLSTATE, as the driver raises it, and those that the engine knows by name."""
    by_class: dict[str, type[psycopg.Error]] = {}
    for name in sorted(vars(pg)):
        one = getattr(pg, name)
        state = getattr(one, "sqlstate", None) if isinstance(one, type) else None
        if isinstance(state, str):
            by_class.setdefault(state[:2], one)
    known = [pg.DiskFull, pg.DeadlockDetected, pg.LockNotAvailable, pg.InsufficientPrivilege, pg.InvalidCatalogName]
    known += [pg.ReadOnlySqlTransaction, pg.AdminShutdown, pg.InvalidSqlStatementName, psycopg.InterfaceError]
    return [raising(one("refused")) for one in [*by_class.values(), *known, psycopg.OperationalError]]


def every_error_of_sqlite() -> list[Write]:
    found = [getattr(apsw, name) for name in sorted(vars(apsw)) if name.endswith("Error")]
    return [raising(one("refused")) for one in found if issubclass(one, apsw.Error)]


def test_whatever_is_raised_inside_a_write_ends_its_own_task_alone(url: str) -> None:
    writes = every_error_of_sqlite() if url.startswith("sqlite") else every_error_of_postgres()
    assert len(writes) > 25
    scene = Scene(url, writes)
    assert scene.run() < LIMIT_S
    scene.assert_kept_apart()


def opens_another_file(_: Connection) -> None:
    apsw.Connection("/nonexistent/other.db", flags=apsw.SQLITE_OPEN_READWRITE)


def corrupts_an_index(connection: Connection) -> None:
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS f USING fts5(t, content='')")
    connection.execute("INSERT INTO f(f, rowid, t) VALUES ('delete', 7, 'never there')")
    connection.execute("INSERT INTO f(f) VALUES ('integrity-check')")


def rolls_back(connection: Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS once (n integer PRIMARY KEY ON CONFLICT ROLLBACK)")
    connection.execute("INSERT INTO once VALUES (1)")
    connection.execute("INSERT INTO once VALUES (1)")


def kills_its_backend(connection: Connection) -> None:
    connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def is_not_allowed(connection: Connection) -> None:
    connection.execute("SELECT lo_import('/nowhere')")


def connects_elsewhere(_: Connection) -> None:
    psycopg.connect("host=/nowhere dbname=nothing")


def fails_at_the_commit(connection: Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    connection.execute("INSERT INTO late VALUES (1), (1)")


SQLITE: list[Write] = [opens_another_file, corrupts_an_index, rolls_back]
POSTGRES: list[Write] = [kills_its_backend, is_not_allowed, connects_elsewhere, fails_at_the_commit]


def test_a_write_that_costs_its_transaction_is_sent_alone_and_ends_its_own_task(url: str) -> None:
    writes = SQLITE if url.startswith("sqlite") else POSTGRES
    scene = Scene(url, writes)
    assert scene.run() < LIMIT_S
    scene.assert_kept_apart()
    assert all(count <= 2 * (3 + 2) for count in scene.calls.values())


def needs_more_than_there_is(connection: Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS much (text text)")
    connection.execute("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30) "
                       "INSERT INTO much SELECT hex(zeroblob(500000)) FROM n")  # fmt: skip


def fills_the_disk_of_the_server(connection: Connection) -> None:
    """As a statement does whose temporary files take all space: with its end the space is there again."""
    connection.execute(
        "CREATE FUNCTION pg_temp.fill() RETURNS void LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'could not write to a temporary file' USING ERRCODE = 'disk_full'; END $$"
    )
    connection.execute("SELECT pg_temp.fill()")


def limit_pages(connection: Any) -> None:
    """Let a SQLite file have about six megabytes."""
    if isinstance(connection, apsw.Connection):
        connection.pragma("max_page_count", 1_500)


@pytest.mark.both
def test_a_write_that_fills_a_disk_that_is_not_full_ends_its_own_task(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FULL_FOR_MS", 300)
    write = needs_more_than_there_is if url.startswith("sqlite") else fills_the_disk_of_the_server
    scene = Scene(url, [write], on_connect=limit_pages)
    assert scene.run() < LIMIT_S
    scene.assert_kept_apart()
    reason = scene.app.tasks.get(scene.bad[0].id).reason or ""
    assert "FullError" in reason or "DiskFull" in reason


def costly_writes(url: str) -> list[Write]:
    """The writes above that cost more than their own rows."""
    if url.startswith("sqlite"):
        return [*SQLITE, needs_more_than_there_is]
    return [*POSTGRES, fills_the_disk_of_the_server]


@pytest.mark.both
def test_a_write_that_is_alone_in_its_transaction_holds_up_nothing_that_comes_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FULL_FOR_MS", 300)
    for write in costly_writes(url):
        scene = Scene(url, [write], on_connect=limit_pages, good_after="300ms")
        assert scene.run() < LIMIT_S
        scene.assert_kept_apart()


def test_a_slow_write_ends_by_its_own_time_limit_while_others_go_on(url: str) -> None:
    def sleep(_: Connection) -> None:
        time.sleep(4)

    def compute(connection: Connection) -> None:
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000) SELECT count(*) FROM n"
        ).fetchall()

    scene = Scene(url, [sleep, compute], write_timeout="1s")
    assert scene.run() < 6
    scene.assert_kept_apart()
    reasons = {scene.app.tasks.get(task.id).reason for task in scene.bad}
    assert all("TimeoutError: the functions given to ctx.write took longer than 1 s" in (one or "") for one in reasons)


@pytest.mark.parametrize(
    ("setting", "prepare"), [("transaction_timeout", True), ("idle_in_transaction_session_timeout", False)]
)
def test_a_write_that_outlasts_a_time_limit_of_the_administrator_ends_its_own_task(
    migrated_postgres_url: str, setting: str, prepare: bool
) -> None:
    """The server ends the session of the worker in the midst of it. With prepared statements it has a limit on idle
    transactions of its own."""

    def sleep(connection: Connection) -> None:
        time.sleep(1)
        connection.execute("SELECT 1")

    with psycopg.connect(migrated_postgres_url, autocommit=True) as connection:
        connection.execute(
            f"DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET {setting} = 700', current_database()); END $$"
        )
    scene = Scene(migrated_postgres_url, [sleep], prepare=prepare)
    assert scene.run() < LIMIT_S
    scene.assert_kept_apart()


def test_a_write_that_takes_long_but_has_the_time_for_it_is_committed(url: str) -> None:
    scene = Scene(url, [lambda connection: (time.sleep(0.8), connection.execute("SELECT 1"))])
    assert scene.run() < LIMIT_S
    assert scene.app.tasks.get(scene.bad[0].id).status is Status.SUCCEEDED
    assert scene.calls[0] == 2  # beside others it has less time
    scene.app.close()
