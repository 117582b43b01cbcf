"""A worker has an event loop of its own: where one is running, as in a notebook, it says what to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from onceward import App, ConfigError, Connection, Context, Payload, Pipeline, Status
from onceward.errors import WrongTwin


class Job(Payload, kind="job"):
    name: str = "job"


def app_of(url: str) -> App:
    job = Pipeline(Job)

    @job.stage
    def go(ctx: Context[Job]) -> None: ...

    return App(url, [job])


@pytest.mark.parametrize("run", [lambda app: app.run(until_idle=True), lambda app: app.tick()], ids=["run", "tick"])
def test_a_worker_in_the_midst_of_a_loop_says_what_to_do(store_url: str, run: Callable[[App], Any]) -> None:
    async def notebook() -> None:
        with pytest.raises(WrongTwin, match=r"use: await asyncio\.to_thread\(app\.(run|tick), …\)"):
            run(app)
        await asyncio.to_thread(app.run, until_idle=True)

    with app_of(store_url) as app:
        app.enqueue(Job())
        asyncio.run(notebook())
        assert app.tasks.get(1).status is Status.SUCCEEDED


@pytest.mark.parametrize(
    "given",
    [
        {"processes": 0}, {"processes": -1}, {"processes": 1.5}, {"processes": "x"}, {"processes": True},
        {"processes": 10**9}, {"queues": "default"}, {"queues": [5]}, {"name": 5}, {"name": ""}, {"name": "a\x00b"},
        {"name": "\ud800"}, {"concurrency": 0}, {"concurrency": 2**40},
    ],
    ids=ascii,
)  # fmt: skip
def test_a_worker_that_cannot_be_meant_is_not_begun(store_url: str, given: dict[str, Any]) -> None:
    with app_of(store_url) as app, pytest.raises(ConfigError):
        app.run(until_idle=True, **given)


def test_calls_that_hang_in_the_threads_of_the_loop_hold_up_no_read_and_no_work(store_url: str) -> None:
    over = threading.Event()
    job = Pipeline(Job)
    hanging: list[asyncio.Future[Any]] = []

    @job.stage
    async def fill(ctx: Context[Job]) -> int:
        hanging.extend(asyncio.ensure_future(asyncio.to_thread(over.wait, 60)) for _ in range(40))
        return await asyncio.wait_for(ctx.aread(count_tasks), 20)

    @job.stage
    async def end(ctx: Context[Job]) -> None:
        over.set()
        await asyncio.gather(*hanging)

    with App(store_url, [job]) as app:
        app.enqueue(Job())
        app.run(until_idle=True)
        assert app.tasks.get(1).results["fill"] == 1


def count_tasks(connection: Connection) -> int:
    """How many tasks there are."""
    [(count,)] = connection.execute("SELECT count(*) FROM onceward_task").fetchall()
    return int(count)
