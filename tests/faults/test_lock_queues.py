"""Transactions in each other's way: migrations behind a long reader, deadlocks, serialization failures."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import psycopg
import pytest

from onceward import App, Connection, Migration
from onceward.model.times import StoreClock, SystemClock
from onceward.store.drivers.postgres import PostgresStore
from onceward.store.drivers.session import Session
from onceward.store.op import Call, Op
from tests.faults.fleet import Fleet, wait_until
from tests.faults.judging import judge
from tests.faults.work import Steps
from tests.proof.tally import Tally

BEGUN = Migration("effects", "CREATE TABLE effect (task bigint NOT NULL, stage text NOT NULL)")
WIDER = Migration("001 wider", "ALTER TABLE effect ADD COLUMN note text; CREATE TABLE wider (id integer)")


@pytest.mark.parametrize("is_terminated", [False, True], ids=["waits", "and its connection is lost"])
def test_a_migration_behind_a_long_reader_lets_others_pass_and_is_done_when_it_can(
    postgres_fleet: Fleet, is_terminated: bool
) -> None:
    url = postgres_fleet.url
    with (
        psycopg.connect(url) as reader,
        psycopg.connect(url, autocommit=True) as other,
        App(url, migrations=[BEGUN, WIDER]) as app,
    ):
        reader.execute("SELECT count(*) FROM effect")  # and its transaction stays open
        migrating = threading.Thread(target=app.migrate)
        migrating.start()
        waiting = wait_until(partial(_waiting, other, "ALTER TABLE"), "the migration waits")
        if is_terminated:
            other.execute("SELECT pg_terminate_backend(%s)", waiting)
        other.execute("SET statement_timeout = '5s'")
        for number in range(20):
            other.execute("INSERT INTO effect VALUES (1, 'passes')")
            if number % 10 == 0:
                wait_until(partial(_waiting, other, "ALTER TABLE"), "it tries again")
        assert not _has_wider(other), "half of the migration"
        reader.rollback()
        migrating.join(60)
        assert _has_wider(other)
    Tally(matrix="F38", fault="migration behind a long reader", store="postgres", faults=1).keep()


def _waiting(connection: psycopg.Connection[Any], what: str) -> tuple[int] | None:
    row: tuple[int] | None = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s", (f"{what}%",)
    ).fetchone()
    return row


def _has_wider(connection: psycopg.Connection[Any]) -> bool:
    found = connection.execute("SELECT to_regclass('wider')").fetchone()
    return found is not None and found[0] is not None


def test_transactions_that_wait_for_each_other_are_both_done_once(postgres_fleet: Fleet) -> None:
    rounds = 3
    with psycopg.connect(postgres_fleet.url, autocommit=True) as connection:
        connection.execute("SET deadlock_timeout = '50ms'")
        connection.execute("CREATE TABLE place (id integer PRIMARY KEY, count integer NOT NULL)")
        connection.execute("INSERT INTO place VALUES (1, 0), (2, 0)")
    tries = {1: 0, 2: 0}

    def touch(connection: Connection, first: int, together: threading.Barrier) -> None:
        tries[first] += 1
        connection.execute("SET LOCAL deadlock_timeout = '50ms'")
        connection.execute("UPDATE place SET count = count + 1 WHERE id = %s", (first,))
        if tries[first] == 1:
            together.wait(20)  # each has locked one of them
        connection.execute("UPDATE place SET count = count + 1 WHERE id = %s", (3 - first,))

    def operation(first: int, together: threading.Barrier) -> Op[None]:
        yield Call([(touch, (first, together))])

    for _ in range(rounds):
        tries.update({1: 0, 2: 0})
        together = threading.Barrier(2)
        sessions = [_session(postgres_fleet.url) for _ in (1, 2)]
        threads = [
            threading.Thread(target=session.transact, args=(partial(operation, first, together),))
            for first, session in enumerate(sessions, 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        for session in sessions:
            session.close()
        assert sum(tries.values()) > 2, "nobody was in anybody's way"
    assert postgres_fleet.sql("SELECT id, count FROM place ORDER BY id") == [(1, 2 * rounds), (2, 2 * rounds)]
    Tally(matrix="F38", fault="deadlock", store="postgres", faults=rounds, commits=2 * rounds).keep()


def _session(url: str) -> Session:
    return PostgresStore(url, StoreClock(SystemClock())).session(patience_s=20)


def test_a_connection_that_is_lost_while_it_is_set_up_is_opened_again(postgres_fleet: Fleet) -> None:
    opened: list[int] = []

    def set_up(connection: Any) -> None:
        opened.append(connection.info.backend_pid)
        if len(opened) % 3:
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    with App(postgres_fleet.url, on_connect=set_up) as app:
        assert app.stats.counts()
        session = app._store.session(patience_s=20)
        session.transact(_nothing)
        session.close()
    assert len(opened) >= 6


def _nothing() -> Op[None]:
    yield Call([])


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
def test_on_a_database_with_a_stricter_isolation_everything_is_done_once(postgres_fleet: Fleet, isolation: str) -> None:
    database = psycopg.conninfo.conninfo_to_dict(postgres_fleet.url)["dbname"]
    with psycopg.connect(postgres_fleet.url, autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {database} SET default_transaction_isolation = '{isolation}'")
    postgres_fleet.app.close()
    before = _rolled_back(postgres_fleet)
    ids = postgres_fleet.enqueue(Steps(number, longest_ms=3) for number in range(60))
    workers = [postgres_fleet.start(settings={"concurrency": 10}) for _ in range(3)]
    wait_until(lambda: postgres_fleet.ended() == len(ids), "every task has ended", postgres_fleet.state)
    faults = _rolled_back(postgres_fleet) - before
    judge(postgres_fleet, workers, ids, matrix="F38", fault=f"default isolation {isolation}", faults=faults)


def _rolled_back(fleet: Fleet) -> int:
    [(count,)] = fleet.sql("SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()")
    return int(count)
