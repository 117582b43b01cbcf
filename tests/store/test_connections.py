"""Connections to PostgreSQL: what an address says of them, and what comes over them uninvited."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from onceward import App, Connection
from onceward.errors import StoreUnavailable, WriteRefused
from onceward.model.times import StoreClock, SystemClock
from onceward.store.drivers import availability, postgres
from onceward.store.drivers import session as sessions
from onceward.store.drivers.open import open_store
from onceward.store.drivers.postgres import PostgresStore
from onceward.store.drivers.session_errors import ConnectionLost
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Call, Op, Query
from onceward.worker.writer import Wish, Writer
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
def test_notifications_for_other_listeners_are_not_kept(postgres_url: str) -> None:
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
    assert caplog.text.count("the database cannot be used, trying again") == 1


@pytest.mark.untroubled("it makes its own trouble, and counts pauses")
@pytest.mark.skipif(IS_BETWEEN, reason="whose connections they are, the pooler decides")
@pytest.mark.parametrize("what", ["a read", "a transaction", "a look for work"])
def test_after_a_lost_connection_the_next_one_is_tried_at_once(
    migrated_postgres_url: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    store = PostgresStore(migrated_postgres_url, StoreClock(SystemClock()))
    session, other = store.session(patience_s=5.0), store.session()
    writer = Writer(session, 1, LineMemory(("default:note",), sweeps=False), LineMemory((), sweeps=False))
    pauses: list[float] = []
    monkeypatch.setattr(sessions.time, "sleep", pauses.append)
    does = {
        "a read": lambda: session.read(Query("read_settings")),
        "a transaction": lambda: session.transact(_set_by_another),
        "a look for work": lambda: writer.write((), Wish(1)),
    }[what]
    does()
    backend = session.opened().info.backend_pid
    other.opened().execute("SELECT pg_terminate_backend(%s, 5000)", [backend])
    does()
    assert session.opened().info.backend_pid != backend
    assert pauses == []
    session.close()
    other.close()


def test_a_server_that_stays_away_is_tried_after_pauses_that_double(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = PostgresStore(f"postgresql:///none?host={tmp_path}", StoreClock(SystemClock())).session(patience_s=0.2)
    pauses: list[float] = []
    monkeypatch.setattr(sessions.time, "sleep", pauses.append)
    with pytest.raises(StoreUnavailable):
        session.read(Query("read_settings"))
    for place, meant in enumerate((0.05, 0.1, 0.2, 0.4)):
        assert meant / 2 <= pauses[place] <= meant * 1.5


@pytest.mark.untroubled("it makes its own trouble, and counts lines")
def test_a_database_that_goes_away_and_comes_back_is_one_line_each(
    tmp_path: Path, sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "onceward.store")
    monkeypatch.setattr(sessions, "database", availability.Availability())
    monkeypatch.setattr(sessions, "TELL_AFTER_S", 0.05)
    monkeypatch.setattr(sessions, "LONGEST_PAUSE_S", 0.02)
    two = [open_store(sqlite_url).session(patience_s=0.3) for _ in range(2)]
    is_away = True

    def work() -> str:
        if is_away:
            raise ConnectionLost("no route")
        return "done"

    for session in (*two, *two):
        with pytest.raises(StoreUnavailable):
            session.patiently(work)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    is_away = False
    assert two[0].patiently(work) == "done"
    assert len(caplog.records) == 1, "the other one has not come through yet"
    assert [session.patiently(work) for session in (*two, *two)] == ["done"] * 4
    assert ["the database is back" in record.getMessage() for record in caplog.records] == [False, True]
    for session in two:
        session.close()
