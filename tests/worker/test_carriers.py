"""Stages that share asyncio tasks one after the other do not notice it: each begins as if it were alone."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

import pytest

from onceward import App, Config, Context, Payload, Pipeline, Retry, StageEnded, Status
from onceward.worker import event_loop, stage_runs
from tests.worker.conftest import Start, assert_verified

MANY = 60
colour: ContextVar[str] = ContextVar("colour", default="none")


class Odd:
    """Something that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("which of its parts?")

    __hash__ = None  # type: ignore[assignment]


odd: ContextVar[Odd] = ContextVar("odd")


class Job(Payload, kind="job"):
    number: int


@pytest.fixture
def apps(store_url: str) -> Iterator[Any]:
    """Makes apps on the database of this test, in real time; in the end verified."""
    made: list[App] = []

    def make(pipeline: Pipeline[Any], **options: Any) -> App:
        made.append(App(store_url, [pipeline], config=Config(**options)))
        return made[-1]

    yield make
    for app in made:
        assert_verified(app)
        app.close()


def run_all(app: App, count: int = MANY) -> None:
    app.enqueue_many([Job(number) for number in range(count)])
    app.run(until_idle=True, concurrency=10)


def test_a_stage_sees_no_context_variable_that_another_one_has_set(apps: Any) -> None:
    job = Pipeline(Job)
    seen: list[tuple[str, bool]] = []

    @job.stage
    async def paint(ctx: Context[Job]) -> None:
        seen.append((colour.get(), odd.get(None) is None))
        if ctx.payload.number % 3 == 0:
            colour.set(f"painted by {ctx.payload.number}")
        if ctx.payload.number % 5 == 0:
            odd.set(Odd())

    run_all(apps(job))
    assert seen == [("none", True)] * MANY


def test_stages_share_tasks_and_each_knows_whose_it_is(apps: Any) -> None:
    job = Pipeline(Job)
    tasks: set[int] = set()
    wrong: list[int] = []

    @job.stage
    async def look_around(ctx: Context[Job]) -> None:
        current = asyncio.current_task()
        assert current is not None
        tasks.add(id(current))
        if ctx.payload.number % 4 == 0:
            await asyncio.sleep(0.001)  # the others go on meanwhile
        if asyncio.current_task() is not current:
            wrong.append(ctx.payload.number)

    run_all(apps(job))
    assert wrong == []
    assert len(tasks) < MANY, "a task for each stage would cost more than these stages do"


def test_a_cancellation_that_a_stage_swallows_stays_with_it(apps: Any) -> None:
    job = Pipeline(Job, retry=Retry(base="10ms", jitter=False))
    left_over: list[int] = []

    @job.stage(timeout="60ms")
    async def stubborn(ctx: Context[Job]) -> None:
        current = asyncio.current_task()
        assert current is not None
        left_over.append(current.cancelling())
        if ctx.payload.number == 0 and ctx.task.attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return  # as if nothing had happened; its time is over all the same
        async with asyncio.timeout(30):  # counts cancellations, and would take one of another stage for its own
            await asyncio.sleep(0)

    run_all(apps(job))
    assert set(left_over) == {0}
    assert len(left_over) == MANY + 1


def test_a_stage_that_goes_on_though_it_was_cancelled_is_left_alone(apps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_runs, "LONGEST_CLEANUP_MS", 50)
    job = Pipeline(Job, retry=Retry(base="10ms", jitter=False))
    is_tried_again = asyncio.Event()
    ended: list[str] = []

    @job.stage(timeout="60ms")
    async def stubborn(ctx: Context[Job]) -> None:
        if ctx.payload.number == 0 and ctx.task.attempt == 1:
            while not is_tried_again.is_set():
                with suppress(asyncio.CancelledError):
                    await is_tried_again.wait()
            with pytest.raises(StageEnded):
                ctx.write(len)
            ended.append("alone")
        elif ctx.payload.number == 0:
            is_tried_again.set()

    app = apps(job)
    task = app.enqueue(Job(0))
    app.run(until_idle=True)
    assert app.tasks.get(task.id).status is Status.SUCCEEDED
    assert app.tasks.get(task.id).history[0].note == "StageTimeout: stage 'stubborn' took longer than 0.06s"
    assert ended == ["alone"]


def test_a_worker_leaves_tasks_behind_that_swallow_their_cancellation_and_says_so_once(
    apps: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(event_loop, "LAST_WORDS_S", 0.05)
    job = Pipeline(Job)

    async def go_on() -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    @job.stage
    async def leave_behind(ctx: Context[Job]) -> None:
        left.append(asyncio.create_task(go_on()))
        await asyncio.sleep(0)

    left: list[asyncio.Task[None]] = []
    app = apps(job)
    task = app.enqueue(Job(0))
    app.run(until_idle=True)
    assert app.tasks.get(task.id).status is Status.SUCCEEDED
    assert [one.done() for one in left] == [False]
    left.clear()
    gc.collect()
    assert [one.getMessage() for one in caplog.records if one.name == "asyncio"] == []


async def leave() -> None:
    sys.exit("as a script may")


@pytest.mark.parametrize("is_real", [False, True])
def test_an_exit_in_a_task_that_a_stage_has_started_is_an_error_of_that_stage_alone(
    apps: Any, start: Start, is_real: bool
) -> None:
    job = Pipeline(Job, retry=Retry(base="10ms", jitter=False))
    is_over = asyncio.Event()

    @job.stage
    async def gather(ctx: Context[Job]) -> int:
        if ctx.payload.number == 0 and ctx.task.attempt == 1:
            async with asyncio.TaskGroup() as group:
                group.create_task(leave())
        if ctx.payload.number == 0:
            is_over.set()
        elif is_real:  # its neighbours are there when it happens; without real time nobody could wait for a retry
            await is_over.wait()
        return ctx.task.attempt

    app = apps(job) if is_real else (harness := start(job)).app
    tasks = app.enqueue_many([Job(number) for number in range(5)])
    if is_real:
        app.run(until_idle=True)
    else:
        harness.drain()
    found = [app.tasks.get(one.id) for one in tasks]
    assert [task.results for task in found] == [{"gather": 2}] + [{"gather": 1}] * 4
    assert found[0].history[0].note == "SystemExit: as a script may"


def test_stages_that_never_wait_leave_others_their_turn(apps: Any) -> None:
    job = Pipeline(Job)
    turns: list[int] = []
    ended: list[int] = []

    @job.stage
    async def compute(ctx: Context[Job]) -> None:
        if ctx.payload.number == 0:
            asyncio.get_running_loop().call_soon(lambda: turns.append(len(ended)))
        until = asyncio.get_running_loop().time() + 0.002
        while asyncio.get_running_loop().time() < until:
            pass
        ended.append(ctx.payload.number)

    run_all(apps(job))
    assert turns, "what a stage has asked the event loop for has had its turn"
    assert turns[0] < 10, "and had it before many others had run"


def test_stages_that_wait_do_so_beside_each_other(apps: Any) -> None:
    job = Pipeline(Job)
    inside: list[int] = []
    all_are_there = asyncio.Event()

    @job.stage
    async def wait(ctx: Context[Job]) -> None:
        inside.append(ctx.payload.number)
        if len(inside) == 10:  # as many as may run at once
            all_are_there.set()
        await asyncio.wait_for(all_are_there.wait(), 20)

    run_all(apps(job))
    assert len(inside) == MANY
