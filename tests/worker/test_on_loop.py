"""A blocking call of an app on an event loop says so, once; and how long a call insists is a setting."""

from __future__ import annotations

import asyncio
import logging
import time
from inspect import iscoroutinefunction, signature

import pytest

from onceward import App, Config, Context, Payload, Pipeline
from onceward.client import loop_warnings
from onceward.errors import StoreUnavailable
from onceward.operations.workers import Workers


class Job(Payload, kind="job"):
    name: str = "job"


jobs = Pipeline(Job)


@jobs.stage
async def run(ctx: Context[Job]) -> None:
    """Do nothing."""


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_warnings, "_told", set())


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "blocks the event loop" in record.getMessage()]


def test_a_blocking_call_on_an_event_loop_names_what_to_use_once(
    store_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with App(store_url, [jobs]) as app, caplog.at_level(logging.WARNING):

        async def serve() -> None:
            for _ in range(2):
                task = app.enqueue(Job()).id
                app.tasks.get(task)
            with app.batch("night") as batch:
                batch.add(Job("more"))

        asyncio.run(serve())
    first, second, third = lines(caplog)
    assert "app.enqueue blocks" in first
    assert "use: await app.aenqueue(…)" in first
    assert "test_on_loop.py:" in first
    assert "use: await app.tasks.aget(…)" in second
    assert "use: async with" in third


def test_awaited_calls_and_those_off_the_loop_are_silent(store_url: str, caplog: pytest.LogCaptureFixture) -> None:
    with App(store_url, [jobs]) as app, caplog.at_level(logging.WARNING):

        async def serve() -> None:
            task = await app.aenqueue(Job())
            await app.aenqueue_many([Job("a"), Job("b")])
            await app.aread(lambda connection: connection.execute("SELECT 1").fetchall())
            await asyncio.to_thread(app.tasks.get, task.id)
            async with app.batch("night") as batch:
                batch.add(Job("more"))

        asyncio.run(serve())
        app.enqueue(Job())
    assert lines(caplog) == []


def test_a_call_insists_for_as_long_as_the_setting_says() -> None:
    began = time.monotonic()
    with App("postgresql://127.0.0.1:1/nowhere", [jobs], config=Config(database_wait="0.2s")) as app:
        with pytest.raises(StoreUnavailable):
            app.stats.counts()
        with pytest.raises(StoreUnavailable):
            app.enqueue(Job())
    assert time.monotonic() - began < 30  # of 60 seconds each


def test_an_awaited_form_leaves_its_event_loop_free_while_the_database_is_busy(store_url: str) -> None:
    with App(store_url, [jobs]) as app:
        app.migrate()

        async def look_while_busy() -> bool:
            app._lock.__enter__()  # as another thread has it in the midst of a transaction
            looking = asyncio.create_task(app.workers.alist())
            await asyncio.sleep(0.05)
            was_waiting = not looking.done()
            app._lock.__exit__(None, None, None)
            return was_waiting and await looking == []

        assert asyncio.run(look_while_busy())


def test_an_awaited_form_has_the_signature_and_the_words_of_the_blocking_one() -> None:
    assert signature(Workers.alist) == signature(Workers.list)
    assert Workers.alist.__name__ == "alist"
    assert iscoroutinefunction(Workers.alist)
    assert Workers.alist.__doc__ == f"`list`, awaited. {Workers.list.__doc__}"
