"""Commits that another transaction blocks, or that cost their transaction each time: those of other tasks go on."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import apsw
import psycopg
import pytest

from onceward import App, Config, Context, Payload, Pipeline, Retry, Status
from onceward.worker import process
from tests.faults.fleet import wait_until
from tests.pooler import IS_BETWEEN

BESIDE = 50


class Parent(Payload, kind="parent"):
    number: int


class Child(Payload, kind="child"):
    number: int


class Beside(Payload, kind="beside"):
    number: int


parents = Pipeline(Parent, retry=Retry(retries=1, base="10ms"))
children, besides = Pipeline(Child, unique="everywhere"), Pipeline(Beside)
runs, may_end = threading.Event(), threading.Event()


@parents.stage
def spawn(ctx: Context[Parent]) -> None:
    ctx.spawn(Child(1))
    runs.set()
    assert may_end.wait(30)


@children.stage
async def rest(ctx: Context[Child]) -> None:
    pass


@besides.stage
async def succeed(ctx: Context[Beside]) -> None:
    pass


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LONGEST_LOCK_WAIT_S", 0.2)
    monkeypatch.setattr(process, "INSISTS_S", 0.5)
    runs.clear()
    may_end.clear()


@contextmanager
def working(app: App) -> Iterator[Callable[[], None]]:
    """A worker in a thread; what is yielded waits until it has found nothing left to do."""
    thread = threading.Thread(target=lambda: app.run(until_idle=True), daemon=True)
    thread.start()
    try:
        yield lambda: thread.join(30)
    finally:
        may_end.set()
        thread.join(30)
        assert not thread.is_alive()


def made(url: str, **options: Any) -> App:
    app = App(url, [parents, children, besides], config=Config(write_timeout="1s"), **options)
    app.prepare()
    return app


def statuses(app: App, kind: str) -> Counter[Status]:
    return Counter(one.status for one in app.tasks.list(kind=kind, limit=200))


def broken(app: App) -> list[str]:
    return [breach.sentence for check in app.verify().checks for breach in check.breaches]


def locks_the_row(app: App, connection: psycopg.Connection[Any], task: int) -> None:
    connection.execute("SELECT 1 FROM onceward_task WHERE id = %s FOR UPDATE", [task])


def enqueues_the_child(app: App, connection: psycopg.Connection[Any], task: int) -> None:
    app.enqueue(Child(1), conn=connection, root=True)


@pytest.mark.skipif(IS_BETWEEN, reason="behind a pooler no limit is set on waits for locks")
@pytest.mark.parametrize("hold", [locks_the_row, enqueues_the_child], ids=["postgres-row", "postgres-key"])
def test_a_commit_that_another_transaction_blocks_holds_up_no_other(
    migrated_postgres_url: str, hold: Callable[[App, psycopg.Connection[Any], int], None]
) -> None:
    """A file of SQLite has one writer at a time: there every commit waits for a transaction of another program."""
    with made(migrated_postgres_url) as app:
        parent = app.enqueue(Parent(1), root=True)
        with working(app) as wait_for_the_end, psycopg.connect(migrated_postgres_url) as connection:
            assert runs.wait(30)
            hold(app, connection, parent.id)
            may_end.set()
            app.enqueue_many([Beside(number) for number in range(BESIDE)], root=True)
            began = time.monotonic()
            wait_until(lambda: statuses(app, "beside") == {Status.SUCCEEDED: BESIDE}, "the others are done", limit_s=20)
            assert time.monotonic() - began < 10
            assert app.tasks.get(parent.id).status is Status.RUNNING
            connection.commit()
            wait_for_the_end()
        found = app.tasks.get(parent.id)
        assert (found.status, found.failures) == (Status.SUCCEEDED, 0)
        assert statuses(app, "child").keys() == {Status.SUCCEEDED}
        assert broken(app) == []


def spoil_postgres(url: str) -> None:
    """As where a page of a table cannot be read: the connection counts as lost, whatever else would be written."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'could not read a block' USING ERRCODE = 'io_error'; END $$"
        )
        connection.execute(
            "CREATE TRIGGER fails BEFORE INSERT ON onceward_task FOR EACH ROW WHEN (NEW.kind = 'child') "
            "EXECUTE FUNCTION fail()"
        )


def fail() -> None:
    raise apsw.IOError("could not read a block")


def spoil_sqlite(url: str) -> None:
    with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
        connection.execute(
            "CREATE TRIGGER fails BEFORE INSERT ON onceward_task WHEN NEW.kind = 'child' BEGIN SELECT fail(); END"
        )


def know_fail(connection: Any) -> None:
    if isinstance(connection, apsw.Connection):
        connection.create_scalar_function("fail", fail, 0)


@pytest.mark.both
@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_a_commit_that_costs_its_transaction_each_time_ends_its_own_task(
    request: pytest.FixtureRequest, dialect: str
) -> None:
    url: str = request.getfixturevalue(f"migrated_{dialect}_url")
    spoil_sqlite(url) if dialect == "sqlite" else spoil_postgres(url)
    with made(url, on_connect=know_fail) as app:
        tasks = app.enqueue_many([Beside(number) for number in range(BESIDE // 2)], root=True)
        parent = app.enqueue(Parent(1), root=True)
        tasks += app.enqueue_many([Beside(number) for number in range(BESIDE // 2, BESIDE)], root=True)
        may_end.set()
        with working(app) as wait_for_the_end:
            wait_until(lambda: statuses(app, "beside") == {Status.SUCCEEDED: BESIDE}, "the others are done", limit_s=20)
            wait_for_the_end()
        found = app.tasks.get(parent.id)
        assert found.status is Status.FAILED
        assert (found.reason or "").startswith("failed after 1 retry: ")
        assert "could not read a block" in (found.reason or "")
        assert broken(app) == []
