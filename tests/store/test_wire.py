"""Statements past the driver's cursor: what is asked is answered, what fails leaves nothing behind, nobody waits in
vain."""

from __future__ import annotations

import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from onceward.model.task import Alike, band_of, lane_of
from onceward.model.times import StoreClock, SystemClock
from onceward.store.attempts.workers import NewWorker, register
from onceward.store.drivers.lent_connection import GuardedConnection
from onceward.store.drivers.postgres import PostgresSession, connect
from onceward.store.drivers.server_liveness import WatchedConnection
from onceward.store.drivers.wire import Statement, Wire
from onceward.store.lines.enqueue import enqueue_at_once
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Call, Op, Query
from onceward.worker.writer import Wish, Writer

PREPARED = Statement("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'onceward%'")
LARGE = 20_000_000
"""More than any socket holds."""


@pytest.fixture
def connection(postgres_url: str) -> Iterator[WatchedConnection]:
    """A connection of the driver."""
    with closing(connect(postgres_url, "onceward")) as connection:
        yield connection


@pytest.fixture
def wire(connection: WatchedConnection) -> Wire:
    """The same, past its cursors."""
    return Wire(connection, prepare=True)


@pytest.fixture
def session(migrated_postgres_url: str) -> Iterator[PostgresSession]:
    """A session of the engine."""
    session = PostgresSession(migrated_postgres_url, StoreClock(SystemClock()), patience_s=5)
    yield session
    session.close()


def test_a_statement_is_answered_with_its_rows(wire: Wire) -> None:
    asked = Statement(
        "SELECT $1::bigint, $2::text, $3::bytea, $4::text FROM generate_series(1, 2)", [7, "é", b"\0", None]
    )
    assert wire.run(asked) == [(7, "é", b"\0", None)] * 2
    assert wire.run(Statement("SELECT 1 WHERE false")) == []
    assert wire.run(Statement("CREATE TEMPORARY TABLE note (text text)")) == []


def test_after_one_that_fails_the_connection_goes_on(wire: Wire) -> None:
    with pytest.raises(pg.DivisionByZero):
        wire.run(Statement("SELECT 1 / $1::integer", [0]))
    assert wire.run(Statement("SELECT 1")) == [(1,)]


def test_rows_of_a_statement_whose_commit_fails_are_no_answer(wire: Wire) -> None:
    wire.run(Statement("CREATE TABLE late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)"))
    with pytest.raises(pg.UniqueViolation):
        wire.run(Statement("INSERT INTO late VALUES ($1::int), ($1::int) RETURNING n", [1]))
    assert wire.run(Statement("SELECT n FROM late")) == []


def test_what_no_socket_holds_goes_there_and_back(wire: Wire) -> None:
    large = b"x" * LARGE
    assert wire.run(Statement("SELECT $1::bytea", [large])) == [(large,)]


def test_a_statement_is_prepared_once(wire: Wire) -> None:
    for number in (1, 2, 3):
        assert wire.run(Statement("SELECT $1::bigint", [number])) == [(number,)]
    assert wire.run(PREPARED) == [(2,)]  # with the one that asks


def test_no_more_is_kept_prepared_than_there_is_room_for(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceward.store.drivers.wire.MOST_PREPARED", 3)
    for number in [*range(6), *range(6)]:
        assert wire.run(Statement(f"SELECT {number}")) == [(number,)]
    assert wire.run(PREPARED) == [(3,)]


def test_behind_a_pooler_nothing_is_prepared(connection: WatchedConnection) -> None:
    wire = Wire(connection, prepare=False)
    assert wire.run(Statement("SELECT $1::text", ["a"])) == [("a",)]
    assert wire.run(PREPARED) == [(0,)]


def test_a_lost_connection_is_an_error_and_no_wait(wire: Wire, postgres_url: str) -> None:
    [(pid,)] = wire.run(Statement("SELECT pg_backend_pid()"))
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    asked = Statement("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        wire.run(asked)
    with pytest.raises(psycopg.OperationalError):
        wire.run(asked)


def test_a_lost_connection_is_noticed_before_anything_is_sent(wire: Wire, postgres_url: str) -> None:
    [(pid,)] = wire.run(Statement("SELECT pg_backend_pid()"))
    assert not wire.is_lost()
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    until(wire.is_lost)
    assert wire.is_lost(), "its socket may be another one by now"


def test_behind_a_pooler_one_statement_enqueues_and_one_claims_too(migrated_postgres_url: str) -> None:
    with closing(PostgresSession(migrated_postgres_url, StoreClock(SystemClock()), prepare=False)) as session:
        now, band = session.clock.now(), band_of(0)
        statement = enqueue_at_once(
            Alike("note", 1, "default", band, now, now, None, [b"i" * 16], [b"{}"], [secrets.token_bytes(16)])
        )
        assert statement is not None
        [(task, *_)] = session.transact_statement(statement)
        assert session.run(statement.read_back) == [(task,)]
        ant = NewWorker("ant", "host", 7, None, "note", "default", 60_000)
        worker = session.transact(lambda: register(ant, session.clock.now()))
        line = lane_of("default", "note"), band
        writer = Writer(session, worker, LineMemory((line[0],)), LineMemory(()))
        assert [lease.task for lease in writer.write((), Wish(10, line=line)).claimed.leases] == [task]
        assert session.opened().execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]


@contextmanager
def interrupted_after(seconds: float) -> Iterator[None]:
    """Meanwhile somebody presses Ctrl-C."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_caller_leaves_nothing_running(wire: Wire, postgres_url: str) -> None:
    [(pid,)] = wire.run(Statement("SELECT pg_backend_pid()"))
    sleep = Statement("SELECT pg_sleep(600)")
    with pytest.raises(KeyboardInterrupt), interrupted_after(0.2):
        wire.run(sleep)
    with psycopg.connect(postgres_url, autocommit=True) as other:
        active = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
        until(lambda: other.execute(active, [pid]).fetchone() is None)


def until(true: Callable[[], bool], limit_s: float = 10.0) -> None:
    """Wait for something that comes soon."""
    give_up_at = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_a_session_that_was_interrupted_goes_on(session: PostgresSession, migrated_postgres_url: str) -> None:
    def look() -> Op[bool]:
        return not (yield Query("read_pauses"))

    with psycopg.connect(migrated_postgres_url) as other:
        other.execute("LOCK TABLE onceward_pause")
        with pytest.raises(KeyboardInterrupt), interrupted_after(0.2):
            session.transact(look)
    assert session.transact(look)
    assert receipts(session) == 1


@pytest.mark.parametrize("answers_read", [0, 1])
def test_a_caller_after_an_interrupted_one_is_not_given_its_answers(
    session: PostgresSession, monkeypatch: pytest.MonkeyPatch, answers_read: int
) -> None:
    def ask() -> Op[Any]:
        return (yield Query("has_schema"))

    assert session.transact(ask) == [(1,)]
    read: list[int] = []
    next_answer = Wire._next_answer

    def interrupted(wire: Wire) -> Any:
        read.append(1)
        if len(read) > answers_read:
            raise KeyboardInterrupt
        return next_answer(wire)

    with monkeypatch.context() as patch:
        patch.setattr(Wire, "_next_answer", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.transact(ask)
    assert session.transact(ask) == [(1,)]
    assert receipts(session) == 2


def receipts(session: PostgresSession) -> int:
    """How many transactions have left their receipts."""
    [(count,)] = session.opened().execute("SELECT count(*) FROM onceward_receipt").fetchall()
    return int(count)


def test_a_statement_that_was_dropped_is_prepared_anew(session: PostgresSession) -> None:
    """A function given to ctx.write may say DEALLOCATE ALL; the driver says it by itself after some statements."""
    runs: list[int] = []

    def drop(connection: GuardedConnection) -> None:
        runs.append(1)
        if len(runs) == 1:
            connection.execute("DEALLOCATE ALL")

    def operation() -> Op[int]:
        yield Query("store_now")
        yield Call([(drop, ())])
        yield Query("store_now")
        return len(runs)

    assert session.transact(operation) == 2, "it ran again from the start"
