"""Connections to PostgreSQL: what an address says of them, and what comes over them uninvited."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from onceward import App, Connection
from onceward.errors import StoreUnavailable, WriteRefused
from onceward.model.times import StoreClock, SystemClock
from onceward.store import postgres
from onceward.store import session as sessions
from onceward.store.op import Call, Op, Query
from onceward.store.postgres import PostgresStore
from tests.faults.fleet import wait_until
from tests.pooler import IS_BETWEEN

UNLESS_SAID = {"tcp_user_timeout": "30000", "keepalives_idle": "10", "application_name": "onceward"}


@pytest.mark.parametrize(
    "said", [{}, {"tcp_user_timeout": "1500", "application_name": "shop"}], ids=["nothing", "more"]
)
def test_an_address_says_how_long_a_silent_server_is_waited_for(postgres_url: str, said: dict[str, str]) -> None:
    url = psycopg.conninfo.make_conninfo(postgres_url, **said)
    session = PostgresStore(url, StoreClock(SystemClock())).session()
    known = session.opened().info.get_parameters()
    session.close()
    wanted = {**UNLESS_SAID, **said}
    assert {name: known[name] for name in wanted} == wanted


@pytest.mark.skipif(IS_BETWEEN, reason="how long a transaction may wait for somebody, the pooler decides")
def test_a_transaction_whose_process_is_gone_is_ended_by_the_server_and_carried_out_again(
    migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "LONGEST_IDLE_MS", 200)
    store = PostgresStore(migrated_postgres_url, StoreClock(SystemClock()))
    slow, other = store.session(), store.session(patience_s=0)
    tries = []

    def set_it() -> Op[int]:
        yield Query("set_setting", {"name": "a", "value": "1", "at": 1, "author": "ann"})
        tries.append(len(tries))
        if len(tries) == 1:  # frozen, or cut off: it says nothing more, and has a lock that others want
            other.transact(_set_by_another)
        return len((yield Query("read_settings")))

    assert slow.transact(set_it) == 1
    assert tries == [0, 1]
    assert slow.run(Query("read_settings"))[0][1] == "1"
    slow.close()
    other.close()


def _set_by_another() -> Op[None]:
    yield Query("set_setting", {"name": "a", "value": "2", "at": 2, "author": "bob"})


@pytest.mark.skipif(IS_BETWEEN, reason="how long a transaction may wait for somebody, the pooler decides")
@pytest.mark.parametrize("says_more", [False, True])
def test_a_write_that_keeps_its_transaction_waiting_is_an_error_of_its_stage(
    migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch, says_more: bool
) -> None:
    monkeypatch.setattr(postgres, "LONGEST_IDLE_MS", 200)
    session = PostgresStore(migrated_postgres_url, StoreClock(SystemClock())).session()
    calls = []

    def compute(connection: Connection) -> None:
        calls.append(connection)
        wait_until(lambda: session.is_lost(), "the server has ended it")
        if says_more:
            connection.execute("SELECT 1")

    def write() -> Op[None]:
        yield Call(((compute, ()),))

    with pytest.raises(WriteRefused, match=r"kept its transaction waiting for 0\.2 s"):
        session.transact(write)
    assert len(calls) == 1
    assert session.transact(_set_by_another) is None
    session.close()


@pytest.mark.skipif(IS_BETWEEN, reason="listens, in place of somebody else who had this connection before")
@pytest.mark.filterwarnings("ignore:using 'notifies.*together with notifies handlers")
def test_notifications_for_somebody_else_are_not_kept(postgres_url: str) -> None:
    session = PostgresStore(postgres_url, StoreClock(SystemClock())).session()
    connection = session.opened()
    connection.execute("LISTEN onceward")
    with psycopg.connect(postgres_url, autocommit=True) as other:
        for _ in range(3):
            other.execute("NOTIFY onceward, 'news'")
            session.run(Query("store_now"))
    assert list(connection.notifies(timeout=0)) == []
    session.close()


@pytest.mark.untroubled("a connection that is lost is replaced")
@pytest.mark.skipif(IS_BETWEEN, reason="whose connections they are, the pooler decides")
def test_one_read_after_the_other_uses_one_connection(postgres_url: str) -> None:
    with App(postgres_url) as app:
        backends = {app.read(_backend) for _ in range(20)}
    assert len(backends) == 1


@pytest.mark.skipif(IS_BETWEEN, reason="whose connections they are, the pooler decides")
def test_reads_inside_each_other_use_connections_of_their_own(postgres_url: str) -> None:
    with App(postgres_url) as app:
        outer, inner = app.read(lambda connection: (_backend(connection), app.read(_backend)))
        assert outer != inner


@pytest.mark.skipif(IS_BETWEEN, reason="whose connections they are, the pooler decides")
def test_a_connection_for_reading_that_was_cut_is_replaced(postgres_url: str) -> None:
    with App(postgres_url) as app:
        first = app.read(_backend)
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (first,))
        assert app.read(_backend) != first


@pytest.mark.skipif(IS_BETWEEN, reason="whose connections they are, the pooler decides")
@pytest.mark.parametrize(
    "said", ["SET search_path TO elsewhere", "SELECT set_config('search_path', 'elsewhere', false)"]
)
def test_what_a_read_has_set_is_not_met_by_the_next(postgres_url: str, said: str) -> None:
    with App(postgres_url) as app:
        app.read(lambda connection: connection.execute(said, ()))
        [(path,)] = app.read(lambda connection: connection.execute("SHOW search_path", ()).fetchall())
    assert path != "elsewhere"


def _backend(connection: Connection) -> int:
    [(number,)] = connection.execute("SELECT pg_backend_pid()", ()).fetchall()
    return int(number)


def test_who_tries_for_a_database_for_long_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sessions, "TELL_AFTER_S", 0.2)
    monkeypatch.setattr(sessions, "LONGEST_PAUSE_S", 0.05)
    session = PostgresStore(f"postgresql:///none?host={tmp_path}", StoreClock(SystemClock())).session(patience_s=0.6)
    with pytest.raises(StoreUnavailable, match="could not be used"):
        session.patiently(session.measure_clock)
    assert caplog.text.count("the database does not answer as it should, trying again") == 1
