"""A database that has gone back: a standby that was behind has taken over, or an older copy was restored, and workers
still hold what they were given before. Nothing rests on what is gone, and nothing is left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import psycopg
import pytest

from onceward import App, Config, Context, LeaseLost, Payload, Pipeline, Status
from onceward.store.drivers.session import RECEIPT_IS_THERE_MS, Patience, Session
from onceward.store.drivers.session_errors import WentBack
from onceward.store.op import Op, Query
from onceward.worker.process import WorkerProcess
from onceward.worker.worker_orders import Orders
from tests.worker.conftest import NOTES, Clockwork, assert_verified, insert_note, notes


class Job(Payload, kind="job"):
    name: str = "job"


class Copy:
    """All tables as they were at a moment."""

    def __init__(self, app: App, url: str) -> None:
        self._url = url
        self._session = app._store.session()
        self._rows: dict[str, list[Any]] = {}

    def take(self) -> None:
        """Now."""
        if self._url.startswith("sqlite"):
            connection = self._session.opened()
            found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
            self._rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in found}
            return
        with psycopg.connect(self._url) as connection:
            found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
            self._rows = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in found}

    def restore(self, *, but: Collection[str] = ()) -> None:
        """Everything is as it was then, but what these tables hold."""
        rows_of = {name: rows for name, rows in self._rows.items() if name not in but}
        if self._url.startswith("sqlite"):
            connection = self._session.opened()
            connection.execute("BEGIN IMMEDIATE; PRAGMA defer_foreign_keys = on")
            for name, rows in rows_of.items():
                connection.execute(f"DELETE FROM {name}")
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
            connection.execute("COMMIT")
            return
        with psycopg.connect(self._url) as connection:
            connection.execute("SET session_replication_role = replica")
            for name, rows in rows_of.items():
                connection.execute(f"DELETE FROM {name}")
                if rows:
                    marks = ", ".join(["%s"] * len(rows[0]))
                    with connection.cursor() as cursor:
                        cursor.executemany(f"INSERT INTO {name} OVERRIDING SYSTEM VALUE VALUES ({marks})", rows)

    def close(self) -> None:
        self._session.close()


class Place:
    """An app in real time, and a copy of its database."""

    def __init__(self, url: str, job: Pipeline[Any]) -> None:
        self.app = App(url, [job], migrations=[NOTES], config=Config(lease="3s", heartbeat="50ms"))
        self.app.prepare()
        self.copy = Copy(self.app, url)


@pytest.fixture
def place(store_url: str) -> Iterator[Callable[[Pipeline[Any]], Place]]:
    """Makes an app on the database of this test; in the end verified."""
    made: list[Place] = []

    def make(job: Pipeline[Any]) -> Place:
        made.append(Place(store_url, job))
        return made[-1]

    yield make
    try:
        for one in made:
            assert_verified(one.app)
    finally:
        for one in made:
            one.copy.close()
            one.app.close()


def test_no_worker_goes_on_from_a_commit_that_is_gone(place: Callable[[Pipeline[Any]], Place]) -> None:
    job = Pipeline(Job)
    calls: list[str] = []
    here: list[Place] = []

    @job.stage
    def first(ctx: Context[Job]) -> str:
        calls.append("first")
        ctx.write(insert_note, ctx.task.id, "first")
        if len(calls) == 1:
            here[0].copy.take()
        return "done"

    @job.stage
    def second(ctx: Context[Job]) -> None:
        calls.append("second")
        ctx.write(insert_note, ctx.task.id, "second")
        if len(calls) == 2:
            here[0].copy.restore()  # the first stage has not ended, and its lease still stands

    here.append(place(job))
    app = here[0].app
    task = app.enqueue(Job())
    app.run(until_idle=True)
    assert calls == ["first", "second", "first", "second"]
    assert notes(app) == [(task.id, "first"), (task.id, "second")]
    done = app.tasks.get(task.id)
    assert (done.status, done.failures, done.crashes) == (Status.SUCCEEDED, 0, 0)
    assert [one.event.word for one in done.history] == ["released", "stage committed", "finished"]


def test_a_stage_that_waits_for_a_commit_is_told_that_its_lease_is_lost(
    place: Callable[[Pipeline[Any]], Place],
) -> None:
    job = Pipeline(Job)
    here: list[Place] = []
    begun: list[int] = []
    heard = threading.Event()

    @job.stage
    def only(ctx: Context[Job]) -> None:
        begun.append(ctx.task.id)
        if len(begun) > 1:
            return
        here[0].copy.take()
        ctx.checkpoint(1)
        here[0].copy.restore()
        try:
            ctx.checkpoint(2)
        except LeaseLost:
            heard.set()

    here.append(place(job))
    app = here[0].app
    task = app.enqueue(Job())
    app.run(until_idle=True)
    assert begun == [task.id, task.id]
    assert heard.wait(20)


def test_what_was_ended_and_is_running_again_does_not_stay_with_a_worker_that_knows_nothing_of_it(
    place: Callable[[Pipeline[Any]], Place],
) -> None:
    job = Pipeline(Job)
    calls: list[int] = []
    here: list[Place] = []
    processes: list[WorkerProcess] = []

    @job.stage
    def only(ctx: Context[Job]) -> None:
        calls.append(ctx.task.id)
        if len(calls) == 1:
            here[0].copy.take()

    here.append(place(job))
    app = here[0].app
    task = app.enqueue(Job())

    def watch() -> None:
        """What the worker says of itself when it is idle: then the copy takes the place of the database."""
        if len(calls) == 1 and app.tasks.get(task.id).status is Status.SUCCEEDED:
            here[0].copy.restore()
            assert app.tasks.get(task.id).status is Status.RUNNING
            watching.append("restored")
        elif len(calls) == 2 and app.tasks.get(task.id).status is Status.SUCCEEDED:
            processes[0].request_stop()

    watching: list[str] = []
    run_beside(app, processes, watch)
    assert watching == ["restored"]
    assert calls == [task.id, task.id]
    assert app.tasks.get(task.id).status is Status.SUCCEEDED


def test_what_others_had_cancelled_and_is_running_again_runs_though_no_commit_of_its_worker_is_gone(
    place: Callable[[Pipeline[Any]], Place], caplog: pytest.LogCaptureFixture
) -> None:
    job = Pipeline(Job)
    calls: list[int] = []
    here: list[Place] = []
    processes: list[WorkerProcess] = []
    heard = threading.Event()

    @job.stage
    def only(ctx: Context[Job]) -> None:
        calls.append(ctx.task.id)
        if len(calls) > 1:
            return
        here[0].copy.take()
        here[0].app.tasks.cancel(ctx.task.id)
        patience_until = time.monotonic() + 30
        while ctx.alive():
            assert time.monotonic() < patience_until
            time.sleep(0.01)
        heard.set()

    here.append(place(job))
    app = here[0].app
    task = app.enqueue(Job())

    def watch() -> None:
        """When the worker has dropped it, the copy takes the place of the database."""
        if heard.is_set() and not restored:
            # No transaction of the worker's own is gone, and a heartbeat just then must not find its row missing.
            here[0].copy.restore(but=["onceward_worker", "onceward_receipt"])
            restored.append(app.tasks.get(task.id).status)
            give_up_at.append(time.monotonic() + 20)
        elif restored and (app.tasks.get(task.id).status is Status.SUCCEEDED or time.monotonic() > give_up_at[0]):
            processes[0].request_stop()

    restored: list[Status] = []
    give_up_at: list[float] = []
    run_beside(app, processes, watch)
    assert restored == [Status.RUNNING]
    assert calls == [task.id, task.id]
    done = app.tasks.get(task.id)
    assert (done.failures, done.crashes) == (0, 0)
    assert [one.event.word for one in done.history] == ["released", "finished"]
    assert "leases that were lost stand again" in caplog.text
    assert "beginning again" not in caplog.text


def run_beside(app: App, processes: list[WorkerProcess], watch: Callable[[], None]) -> None:
    """Work in a thread, and look at it every now and then until it has ended."""
    thread = threading.Thread(target=lambda: app._work(Orders(), on_start=processes.append))
    thread.start()
    while thread.is_alive():
        watch()
        thread.join(timeout=0.02)


def nothing() -> Op[None]:
    yield Query("read_receipt", {"token": b"n" * 16})


def forget_receipts(session: Session) -> None:
    session.opened().execute("DELETE FROM onceward_receipt")


def test_a_session_that_insists_refuses_to_follow_what_is_gone(clockwork: Clockwork) -> None:
    ours, others = clockwork.session(), clockwork.session()
    ours.insists = True
    ours.transact(nothing)
    ours.transact(nothing)
    forget_receipts(others)
    for _ in range(2):  # and does not forget it by having said so
        with pytest.raises(WentBack, match="has lost transactions that it had confirmed"):
            ours.transact(nothing)
    others.transact(nothing)
    assert ours.last_receipt is not None
    assert others.last_receipt is None
    ours.insists = False
    ours.transact(nothing)


def test_a_receipt_that_may_have_been_pruned_is_not_missed(clockwork: Clockwork) -> None:
    ours = clockwork.session()
    ours.insists = True
    ours.transact(nothing)
    clockwork.clock.advance(RECEIPT_IS_THERE_MS / 1_000)
    forget_receipts(clockwork.session())
    ours.transact(nothing)


def test_what_was_in_doubt_and_turned_out_to_be_committed_must_be_there_too(clockwork: Clockwork) -> None:
    ours, others = clockwork.session(), clockwork.session()
    ours.insists = True
    token = b"d" * 16
    ours.begin_with_receipt(token, None)
    ours.commit()
    assert ours._has_committed(token, Patience(0.0, ours))
    assert ours.last_receipt == token
    forget_receipts(others)
    with pytest.raises(WentBack):
        ours.transact(nothing)
