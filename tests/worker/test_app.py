"""The app around the engine: asking for work, large values, tables of its own, reading, and other databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from onceward import (
    App,
    ConfigError,
    Connection,
    Context,
    Enqueued,
    Migration,
    Payload,
    PayloadError,
    Pipeline,
    Retry,
    Status,
)  # fmt: skip
from onceward.errors import StoreUnavailable, WriteRefused
from onceward.model.task import LARGEST_INLINE
from tests.worker.conftest import NOTES, Start, assert_verified, insert_note, notes, words


class Job(Payload, kind="job"):
    text: str = "job"


def pipeline_of(*stages: Callable[[Context[Job]], Any]) -> Pipeline[Job]:
    job = Pipeline(Job)
    for stage in stages:
        job.stage(stage)
    return job


def echo(ctx: Context[Job]) -> str:
    return ctx.payload.text


def count_rows(connection: Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


# Asking for work


def test_what_was_asked_for_is_answered_with_its_id(start: Start) -> None:
    harness = start(pipeline_of(echo))
    one = harness.enqueue(Job("one"))
    many = harness.app.enqueue_many(Job(f"{n}") for n in range(3))
    assert one == Enqueued(one.id, created=True, existing=None, reason=None)
    assert one
    assert len({one.id, *(task.id for task in many)}) == 4
    assert [harness.task(task).payload for task in many] == [Job("0"), Job("1"), Job("2")]
    assert harness.app.enqueue_many([]) == []


def test_work_is_asked_for_from_async_code_too(start: Start) -> None:
    harness = start(pipeline_of(echo))

    async def ask() -> list[Enqueued]:
        return [await harness.app.aenqueue(Job("one")), *await harness.app.aenqueue_many([Job("two"), Job("three")])]

    tasks = asyncio.run(ask())
    harness.drain()
    assert [harness.task(task).results["echo"] for task in tasks] == ["one", "two", "three"]


def test_all_of_many_are_asked_for_or_none(start: Start) -> None:
    harness = start(pipeline_of(echo))
    with pytest.raises(PayloadError, match="lone surrogate"):
        harness.app.enqueue_many([Job("fine"), Job("\ud800")])
    assert sum(harness.app.stats.counts().values()) == 0


def test_two_thousand_tasks_are_asked_for_at_once(start: Start) -> None:
    harness = start(pipeline_of(echo))
    tasks = harness.app.enqueue_many(Job(f"{n}") for n in range(2_001))
    assert [task.id for task in tasks] == sorted({task.id for task in tasks})
    assert harness.task(tasks[2_000]).payload == Job("2000")
    harness.drain()
    assert harness.app.stats.counts()[Status.SUCCEEDED] == 2_001


# Values


@pytest.mark.parametrize("text", ["", "a\x00b", "ü" * 10, "\N{ROCKET}", "'; DROP TABLE x; --", '{"a": [1]}'])
def test_text_comes_back_as_it_was_given(start: Start, text: str) -> None:
    harness = start(pipeline_of(echo))
    task = harness.enqueue(Job(text))
    harness.drain()
    assert harness.task(task).payload == Job(text)
    assert harness.task(task).results["echo"] == text


@pytest.mark.parametrize("length", [LARGEST_INLINE - 12, LARGEST_INLINE + 1, 1_000_000])
def test_large_values_come_back_from_where_they_are_kept(start: Start, length: int) -> None:
    def double(ctx: Context[Job]) -> str:
        if ctx.task.attempt == 1:
            raise ConnectionError("so that everything is read from the database again")
        return ctx.payload.text[::-1]

    def check(ctx: Context[Job]) -> bool:
        stage = job.stages[1]
        return bool(ctx.result(stage) == ctx.payload.text[::-1])

    job = pipeline_of(echo, double, check)
    harness = start(job)
    text = "ab" * (length // 2)
    same, other = harness.enqueue(Job(text)), harness.enqueue(Job(text))
    harness.crash("before check")
    harness.drain()
    for task in (same, other):
        assert harness.task(task).payload == Job(text)
        assert harness.task(task).results == {"echo": text, "double": text[::-1], "check": True}
    blobs = harness.app.read(count_rows, "onceward_blob")
    assert blobs == (0 if length < LARGEST_INLINE else 3), "a payload and two results, each kept once"


def test_what_is_too_large_is_refused_and_nothing_is_kept(start: Start) -> None:
    harness = start(pipeline_of(echo))
    with pytest.raises(PayloadError, match=r"the payload Job takes 104,857,611 bytes, the limit is 16,777,216"):
        harness.enqueue(Job("x" * 104_857_600))
    assert sum(harness.app.stats.counts().values()) == 0


# The application's own tables


def test_the_applications_own_migrations_are_applied_once(start: Start) -> None:
    applied: list[str] = []

    def fill(connection: Connection) -> None:
        applied.append(connection.dialect)
        insert_note(connection, 0, "from a migration")

    migrations = [NOTES, Migration("fill", fill)]
    first = start(pipeline_of(echo), migrations=migrations)
    second = start(pipeline_of(echo), migrations=[*migrations, Migration("more", "CREATE TABLE more (a integer)")])
    assert notes(second.app) == [(0, "from a migration")]
    assert applied == [first.app.dialect]
    assert second.app.read(count_rows, "more") == 0


def test_every_new_connection_is_shown_to_the_application(start: Start) -> None:
    connections: list[Any] = []
    harness = start(pipeline_of(echo), on_connect=connections.append)
    harness.enqueue(Job())
    harness.drain()
    known = len(connections)
    assert known >= 1
    harness.app.read(lambda connection: None)
    assert len(connections) == known + 1
    assert all(hasattr(connection, "execute") for connection in connections)


def test_a_stage_reads_what_is_committed_and_writes_nothing(start: Start) -> None:
    seen: list[Any] = []

    def look(ctx: Context[Job]) -> None:
        ctx.write(insert_note, ctx.task.id, "not there yet")
        seen.append(ctx.read(count_rows, "note"))
        ctx.checkpoint(1)
        seen.append(ctx.read(count_rows, "note"))
        with pytest.raises(Exception, match=r"(?i)read.?only"):
            ctx.read(insert_note, ctx.task.id, "never")

    async def look_async(ctx: Context[Job]) -> int:
        return await ctx.aread(count_rows, "note")

    harness = start(pipeline_of(look, look_async), migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert seen == [0, 1]
    assert harness.task(task).results["look_async"] == 1
    assert notes(harness.app) == [(task.id, "not there yet")]


def test_reading_is_of_one_moment_and_for_reading_only(start: Start) -> None:
    harness = start(pipeline_of(echo), migrations=[NOTES])

    def look(connection: Connection) -> tuple[int, int]:
        before = count_rows(connection, "onceward_task")
        harness.enqueue(Job())
        return before, count_rows(connection, "onceward_task")

    assert harness.app.read(look) == (0, 0)
    assert harness.app.stats.counts()[Status.PENDING] == 1
    with pytest.raises(Exception, match=r"(?i)read.?only"):
        harness.app.read(insert_note, 1, "never")
    assert notes(harness.app) == []
    assert asyncio.run(harness.app.aread(count_rows, "onceward_task")) == 1


def test_a_connection_for_reading_is_lent_to_one_function(start: Start) -> None:
    app = start(pipeline_of(echo)).app
    kept = app.read(lambda connection: connection)
    with pytest.raises(WriteRefused, match="keep no reference to it"):
        kept.execute("SELECT 1")


def test_a_read_whose_connection_ends_says_so(start: Start, store_url: str) -> None:
    if store_url.startswith("sqlite"):
        pytest.skip("there is no connection to end; tests/disk has what can happen to a file")
    app = start(pipeline_of(echo)).app
    with pytest.raises(StoreUnavailable, match="the database went away while it was read"):
        app.read(lambda connection: connection.execute("SELECT pg_terminate_backend(pg_backend_pid())"))
    assert app.read(lambda connection: connection.execute("SELECT 1").fetchall()) == [(1,)]


def test_a_database_in_memory_is_read_only_when_read(sqlite_harness_of: Callable[..., Any]) -> None:
    harness = sqlite_harness_of(pipeline_of(echo), migrations=[NOTES])
    with pytest.raises(Exception, match=r"(?i)read.?only"):
        harness.app.read(insert_note, 1, "never")
    harness.app.close()
    assert notes(harness.app) == [], "closing a connection does not lose it"


def test_many_stages_read_while_others_are_committed(sqlite_harness_of: Callable[..., Any]) -> None:
    def look(ctx: Context[Job]) -> int:
        ctx.write(insert_note, ctx.task.id, "seen")
        return ctx.read(count_rows, "note")

    async def look_async(ctx: Context[Job]) -> int:
        return await ctx.aread(count_rows, "note")

    harness = sqlite_harness_of(pipeline_of(look, look_async), migrations=[NOTES])
    tasks = harness.app.enqueue_many(Job(f"{n}") for n in range(50))
    harness.drain()
    assert [harness.task(task).status for task in tasks] == [Status.SUCCEEDED] * 50
    assert len(notes(harness.app)) == 50


# Other databases, other ways


def test_one_app_serves_several_databases(start: Start, store_url: str) -> None:
    harness = start(pipeline_of(echo), migrations=[NOTES])
    memory = harness.app.on("sqlite:///:memory:")
    here, there = harness.enqueue(Job("here")), memory.enqueue(Job("there"))
    assert memory.tasks.get(there.id).payload == Job("there")
    assert [task.payload for task in harness.app.tasks.list()] == [Job("here")]
    assert [task.payload for task in memory.tasks.list()] == [Job("there")]
    assert memory.url == "sqlite:///:memory:"
    assert harness.app.dialect == ("sqlite" if store_url.startswith("sqlite") else "postgres")
    assert here
    memory.run(until_idle=True)
    assert memory.tasks.get(there.id).status is Status.SUCCEEDED
    assert_verified(memory)
    memory.close()


def test_an_app_connects_to_nothing_until_it_must() -> None:
    app = App("postgresql://nobody@nowhere.invalid:1/none", [pipeline_of(echo)])
    assert repr(app) == "<App job on postgresql://nowhere.invalid:1/none>"
    assert app._registry.kinds == ["job"]
    app.close()


def test_a_closed_app_opens_itself_again(start: Start) -> None:
    harness = start(pipeline_of(echo))
    task = harness.enqueue(Job())
    harness.app.close()
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert words(harness, task) == ["finished"]


def test_an_app_without_pipelines_can_still_look(start: Start) -> None:
    harness = start(pipeline_of(echo))
    task = harness.enqueue(Job())
    looker = start()
    assert looker.task(task).kind == "job"
    with pytest.raises(ConfigError, match="no pipeline handles kind 'job'; this app has none: App"):
        looker.enqueue(Job())


def test_a_result_is_asked_for_by_the_stage_and_not_by_its_name(start: Start) -> None:
    pipeline = Pipeline(Job, retry=Retry(retries=0))

    @pipeline.stage
    def first(ctx: Context[Job]) -> int:
        return 1

    @pipeline.stage
    def second(ctx: Context[Job]) -> int:
        return ctx.result("first")  # type: ignore[arg-type]

    harness = start(pipeline)
    task = harness.enqueue(Job())
    harness.drain()
    assert "ctx.result('first'): it takes the stage, as in ctx.result(price)" in str(harness.task(task).reason)


@pytest.mark.parametrize("step_ms", [-1_200_000, 1_200_000])
def test_a_program_whose_clock_was_set_asks_for_work_by_the_new_time(start: Start, step_ms: int) -> None:
    harness = start(pipeline_of(echo))
    harness.enqueue(Job("before"))
    harness.clock.step(step_ms)
    harness.advance("2s")
    harness.app.stats.counts()  # whatever it asks for, it hears the time with it
    task = harness.enqueue(Job("after")).id
    [(due_at,)] = harness.app.read(
        lambda connection: connection.execute(f"SELECT due_at FROM onceward_task WHERE id = {task}").fetchall()
    )
    assert due_at == harness.clock.now()


def test_a_task_is_named_by_its_number_itself_or_what_enqueue_returned(store_url: str) -> None:
    with App(store_url, [pipeline_of(echo)]) as app:
        begun = app.enqueue(Job("a"))
        task = app.tasks.get(begun)
        assert app.tasks.get(task) == app.tasks.get(begun.id) == task
        assert app.why(task).task == begun.id
        app.tasks.cancel(begun)
        app.tasks.retry(task)
        assert app.tasks.get(task).status is Status.PENDING
        with pytest.raises(ConfigError, match="'7' is not the number of a task"):
            app.tasks.get("7")  # type: ignore[arg-type]
