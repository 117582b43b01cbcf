"""Statements that are their own transactions, without a reply: done once, and their answers are read afterwards."""

from __future__ import annotations

import select
from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from onceward.errors import OutcomeUnknown, StoreUnavailable
from onceward.model.status import Status
from onceward.model.task import Commit, Finish, band_of, lane_of
from onceward.store.attempts.workers import NewWorker, register, stop
from onceward.store.drivers.postgres import PostgresSession
from onceward.store.drivers.session import Session
from onceward.store.lines.memory import LineMemory
from onceward.worker.writer import Item, Wish, Writer
from tests.faults.fleet import Fleet
from tests.faults.proxy import FAULTS, Fault, Proxy
from tests.faults.test_lost_replies import LOST_REPLY, session_through
from tests.faults.work import Steps, make_app
from tests.proof.tally import Tally

LINE = (lane_of("default", "steps"), band_of(0))


@pytest.fixture
def proxy(postgres_fleet: Fleet) -> Iterator[Proxy]:
    """A proxy before the database."""
    with Proxy(postgres_fleet.url) as proxy:
        yield proxy


def once(faults: list[Fault], _: int) -> Fault:
    """The fault for one commit, and none after it."""
    return faults.pop() if faults else Fault.NONE


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.lower())
def test_a_task_that_was_enqueued_without_a_reply_is_thereonce(
    postgres_fleet: Fleet, proxy: Proxy, fault: Fault
) -> None:
    rounds = 3 if fault is Fault.SILENCE else 10
    with make_app(proxy.url) as app:
        first = app.enqueue(Steps(-1))
        ids = []
        for number in range(rounds):
            proxy.choose = partial(once, [fault])
            ids.append(app.enqueue(Steps(number)).id)
    assert proxy.faults == rounds
    made = {task.id: task.payload.number for task in postgres_fleet.app.tasks.list(limit=100)}
    assert made == {first.id: -1, **{task: number for number, task in enumerate(ids)}}
    postgres_fleet.verified()
    Tally(matrix="F32", fault=LOST_REPLY, store="postgres", faults=rounds, commits=rounds, reconciled=rounds).keep()


def test_a_task_that_was_enqueued_without_a_reply_and_is_gone_again_has_no_id(
    postgres_fleet: Fleet, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_out = PostgresSession._has_committed

    def and_prune(session: PostgresSession, *asked: Any) -> bool:
        committed = find_out(session, *asked)
        session.opened().execute("DELETE FROM onceward_ready; DELETE FROM onceward_task")
        return committed

    with make_app(proxy.url) as app:
        app.stats.counts()
        monkeypatch.setattr(PostgresSession, "_has_committed", and_prune)
        proxy.choose = partial(once, [Fault.REPLY_LOST])
        with pytest.raises(OutcomeUnknown, match="before its id could be read"):
            app.enqueue(Steps(1))


def test_what_was_never_sent_is_not_in_doubt(postgres_fleet: Fleet, proxy: Proxy) -> None:
    session = session_through(proxy, patience_s=0)
    writer = a_writer(session)
    [task] = postgres_fleet.enqueue([Steps(1)])
    proxy.is_down = True
    have_hung_up(session, postgres_fleet.url)
    with pytest.raises(StoreUnavailable):
        writer.write((), Wish(10, line=LINE))
    proxy.is_down = False
    [lease] = writer.write((), Wish(10, line=LINE)).claimed.leases
    assert (lease.task, lease.fence, session.doubts.unknown) == (task, 1, 0)
    session.transact(lambda: stop(writer.worker, "stopped", session.clock.now()))
    session.close()


def have_hung_up(session: Session, url: str) -> None:
    """Have the server end the connection of a session, and wait until that has come through."""
    connection = session.opened()
    [(pid,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [pid])
    hung_up = select.poll()
    hung_up.register(connection.fileno(), select.POLLRDHUP)
    assert hung_up.poll(20_000)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name.lower())
def test_a_claim_without_a_reply_is_read_again_and_never_made_twice(
    postgres_fleet: Fleet, proxy: Proxy, fault: Fault
) -> None:
    rounds = 3 if fault is Fault.SILENCE else 10
    session = session_through(proxy)
    session.insists = True
    writer = a_writer(session)
    for number in range(rounds):
        [task] = postgres_fleet.enqueue([Steps(number)])
        proxy.choose = partial(once, [fault])
        [lease] = writer.write((), Wish(10, line=LINE)).claimed.leases
        assert (lease.task, lease.fence, lease.worker) == (task, 1, writer.worker)
        done = Commit(lease, Finish("fifth", None, Status.SUCCEEDED, None))
        assert writer.write([Item(done, lambda _: None)], None).verdicts == [True]
    assert session.doubts.unknown == proxy.faults == rounds
    session.transact(lambda: stop(writer.worker, "stopped", session.clock.now()))
    session.close()
    postgres_fleet.verified()
    Tally(matrix="F32", fault=LOST_REPLY, store="postgres", faults=rounds, commits=rounds, reconciled=rounds).keep()


def test_a_claim_in_doubt_for_longer_than_the_session_is_patient_is_read_when_that_is_over(
    postgres_fleet: Fleet, proxy: Proxy
) -> None:
    session = session_through(proxy, patience_s=0.2)
    writer = a_writer(session)
    [task] = postgres_fleet.enqueue([Steps(1)])

    def lose(_: int) -> Fault:
        proxy.is_down = True
        proxy.choose = lambda _: Fault.NONE
        return Fault.REPLY_LOST

    proxy.choose = lose
    with pytest.raises(OutcomeUnknown) as doubt:
        writer.write((), Wish(10, line=LINE))
    with pytest.raises(OutcomeUnknown):
        writer.settle(doubt.value)
    proxy.is_down = False
    written = writer.settle(doubt.value)
    assert written is not None
    assert [(lease.task, lease.fence) for lease in written.claimed.leases] == [(task, 1)]
    session.transact(lambda: stop(writer.worker, "stopped", session.clock.now()))
    session.close()
    postgres_fleet.verified()


def a_writer(session: Session) -> Writer:
    """A worker that takes steps."""
    new = NewWorker("ant", "host", 7, None, "steps", "default", 300_000)
    worker = session.transact(lambda: register(new, session.clock.now()))
    return Writer(session, worker, LineMemory((LINE[0],)), LineMemory(()))
