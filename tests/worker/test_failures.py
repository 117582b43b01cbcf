"""What is told of a failure: the traceback that is kept, the lines of the log, and the function of the application."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from onceward import (
    App,
    Budget,
    ConfigError,
    Connection,
    Context,
    Failed,
    Failure,
    Filtered,
    Limits,
    Payload,
    Pipeline,
    Retry,
    Retryable,
    Source,
    Status,
    Waiting,
)
from onceward.model.tracebacks import LONGEST_TRACE, trace_of
from onceward.testing import Harness
from onceward.worker.failures import MOST_WAITING, FailureHook
from tests.worker.conftest import NOTES, Start


class Job(Payload, kind="job"):
    name: str = "job"


def looked_up(prices: dict[str, int], name: str) -> int:
    return prices[name]


def failing(error: BaseException | None = None, **options: Any) -> Pipeline[Job]:
    job = Pipeline(Job, **{"retry": Retry(retries=1, base="1s")} | options)

    @job.stage
    def price(ctx: Context[Job]) -> int:
        if error is not None:
            raise error
        return looked_up({}, "missing")

    return job


def failed(start: Start, *pipelines: Pipeline[Any], **options: Any) -> tuple[Harness, int]:
    harness = start(*pipelines, **options)
    task = harness.enqueue(Job()).id
    harness.drain()
    return harness, task


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """The level and the event of every line of the engine about a stage or a task."""
    lines = [(one.levelname, one.getMessage().partition(" task=")[0]) for one in caplog.records]
    return [(level, event) for level, event in lines if event.startswith(("stage", "task"))]


def test_every_failed_attempt_keeps_its_traceback_without_the_engines_frames(start: Start) -> None:
    harness, task = failed(start, failing())
    traces = [one.trace for one in harness.task(task).history if one.trace is not None]
    assert len(traces) == 2
    for trace in traces:
        assert trace.endswith("KeyError: 'missing'")
        assert 'in price\n    return looked_up({}, "missing")' in trace
        assert "in looked_up\n    return prices[name]" in trace
        assert "onceward/worker" not in trace


def test_what_the_engine_waits_with_is_folded_with_its_own_frames(start: Start) -> None:
    job = Pipeline(Job, retry=Retry(retries=0))
    shop = Source("shop")

    @job.stage(source=shop)
    def price(ctx: Context[Job]) -> int:
        return ctx.call(shop, lambda: looked_up({}, "missing"))

    harness, task = failed(start, job)
    trace = str(harness.task(task).history[-1].trace)
    assert "concurrent" not in trace
    assert trace.count("frames of onceward") == 1
    assert trace.index("return ctx.call(") < trace.index("frames of onceward") < trace.index("return prices[name]")


@pytest.mark.parametrize("end", [Failed("no such page"), ValueError("password=hunter2hunter2")])
def test_a_task_that_is_not_retried_keeps_it_too_and_no_secrets(start: Start, end: BaseException) -> None:
    harness, task = failed(start, failing(end, retry=Retry(permanent=(ValueError,))))
    trace = harness.task(task).history[-1].trace
    assert trace is not None
    assert "in price" in trace
    assert "hunter2" not in trace


def test_a_traceback_is_bounded_and_shows_where_it_began_and_ended() -> None:
    def other(text: str, left: int) -> None:
        deeper(text, left)

    def deeper(text: str, left: int) -> None:
        if left:
            (other if left % 2 else deeper)(text, left - 1)
        raise ValueError(text)

    with pytest.raises(ValueError, match="x") as raised:
        deeper("x" * 50, 200)
    trace = trace_of(raised.value)
    assert trace is not None
    assert len(trace) < LONGEST_TRACE + 20
    assert trace.startswith("Traceback")
    assert trace.endswith("ValueError: " + "x" * 50)
    assert "\n  …\n" in trace


def test_the_end_of_a_task_that_has_failed_the_same_way_before_keeps_it(start: Start) -> None:
    harness, task = failed(start, failing(retry=Retry(retries=9, base="1s", same_errors=2)))
    last = harness.task(task).history[-1]
    assert (last.status, "2 times in a row" in str(last.note)) == (Status.FAILED, True)
    assert "in looked_up" in str(last.trace)


def test_an_error_in_a_write_names_the_function(start: Start) -> None:
    def insert_wrongly(conn: Connection) -> None:
        conn.execute("INSERT INTO notes_that_are_not_there VALUES (1)")

    job = Pipeline(Job, retry=Retry(retries=0))

    @job.stage
    def save(ctx: Context[Job]) -> None:
        ctx.write(insert_wrongly)

    harness, task = failed(start, job, migrations=[NOTES])
    found = harness.task(task)
    assert str(found.reason).endswith("(in ctx.write(insert_wrongly))")
    assert "in insert_wrongly\n    conn.execute(" in str(found.history[-1].trace)


@pytest.mark.parametrize(
    ("pipeline", "lines"),
    [
        (failing(), [("WARNING", "stage failed"), ("WARNING", "stage failed"), ("WARNING", "task failed")]),
        (failing(Failed("no such page")), [("WARNING", "task failed")]),
        (failing(Filtered("not wanted")), [("INFO", "task filtered")]),
        (
            failing(retry=Retry(retries=9, base="1s", same_errors=2)),
            [("WARNING", "stage failed"), ("WARNING", "stage failed"), ("WARNING", "task failed")],
        ),
    ],
)
def test_a_failure_is_a_warning_with_its_traceback_and_every_end_but_success_a_line(
    start: Start, caplog: pytest.LogCaptureFixture, pipeline: Pipeline[Job], lines: list[tuple[str, str]]
) -> None:
    caplog.set_level(logging.INFO)
    failed(start, pipeline)
    assert events(caplog) == lines
    if lines[0][0] == "WARNING":
        assert "in price" in caplog.text


def test_a_result_that_cannot_be_stored_leaves_a_line(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    job = Pipeline(Job)

    @job.stage
    def odd(ctx: Context[Job]) -> Any:
        return object()

    failed(start, job)
    assert events(caplog) == [("WARNING", "task failed")]
    assert "cannot be stored" in caplog.text


def test_a_task_that_succeeds_leaves_no_line(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    job = Pipeline(Job)

    @job.stage
    def fine(ctx: Context[Job]) -> None: ...

    failed(start, job)
    assert events(caplog) == []


def test_the_application_is_told_of_every_failed_attempt_after_its_commit(start: Start) -> None:
    told: list[tuple[Failure, Status]] = []

    def tell(failure: Failure) -> None:
        told.append((failure, harness.app.tasks.get(failure.task).status))

    harness = start(failing(), on_failure=tell)
    task = harness.enqueue(Job())
    harness.drain()
    assert [(one.attempt, one.status, status) for one, status in told] == [
        (1, Status.RETRYABLE, Status.RETRYABLE),
        (2, Status.FAILED, Status.FAILED),
    ]
    last = told[-1][0]
    assert (last.task, last.kind, last.lineage, last.stage) == (task.id, "job", harness.task(task).lineage, "price")
    assert (last.has_ended, last.reason) == (True, "failed after 1 retry: KeyError: 'missing'")
    assert isinstance(last.error, KeyError)
    assert "in looked_up" in str(last.trace)


def test_a_function_that_fails_itself_is_a_line_of_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    def tell(failure: Failure) -> None:
        raise SystemExit(1)

    harness, task = failed(start, failing(), on_failure=tell)
    assert harness.task(task).status is Status.FAILED
    assert "on_failure has failed" in caplog.text


def a_failure(number: int = 1) -> Failure:
    return Failure(number, "job", None, "price", 1, Status.FAILED, "broken", None, None)  # type: ignore[arg-type]


def test_a_slow_function_holds_nothing_up_and_what_it_misses_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    told: list[int] = []
    begun, may_go = threading.Event(), threading.Event()

    def tell(failure: Failure) -> None:
        begun.set()
        assert may_go.wait(30)
        told.append(failure.task)

    hook = FailureHook(tell)
    hook(a_failure())
    assert begun.wait(30)
    for number in range(MOST_WAITING + 7):
        hook(a_failure(number))
    may_go.set()
    hook.close()
    assert len(told) == 1 + MOST_WAITING
    assert "failures were not handed over count=7" in caplog.text
    hook(a_failure(-1))  # a worker that begins again under a new name has the same one
    hook.close()
    assert told[-1] == -1


def test_an_async_function_is_refused() -> None:
    async def tell(failure: Failure) -> None: ...

    with pytest.raises(ConfigError, match="on_failure is an `async def`"):
        App("sqlite:///:memory:", on_failure=tell)


@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_stage_logs_says_which_task_it_belongs_to(
    store_url: str, caplog: pytest.LogCaptureFixture, is_async: bool
) -> None:
    job = Pipeline(Job)

    def plain(ctx: Context[Job]) -> None:
        logging.getLogger("shop").warning("out of stock", extra={"task": "of the shop"})

    async def awaited(ctx: Context[Job]) -> None:
        plain(ctx)

    job.stage(awaited if is_async else plain)
    app = App(store_url, [job])
    with Harness(app, url=store_url).app as harnessed:
        tasks = [harnessed.enqueue(Job(name)) for name in "ab"]
        harnessed.run(until_idle=True)
        logging.getLogger("shop").warning("out of stock")
        lineages = [str(harnessed.tasks.get(one.id).lineage) for one in tasks]
    records = [one for one in caplog.records if one.name == "shop"]
    known = {(one.onceward_task, one.onceward_kind, one.onceward_lineage) for one in records[:2]}  # type: ignore[attr-defined]
    assert known == {(task.id, "job", lineage) for task, lineage in zip(tasks, lineages, strict=True)}
    assert not hasattr(records[2], "onceward_task")


def told_by(start: Start, *pipelines: Pipeline[Any], **options: Any) -> tuple[Harness, list[Failure]]:
    told: list[Failure] = []
    return start(*pipelines, on_failure=told.append, **options), told


def ends(told: list[Failure]) -> list[tuple[int, str, str | None, int, Status]]:
    return [(one.task, one.kind, one.stage, one.attempt, one.status) for one in told]


def test_the_application_is_told_of_a_task_whose_time_is_over_in_line(start: Start) -> None:
    job = Pipeline(Job, deadline="1m")

    @job.stage
    def wait(ctx: Context[Job]) -> None:
        raise Retryable("not yet", after="2m")

    harness, told = told_by(start, job)
    task = harness.enqueue(Job())
    harness.drain()
    assert ends(told) == [
        (task.id, "job", "wait", 1, Status.RETRYABLE),
        (task.id, "job", "wait", 2, Status.FAILED),
    ]
    assert told[1].reason == harness.task(task).reason
    assert (told[1].lineage, told[1].error) == (harness.task(task).lineage, None)


@pytest.mark.parametrize("of", ["lineage", "batch"])
def test_the_application_is_told_of_tasks_that_end_with_their_lineage_or_batch(start: Start, of: str) -> None:
    job = Pipeline(Job)

    @job.stage
    def wait(ctx: Context[Job]) -> None:
        raise Waiting(until="go")

    harness, told = told_by(start, job)
    if of == "lineage":
        tasks = [harness.enqueue(Job(), limits=Limits(deadline="1m")).id]
    else:
        with harness.app.batch("some", deadline="1m") as batch:
            batch.add(Job("a"))
            batch.add(Job("b"))
        tasks = list(batch.tasks)
    harness.drain()
    harness.clock.advance("2m")
    harness.drain()
    told.sort(key=lambda failure: failure.task)  # they fail together, in no order
    assert ends(told) == [(task, "job", "wait", 1, Status.FAILED) for task in tasks]
    assert [one.reason for one in told] == [harness.task(task).reason for task in tasks]


def test_the_application_is_told_of_a_task_whose_workers_die(start: Start) -> None:
    job = Pipeline(Job)

    @job.stage
    def deadly(ctx: Context[Job]) -> None:
        """Its worker dies when it ends."""

    harness, told = told_by(start, job)
    task = harness.enqueue(Job())
    harness.crash("after deadly", times=3)
    harness.drain()
    assert harness.task(task).status is Status.FAILED
    assert [(status, attempt) for *_, attempt, status in ends(told)] == [
        (Status.PENDING, 1),
        (Status.PENDING, 1),
        (Status.FAILED, 1),
    ]
    assert told[-1].reason == harness.task(task).reason


def test_a_task_that_its_spent_budget_fails_leaves_a_line_and_is_told_of(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    job = Pipeline(Job)

    usd = Budget("usd", 1, when_spent="fail")

    @job.stage(budget=usd, estimate=1)
    def pay(ctx: Context[Job]) -> None:
        ctx.charge(usd, 1)

    harness, told = told_by(start, job)
    first, spent = harness.app.enqueue_many([Job("a"), Job("b")])
    harness.drain()
    assert harness.task(first.id).status is Status.SUCCEEDED
    assert ends(told) == [(spent.id, "job", None, 1, Status.FAILED)]
    assert told[0].reason == harness.task(spent.id).reason
    assert events(caplog) == [("WARNING", "task failed")]
