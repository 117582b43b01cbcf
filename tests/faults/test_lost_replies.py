"""Commits without a reply: a proxy forwards them and swallows the answer, and nothing is lost or done twice."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import psycopg
import pytest

from onceward.errors import OutcomeUnknown
from onceward.model.task import Advance, Commit
from onceward.model.times import StoreClock, SystemClock
from onceward.store.attempts.workers import NewWorker, register, stop
from onceward.store.drivers.postgres import PostgresStore
from onceward.store.drivers.session import Session
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Call, Op
from onceward.worker.committer import Committer
from onceward.worker.wakeup import PollOnly
from onceward.worker.writer import Wish, Writer, Written
from tests.faults.fleet import Fleet, wait_until
from tests.faults.judging import judge
from tests.faults.proxy import FAULTS, Fault, Proxy
from tests.faults.work import Steps, make_app, record
from tests.proof.tally import SEED, Tally

LOST_REPLY = "a commit, or the reply to it, is lost with the connection"


class Told:
    """The other side of a committer, which notes what was written."""

    def __init__(self, told: list[Written]) -> None:
        self.delivered = told.append

    def may_stand_still(self) -> bool:
        return False

    def heard(self) -> None:
        """Nothing else puts work in line."""

    def went_back(self) -> None:
        raise AssertionError("nothing was lost")


@pytest.fixture
def proxy(postgres_fleet: Fleet) -> Iterator[Proxy]:
    """A proxy before the database."""
    with Proxy(postgres_fleet.url) as proxy:
        yield proxy


def session_through(proxy: Proxy, patience_s: float = 20) -> Session:
    """A session of the engine whose connection goes through the proxy."""
    return PostgresStore(proxy.url, StoreClock(SystemClock())).session(patience_s=patience_s)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.lower())
def test_a_commit_without_a_reply_is_looked_up_and_never_repeated(
    postgres_fleet: Fleet, proxy: Proxy, fault: Fault
) -> None:
    rounds = 5 if fault is Fault.SILENCE else 25
    session = session_through(proxy)
    runs = itertools.count(1)

    def operation(number: int) -> Op[int]:
        yield Call([(record, (number, "a row"))])
        return next(runs)

    for number in range(rounds):
        proxy.choose = partial(_once, [fault])
        answer = session.transact(partial(operation, number))
        assert answer == next(runs) - 1, "it tells of the run that was committed"
    session.close()

    assert postgres_fleet.rows() == {(number, "a row"): 1 for number in range(rounds)}
    doubts = session.doubts
    assert doubts.unknown == proxy.faults == rounds
    assert doubts.committed + doubts.not_committed == rounds
    if fault is not Fault.IN_FLIGHT:
        assert doubts.committed == (0 if fault is Fault.LOST else rounds)
    Tally(matrix="F32", fault=LOST_REPLY, store="postgres", faults=rounds, commits=rounds, reconciled=rounds).keep()


def _once(faults: list[Fault], _: int) -> Fault:
    return faults.pop() if faults else Fault.NONE


def test_workers_and_programs_whose_commits_are_lost_do_everything_once(postgres_fleet: Fleet) -> None:
    lose_commits(postgres_fleet, lost=60)


@pytest.mark.torture
def test_a_thousand_lost_commits_and_everything_is_done_once(postgres_fleet: Fleet) -> None:
    lose_commits(postgres_fleet, lost=1_000, workers=4)


def lose_commits(fleet: Fleet, *, lost: int, workers: int = 2) -> None:
    """Lose every third commit of workers, and of the program that hands in what they do, or the reply to it."""
    dice = random.Random(SEED * lost)
    direct = fleet.url

    def choose(_: int) -> Fault:
        return dice.choice(FAULTS) if dice.random() < 1 / 3 else Fault.NONE

    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(direct, choose, silence_s=0.1)) for _ in range(workers)]
        running = []
        for proxy in proxies:
            fleet.url = proxy.url
            running.append(fleet.start(settings={"concurrency": 4, "poll": "50ms"}))
        fleet.url = direct
        asking = stack.enter_context(Proxy(direct, choose, silence_s=0.1))
        program = stack.enter_context(make_app(asking.url))
        ids: list[int] = []
        while (done := sum(proxy.faults for proxy in proxies)) < lost:
            if len(ids) - fleet.ended() < 8 * workers:
                ids += [enqueued.id for enqueued in program.enqueue_many(Steps(number, 2) for number in range(10))]
            wait_until(partial(_has_moved, proxies, done), "another commit is lost", fleet.state, every_s=0.005)
        for proxy in (*proxies, asking):
            proxy.choose = lambda _: Fault.NONE
        assert fleet.sql("SELECT count(*) FROM onceward_task") == [(len(ids),)], "tasks that nobody was told of"
        recovery_s = [second for proxy in proxies for second in proxy.recovery_s]
        tally = judge(
            fleet,
            running,
            ids,
            matrix="F32",
            fault=LOST_REPLY,
            faults=sum(proxy.faults for proxy in (*proxies, asking)),
            recovery_s=recovery_s,
        )
    assert tally.reconciled > lost / 4, "most of these were not commits of a worker"


def _has_moved(proxies: list[Proxy], before: int) -> bool:
    return sum(proxy.faults for proxy in proxies) > before


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST], ids=lambda fault: fault.name.lower())
def test_a_commit_in_doubt_for_longer_than_the_session_is_patient_is_still_not_repeated(
    postgres_fleet: Fleet, proxy: Proxy, fault: Fault
) -> None:
    [task] = postgres_fleet.enqueue([Steps(1)])
    session = session_through(proxy, patience_s=0.2)
    clock = session.clock
    new = NewWorker("ant", "host", 7, None, "steps", "default", 300_000)
    worker = session.transact(lambda: register(new, clock.now()))
    writer = Writer(session, worker, LineMemory(("default:steps",)), LineMemory(()))
    [lease] = writer.write((), Wish(1)).claimed.leases
    told: list[Written] = []
    heard = threading.Event()
    loop = asyncio.new_event_loop()
    committer = Committer(writer, PollOnly(), loop)
    committer.start(Told(told))

    def lose(_: int) -> Fault:
        proxy.is_down = True
        proxy.choose = lambda _: Fault.NONE
        return fault

    proxy.choose = lose
    commit = Commit(lease, Advance("first", b"1", "second"), ((record, (task, "first")),))
    turning = threading.Thread(target=loop.run_forever)
    turning.start()
    loop.call_soon_threadsafe(committer.submit, commit, lambda _: None)
    wait_until(lambda: proxy.is_down, "the commit is in doubt")
    heard.wait(1.0)  # for longer than the session is patient
    assert not told
    proxy.is_down = False
    wait_until(lambda: told, "the commit is told of")
    committer.stop()
    loop.call_soon_threadsafe(loop.stop)
    turning.join()
    loop.close()
    assert [written.verdicts for written in told] == [[True]]
    postgres_fleet.exactly_once([(task, "first")])
    session.transact(lambda: stop(worker, "stopped", clock.now()))
    session.close()


def test_a_commit_in_doubt_is_not_repeated_because_the_question_is_refused(postgres_fleet: Fleet, proxy: Proxy) -> None:
    """A standby answers in place of the server that is gone, and takes no writes."""
    session = session_through(proxy, patience_s=0.3)
    database = psycopg.conninfo.conninfo_to_dict(postgres_fleet.url)["dbname"]

    def operation() -> Op[None]:
        yield Call([(record, (1, "a row"))])

    def lose(_: int) -> Fault:
        with psycopg.connect(postgres_fleet.url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        proxy.choose = lambda _: Fault.NONE
        return Fault.REPLY_LOST

    session.transact(operation)
    proxy.choose = lose
    with pytest.raises(OutcomeUnknown) as doubt:
        session.transact(operation)
    with psycopg.connect(postgres_fleet.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute(f"ALTER DATABASE {database} RESET default_transaction_read_only")
    assert session.settle(doubt.value)
    session.close()
    assert postgres_fleet.rows() == {(1, "a row"): 2}


def test_a_commit_in_doubt_is_confirmed_when_the_standby_has_it_too(postgres_fleet: Fleet) -> None:
    """A commit that waits for its standby is cut off: this server has it, and may still lose it in a failover."""
    session = PostgresStore(postgres_fleet.url, StoreClock(SystemClock())).session(patience_s=20)
    confirmed = threading.Event()

    def operation() -> Op[None]:
        yield Call([(record, (1, "a row"))])

    def work() -> None:
        session.transact(operation)
        confirmed.set()

    with psycopg.connect(postgres_fleet.url, autocommit=True) as connection:
        session.transact(operation)
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'one_that_is_away'")
        connection.execute("SELECT pg_reload_conf()")
        try:
            wait_until(partial(_lets_commits_wait, connection, postgres_fleet.url), "the server waits for a standby")
            working = threading.Thread(target=work)
            working.start()
            [commit] = wait_until(partial(_waiting_for_standby, connection), "the commit waits")
            connection.execute("SELECT pg_terminate_backend(%s)", (commit,))
            wait_until(lambda: _waiting_for_standby(connection) - {commit}, "the question waits")
            assert not confirmed.is_set()
            assert postgres_fleet.rows() == {(1, "a row"): 2}, "the row is here, and yet not confirmed"
        finally:
            connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
            connection.execute("SELECT pg_reload_conf()")
        working.join(20)
    assert confirmed.is_set()
    assert (session.doubts.unknown, session.doubts.committed) == (1, 1)
    session.close()
    assert postgres_fleet.rows() == {(1, "a row"): 2}


def _lets_commits_wait(connection: psycopg.Connection[tuple[int]], url: str) -> bool:
    """Whether the server waits for a standby. It shows the setting earlier; the checkpointer puts it in force."""
    with psycopg.connect(url, autocommit=True) as other:
        committing = threading.Thread(target=other.execute, args=("SELECT pg_logical_emit_message(true, '', '')",))
        committing.start()
        waiting: set[int] = set()
        while committing.is_alive() and not waiting:
            waiting = _waiting_for_standby(connection)
        connection.execute("SELECT pg_cancel_backend(%s)", (other.info.backend_pid,))
        committing.join()
    return bool(waiting)


def _waiting_for_standby(connection: psycopg.Connection[tuple[int]]) -> set[int]:
    rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchall()
    return {pid for (pid,) in rows}
