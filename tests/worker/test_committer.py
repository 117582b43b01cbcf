"""Who writes: the committer's thread, or the event loop where nobody there would have to wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from onceward.errors import OutcomeUnknown
from onceward.model.status import Event, Status
from onceward.model.task import Commit, Finish, Lease
from onceward.store.attempts.commit_results import CommitResult
from onceward.store.drivers.session import Patience, Session
from onceward.store.drivers.session_errors import ConnectionLost
from onceward.store.lines.memory import LineMemory
from onceward.worker import committer as committers
from onceward.worker import crash_points
from onceward.worker.committer import Committer
from onceward.worker.wakeup import PollOnly
from onceward.worker.writer import Wish, Writer, Written
from tests.store.conftest import Hands
from tests.worker.conftest import Clockwork

LIMIT_S = 20.0
DONE = Finish("write", None, Status.SUCCEEDED, None)


class Desk:
    """A committer on the event loop of a test, and which threads have written."""

    def __init__(self, clockwork: Clockwork, session: Session, *, may_stand_still: Callable[[], bool]) -> None:
        self.hands = clockwork.hands()
        self.tasks = self.hands.enqueue(2)
        worker = self.hands.worker()
        writer = Writer(session, worker, LineMemory(("default:note",), sweeps=False), LineMemory((), sweeps=False))
        self.leases: list[Lease] = writer.write((), Wish(10)).claimed.leases
        self.wrote: list[int] = []
        self.written: list[Written] = []
        self.loop = asyncio.get_running_loop()
        self.committer = Committer(
            writer,
            PollOnly(),
            self.loop,
        )
        self.may_stand_still = may_stand_still
        self.committer.start(self)

    def heard(self) -> None:
        """Nothing else puts work in line."""

    def went_back(self) -> None:
        raise AssertionError("nothing was lost")

    def delivered(self, written: Written) -> None:
        assert threading.get_ident() == threading.main_thread().ident
        self.written.append(written)
        for item, verdict in zip(written.items, written.verdicts, strict=True):
            item.answer(verdict)

    async def finish(self, lease: Lease, *writes: Any) -> CommitResult:
        """Have the end of a task written; the verdict."""
        told: asyncio.Future[CommitResult] = self.loop.create_future()
        self.committer.submit(Commit(lease, DONE, writes), told.set_result)
        return await asyncio.wait_for(told, LIMIT_S)

    def statuses(self) -> list[tuple[int, int]]:
        return self.hands.sql("SELECT status, fence FROM onceward_task ORDER BY id")


@contextmanager
def noting(wrote: list[int]) -> Iterator[None]:
    """Note which thread is in the middle of every transaction meanwhile."""

    def note(point: str) -> None:
        if point == "inside commit":
            wrote.append(threading.get_ident())

    crash_points.hook = note
    try:
        yield
    finally:
        crash_points.hook = None


def play(
    clockwork: Clockwork,
    scene: Callable[[Desk], Any],
    session: Session | None = None,
    may_stand_still: Callable[[], bool] = lambda: True,
) -> Desk:
    """Play a scene with a committer that ends with it."""

    async def played() -> Desk:
        desk = Desk(clockwork, session or clockwork.session(), may_stand_still=may_stand_still)
        with noting(desk.wrote):
            try:
                await scene(desk)
            finally:
                await asyncio.to_thread(desk.committer.stop)
        return desk

    return asyncio.run(played())


async def finish_both(desk: Desk) -> None:
    assert await asyncio.gather(*map(desk.finish, desk.leases)) == [True, True]


@pytest.mark.untroubled("in trouble it is the thread that writes")
def test_sqlite_is_written_on_the_event_loop_where_no_stage_would_wait(clockwork: Clockwork) -> None:
    desk = play(clockwork, finish_both)
    here = threading.main_thread().ident
    if clockwork.app.dialect == "sqlite":
        assert desk.wrote == [here]
    else:
        assert desk.wrote
        assert here not in desk.wrote
    assert desk.statuses() == [(Status.SUCCEEDED, 1)] * 2


def test_while_a_stage_runs_the_thread_writes(clockwork: Clockwork) -> None:
    desk = play(clockwork, finish_both, may_stand_still=lambda: False)
    assert desk.wrote
    assert threading.main_thread().ident not in desk.wrote
    assert desk.statuses() == [(Status.SUCCEEDED, 1)] * 2


def test_rows_of_the_application_are_written_by_the_thread(clockwork: Clockwork) -> None:
    """Its code may take its time."""
    called: list[int] = []

    async def finish_one_with_rows(desk: Desk) -> None:
        with_rows = desk.finish(desk.leases[0], (lambda _connection: called.append(threading.get_ident()), ()))
        assert await asyncio.gather(with_rows, desk.finish(desk.leases[1])) == [True, True]

    play(clockwork, finish_one_with_rows)
    assert called
    assert threading.main_thread().ident not in called


@pytest.fixture
def on_sqlite(clockwork: Clockwork) -> Clockwork:
    """What concerns only SQLite: there the event loop may write."""
    if clockwork.app.dialect != "sqlite":
        pytest.skip("PostgreSQL is never written on the event loop")
    return clockwork


def test_what_does_not_fit_into_a_batch_is_written_with_the_next_one(
    clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committers, "LARGEST_BATCH", 1)
    desk = play(clockwork, finish_both)
    assert [len(written.items) for written in desk.written] == [1, 1]
    assert desk.statuses() == [(Status.SUCCEEDED, 1)] * 2


def test_the_event_loop_does_not_wait_for_another_writer(on_sqlite: Clockwork) -> None:
    other = on_sqlite.session()

    async def finish_while_locked(desk: Desk) -> None:
        other.opened().execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(finish_both(desk))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not desk.written
        other.opened().execute("COMMIT")  # by this very thread: if it stood still, the lock would never be free
        await waiting

    desk = play(on_sqlite, finish_while_locked)
    assert threading.main_thread().ident not in desk.wrote
    assert desk.statuses() == [(Status.SUCCEEDED, 1)] * 2


def test_after_trouble_on_the_event_loop_the_thread_writes_the_same_once(on_sqlite: Clockwork) -> None:
    session = on_sqlite.session()
    failing = [True]
    commit = session.commit

    def lose_before() -> None:
        if failing.pop():
            failing.append(False)
            raise ConnectionLost("the disk is away")
        failing.append(False)
        commit()

    async def finish_in_trouble(desk: Desk) -> None:
        session.commit = lose_before  # type: ignore[method-assign]
        await finish_both(desk)

    desk = play(on_sqlite, finish_in_trouble, session)
    here = threading.main_thread().ident
    assert desk.wrote[0] == here
    assert desk.statuses() == [(Status.SUCCEEDED, 1)] * 2
    assert len(log_of_ends(desk.hands)) == 2


@pytest.mark.untroubled("it makes its own trouble")
@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_in_doubt_on_the_event_loop_is_settled_by_the_thread(on_sqlite: Clockwork, committed: bool) -> None:
    session = on_sqlite.session()
    commit, has_committed = session.commit, session._has_committed
    asked_by: list[int] = []

    def lose_once() -> None:
        session.commit = commit  # type: ignore[method-assign]
        if committed:
            commit()
        raise ConnectionLost("nobody knows")

    def ask(token: bytes, patience: Patience) -> bool:
        asked_by.append(threading.get_ident())
        if len(asked_by) == 1:
            raise OutcomeUnknown("not yet")
        return has_committed(token, patience)

    async def finish_in_doubt(desk: Desk) -> None:
        session.commit, session._has_committed = lose_once, ask  # type: ignore[method-assign]
        await finish_both(desk)

    desk = play(on_sqlite, finish_in_doubt, session)
    here = threading.main_thread().ident
    assert [asker == here for asker in asked_by] == [True, False]
    assert len(desk.wrote) == (1 if committed else 2)
    assert desk.statuses() == [(Status.SUCCEEDED, 1)] * 2
    assert len(log_of_ends(desk.hands)) == 2


def test_a_slow_disk_is_left_to_the_thread(on_sqlite: Clockwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onceward.worker.committer.LONGEST_STANDSTILL_S", -1.0)
    desk = play(on_sqlite, finish_both)
    assert threading.main_thread().ident not in desk.wrote


@pytest.mark.untroubled("in trouble it is the thread that writes")
def test_what_is_refused_on_the_event_loop_is_told(on_sqlite: Clockwork) -> None:
    async def finish_twice(desk: Desk) -> None:
        assert await desk.finish(desk.leases[0]) is True
        assert await desk.finish(desk.leases[0]) is False
        assert await desk.finish(desk.leases[1]) is True

    desk = play(on_sqlite, finish_twice)
    assert set(desk.wrote) == {threading.main_thread().ident}


def test_what_is_handed_in_after_the_last_transaction_is_answered_as_lost(clockwork: Clockwork) -> None:
    """A stage in a thread outlives its worker, and waits for its checkpoint."""
    verdicts: list[CommitResult] = []

    async def hand_in_late(desk: Desk) -> None:
        await asyncio.to_thread(desk.committer.stop)
        verdicts.extend(await asyncio.gather(*map(desk.finish, desk.leases)))

    desk = play(clockwork, hand_in_late)
    assert verdicts == [False, False]
    assert desk.statuses() == [(Status.RUNNING, 1)] * 2


@pytest.mark.untroubled("it makes its own trouble")
@pytest.mark.parametrize("in_doubt", [True, False])
def test_what_cannot_be_written_before_the_end_is_answered_as_lost(
    clockwork: Clockwork, monkeypatch: pytest.MonkeyPatch, in_doubt: bool
) -> None:
    monkeypatch.setattr(committers, "LAST_TRIES_S", 0.0)
    monkeypatch.setattr(committers, "PAUSE_AFTER_TROUBLE_S", 0.001)
    session = clockwork.session()

    def fail(*_: object, **__: object) -> Any:
        raise OutcomeUnknown("not yet") if in_doubt else ConnectionLost("the database is away")

    async def end_in_trouble(desk: Desk) -> None:
        monkeypatch.setattr(session, "transact", fail)
        monkeypatch.setattr(session, "settle", fail)
        waiting = asyncio.gather(*map(desk.finish, desk.leases))
        await asyncio.sleep(0)
        await asyncio.to_thread(desk.committer.stop)
        assert await waiting == [False, False]
        monkeypatch.undo()

    play(clockwork, end_in_trouble, session, may_stand_still=lambda: False)


def log_of_ends(hands: Hands) -> list[tuple[int]]:
    """The ends of tasks that the log tells of."""
    return hands.sql(f"SELECT task FROM onceward_attempt WHERE event = {int(Event.FINISHED)}")
