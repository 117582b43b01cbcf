"""The real worker in real time, as short as it can be: time limits, stopping, idleness, and being told of a cancel."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward import App, Config, Context, Failed, Payload, Pipeline, Retry, Skipped, Source, Status, Waiting
from onceward.worker import stage_runs
from onceward.worker.process import WorkerProcess
from onceward.worker.worker_orders import Orders
from tests.worker.conftest import NOTES, assert_verified, insert_note, notes

QUICK = Retry(base="10ms", jitter=False)


class Job(Payload, kind="job"):
    name: str = "job"


@pytest.fixture
def apps(store_url: str) -> Iterator[Any]:
    """Makes apps on the database of this test, in real time; in the end verified."""
    made: list[App] = []

    def make(pipeline: Pipeline[Any], **options: Any) -> App:
        made.append(App(store_url, [pipeline], migrations=[NOTES], config=Config(**options)))
        return made[-1]

    yield make
    try:
        for app in made:
            assert_verified(app)
    finally:
        for app in made:
            app.close()


def test_a_stage_that_takes_too_long_has_failed_once(apps: Any) -> None:
    job = Pipeline(Job, retry=QUICK)
    tries: list[str] = []

    @job.stage(timeout="40ms")
    async def awaited(ctx: Context[Job]) -> None:
        tries.append("awaited")
        ctx.write(insert_note, ctx.task.id, f"awaited {ctx.task.attempt}")
        if ctx.task.attempt == 1:
            await asyncio.Event().wait()

    blocked = threading.Event()

    @job.stage(timeout="40ms")
    def blocking(ctx: Context[Job]) -> None:
        tries.append("blocking")
        ctx.write(insert_note, ctx.task.id, f"blocking {ctx.task.attempt}")
        if ctx.task.attempt == 1:
            blocked.wait()  # a thread cannot be stopped, but nobody hears of it any more

    app = apps(job)
    task = app.enqueue(Job())
    app.run(until_idle=True)
    blocked.set()
    done = app.tasks.get(task.id)
    assert done.status is Status.SUCCEEDED
    assert tries == ["awaited", "awaited", "blocking", "blocking"]
    reasons = [one.note for one in done.history if one.note]
    assert reasons == [
        "StageTimeout: stage 'awaited' took longer than 0.04s",
        "StageTimeout: stage 'blocking' took longer than 0.04s",
    ]
    assert notes(app) == [(task.id, "awaited 2"), (task.id, "blocking 2")]


def test_a_verdict_raised_while_being_cancelled_is_ignored(apps: Any) -> None:
    job = Pipeline(Job, retry=Retry(retries=0))

    @job.stage(timeout="30ms")
    async def slow(ctx: Context[Job]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise Skipped("on the way out")

    app = apps(job)
    task = app.enqueue(Job())
    app.run(until_idle=True)
    assert app.tasks.get(task.id).status is Status.FAILED
    assert app.tasks.get(task.id).reason == "failed after 0 retries: StageTimeout: stage 'slow' took longer than 0.03s"


def test_checkpoints_start_the_time_limit_anew(apps: Any) -> None:
    job = Pipeline(Job, retry=Retry(retries=0))

    @job.stage(timeout="300ms")
    async def steady(ctx: Context[Job]) -> int:
        began = asyncio.get_running_loop().time()
        steps = 0
        while asyncio.get_running_loop().time() - began < 0.6:
            await asyncio.sleep(0.02)
            steps += 1
            if steps % 2:
                await ctx.acheckpoint(steps)
            else:
                ctx.progress(steps)
        return steps

    app = apps(job)
    task = app.enqueue(Job())
    app.run(until_idle=True)
    assert app.tasks.get(task.id).status is Status.SUCCEEDED


def test_idle_is_when_nothing_runs_is_ready_or_due_later(apps: Any) -> None:
    job = Pipeline(Job)
    done: list[str] = []

    @job.stage
    async def work(ctx: Context[Job]) -> None:
        done.append(ctx.payload.name)
        if ctx.payload.name == "poll" and ctx.task.deferrals < 2:
            raise Waiting(after="20ms")
        if ctx.payload.name == "wait":
            raise Waiting(until="never")
        if ctx.payload.name == "wait long":
            raise Waiting(until="never", after="1h")

    app = apps(job)
    app.enqueue_many([Job("poll"), Job("wait"), Job("wait long")])
    app.enqueue(Job("later"), after="100ms")
    app.run(until_idle=True)
    assert sorted(done) == ["later", "poll", "poll", "poll", "wait", "wait long"]
    assert app.stats.counts()[Status.WAITING] == 2


def test_what_runs_when_the_worker_is_stopped_is_given_back_and_burns_no_attempt(apps: Any) -> None:
    job = Pipeline(Job)
    processes: list[WorkerProcess] = []
    seen: list[Any] = []

    @job.stage
    async def endless(ctx: Context[Job]) -> str:
        seen.append((ctx.task.attempt, ctx.cursor))
        if ctx.cursor is None:
            await ctx.acheckpoint("so far")
            processes[0].request_stop()
            await asyncio.Event().wait()
        return "at last"

    app = apps(job, grace="50ms")
    task = app.enqueue(Job())
    app._work(Orders(), on_start=processes.append)
    stopped = app.tasks.get(task.id)
    assert (stopped.status, stopped.failures, stopped.crashes) == (Status.PENDING, 0, 0)
    assert [one.event.word for one in stopped.history] == ["progressed", "released"]
    app.run(until_idle=True)
    assert app.tasks.get(task.id).results == {"endless": "at last"}
    assert seen == [(1, None), (1, "so far")]


def test_what_ends_within_the_grace_period_is_kept(apps: Any) -> None:
    job = Pipeline(Job)
    processes: list[WorkerProcess] = []

    @job.stage
    async def short(ctx: Context[Job]) -> str:
        processes[0].request_stop()
        await asyncio.sleep(0.02)
        return "done"

    @job.stage
    async def never(ctx: Context[Job]) -> None:
        raise Failed("nothing new is begun")

    app = apps(job, grace="10s")
    task = app.enqueue(Job())
    app._work(Orders(), on_start=processes.append)
    stopped = app.tasks.get(task.id)
    assert (stopped.status, stopped.stage, stopped.results) == (Status.PENDING, "never", {"short": "done"})
    assert [one.event.word for one in stopped.history] == ["stage committed", "released"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_running_stage_is_told_that_its_task_was_cancelled(apps: Any, is_async: bool) -> None:
    job = Pipeline(Job)
    told: list[str] = []

    def blocking(ctx: Context[Job]) -> None:
        app.tasks.cancel(ctx.task.id, "stop")
        while ctx.alive():
            threading.Event().wait(0.01)
        told.append("blocking")

    async def awaited(ctx: Context[Job]) -> None:
        await asyncio.to_thread(app.tasks.cancel, ctx.task.id, "stop")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("awaited")
            raise

    job.stage(awaited if is_async else blocking)
    app = apps(job)
    task = app.enqueue(Job())
    app.run(until_idle=True)
    assert (app.tasks.get(task.id).status, app.tasks.get(task.id).reason) == (Status.CANCELLED, "stop")
    if is_async:
        assert told == ["awaited"]


def test_a_stage_in_a_thread_that_has_lost_its_lease_stops_at_the_next_use_of_its_context(apps: Any) -> None:
    job = Pipeline(Job)
    source = Source("shop")
    uses: dict[str, Callable[[Context[Job]], object]] = {
        "read": lambda ctx: ctx.read(lambda connection: connection.execute("SELECT 1", ()).fetchall()),
        "setting": lambda ctx: ctx.setting("poll"),
        "result": lambda ctx: ctx.result(first),
        "cursor": lambda ctx: ctx.cursor,
        "signal": lambda ctx: ctx.signal("go"),
        "children": lambda ctx: ctx.children,
        "write": lambda ctx: ctx.write(insert_note, 1, "late"),
        "checkpoint": lambda ctx: ctx.checkpoint(1),
        "once": lambda ctx: ctx.once("one", lambda: 1),
        "progress": lambda ctx: ctx.progress(1),
        "spawn": lambda ctx: ctx.spawn(Job("child")),
        "call": lambda ctx: ctx.call(source, lambda: 1),
    }
    refused: dict[str, str] = {}
    seen: list[object] = []

    @job.stage
    def first(ctx: Context[Job]) -> int:
        return 7

    @job.stage
    def second(ctx: Context[Job]) -> None:
        app.tasks.cancel(ctx.task.id, "stop")
        while ctx.alive():
            threading.Event().wait(0.01)
        for name, use in uses.items():
            try:
                use(ctx)
            except Exception as error:
                refused[name] = type(error).__name__
        seen.extend([ctx.payload.name, ctx.task.id, ctx.alive()])
        has_ended.set()

    has_ended = threading.Event()
    app = apps(job)
    task = app.enqueue(Job())
    app.run(until_idle=True)
    assert has_ended.wait(20)
    assert refused == dict.fromkeys(uses, "LeaseLost")
    assert seen == ["job", task.id, False], "what it was, it may still say"
    assert notes(app) == []


def test_a_stage_that_goes_on_without_its_lease_loses_its_thread(apps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that goes on after its time limit: another stage has a thread, and under a supervisor the process ends."""
    monkeypatch.setattr(stage_runs, "LONGEST_CLEANUP_MS", 50)
    job = Pipeline(Job)
    other_has_run = threading.Event()

    @job.stage
    def work(ctx: Context[Job]) -> bool:
        if ctx.payload.name == "other":
            other_has_run.set()
            return True
        app.tasks.cancel(ctx.task.id, "stop")
        app.enqueue(Job("other"), root=True)
        heard.append(other_has_run.wait(20))
        has_ended.set()
        return False

    heard: list[bool] = []
    has_ended = threading.Event()
    app = apps(job, threads=1)
    app.enqueue(Job())
    app.run(until_idle=True)
    assert has_ended.wait(30)
    assert heard == [True]
    assert [task.status for task in app.tasks.list()] == [Status.SUCCEEDED, Status.CANCELLED]


def test_a_stage_knows_its_fence_and_its_token(apps: Any) -> None:
    job = Pipeline(Job, retry=QUICK)
    known: list[tuple[int, str]] = []

    @job.stage
    def work(ctx: Context[Job]) -> None:
        known.append((ctx.task.fence, ctx.task.token))
        if ctx.task.attempt == 1:
            raise ValueError

    app = apps(job)
    app.enqueue(Job())
    app.run(until_idle=True)
    assert [fence for fence, _ in known] == [1, 2]
    assert known[0][1] != known[1][1]
    assert all(len(bytes.fromhex(token)) == 16 for _, token in known)


def test_what_a_lost_thread_says_is_not_heard(apps: Any) -> None:
    job = Pipeline(Job, retry=QUICK)
    late = threading.Event()
    refused: list[str] = []

    @job.stage(timeout="30ms")
    def stuck(ctx: Context[Job]) -> str:
        if ctx.task.attempt == 1:
            late.wait()
            for effect in (lambda: ctx.write(insert_note, ctx.task.id, "late"), lambda: ctx.checkpoint("late")):
                try:
                    effect()
                except Exception as error:
                    refused.append(type(error).__name__)
            return "late"
        late.set()
        return "in time"

    app = apps(job)
    task = app.enqueue(Job())
    app.run(until_idle=True)
    assert app.tasks.get(task.id).results == {"stuck": "in time"}
    assert notes(app) == []
    assert set(refused) <= {"StageEnded"}


def test_progress_that_cannot_be_shown_is_no_trouble(apps: Any) -> None:
    job = Pipeline(Job)

    @job.stage
    def boast(ctx: Context[Job]) -> str:
        ctx.progress(10**30, 10**30)
        return "done"

    app = apps(job)
    task = app.enqueue(Job())
    app.run(until_idle=True)
    assert app.tasks.get(task.id).status is Status.SUCCEEDED


def test_what_one_run_is_given_is_not_for_the_next(apps: Any) -> None:
    job = Pipeline(Job)

    @job.stage
    def nothing(ctx: Context[Job]) -> None:
        pass

    app = apps(job, concurrency=7)
    app.run(concurrency=2, until_idle=True)
    assert app.config.concurrency == 7
