"""What an operator does to a task: cancel it, open it again, look at it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceward import (
    ConfigError,
    Context,
    Failed,
    Filtered,
    IllegalTransition,
    LeaseLost,
    Payload,
    Pipeline,
    Retryable,
    Skipped,
    Status,
    TaskNotFound,
    Waiting,
)  # fmt: skip
from tests.worker.conftest import NOTES, Start, insert_note, notes, words


class Job(Payload, kind="job"):
    name: str = "job"


class Script:
    """Three stages that count their calls; what `act` says happens in the middle of the second."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.act: Callable[[Context[Job]], Any] = lambda ctx: None
        self.pipeline = job = Pipeline(Job)

        @job.stage
        def first(ctx: Context[Job]) -> int:
            self.calls.append("first")
            ctx.write(insert_note, ctx.task.id, "first")
            return 1

        @job.stage
        def second(ctx: Context[Job]) -> int:
            self.calls.append("second")
            ctx.write(insert_note, ctx.task.id, "second")
            self.act(ctx)
            return ctx.result(first) + 1

        @job.stage
        def third(ctx: Context[Job]) -> int:
            self.calls.append("third")
            return ctx.result(second) + 1

        self.stages = first, second, third


def raises(error: BaseException) -> Callable[[Context[Job]], None]:
    def act(_ctx: Context[Job]) -> None:
        raise error

    return act


@pytest.fixture
def script() -> Script:
    return Script()


# Cancelling


def test_a_pending_task_is_cancelled_and_never_runs(start: Start, script: Script) -> None:
    harness = start(script.pipeline, migrations=[NOTES])
    task, later = harness.enqueue(Job()), harness.enqueue(Job(), after="1h")
    harness.app.tasks.cancel(task.id, "not wanted any more")
    harness.app.tasks.cancel(later.id)
    harness.drain()
    assert script.calls == []
    cancelled = harness.task(task)
    assert (cancelled.status, cancelled.reason) == (Status.CANCELLED, "not wanted any more")
    assert cancelled.ended_at is not None
    assert harness.task(later).reason == "cancelled by an operator"


@pytest.mark.parametrize(
    ("error", "status"),
    [(Retryable("busy", after="1h"), Status.RETRYABLE), (Waiting(until="never"), Status.WAITING),
     (Waiting(until="never", after="1h"), Status.WAITING), (Waiting(after="1h"), Status.PENDING)],
)  # fmt: skip
def test_a_task_that_waits_is_cancelled(start: Start, script: Script, error: BaseException, status: Status) -> None:
    script.act = raises(error)
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain(wait_for_due=False)
    assert harness.task(task).status is status
    harness.app.tasks.cancel(task.id)
    harness.advance("2h")
    harness.drain()
    assert harness.task(task).status is Status.CANCELLED
    assert harness.task(task).waiting_for is None
    assert script.calls == ["first", "second"]


@pytest.mark.parametrize(
    "after",
    [
        None,
        Filtered("x"),
        Skipped("x"),
        Failed("x"),
        Waiting(after=1),
        Waiting(until="x"),
        Retryable("x"),
        ValueError(),
    ],
)
def test_nothing_of_a_running_task_commits_after_cancel_has_answered(
    start: Start, script: Script, after: BaseException | None
) -> None:
    def act(ctx: Context[Job]) -> None:
        harness.app.tasks.cancel(ctx.task.id, "stop")
        with pytest.raises(LeaseLost, match="belongs to another attempt now; nothing was kept"):
            ctx.checkpoint("too late")
        with pytest.raises(LeaseLost):
            ctx.once("too late", lambda: 1)
        ctx.write(insert_note, ctx.task.id, "too late")
        if after is not None:
            raise after

    script.act = act
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    cancelled = harness.task(task)
    assert (cancelled.status, cancelled.reason) == (Status.CANCELLED, "stop")
    assert cancelled.results == {"first": 1}
    assert notes(harness.app) == [(task.id, "first")]
    assert script.calls == ["first", "second"]
    assert words(harness, task) == ["stage committed", "cancelled", "lost", "lost", "lost"]


def test_what_has_ended_cannot_be_cancelled(start: Start, script: Script) -> None:
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    with pytest.raises(IllegalTransition, match="a task that is succeeded cannot become cancelled"):
        harness.app.tasks.cancel(task.id)
    with pytest.raises(TaskNotFound, match=f"there is no task {task.id + 1_000}"):
        harness.app.tasks.cancel(task.id + 1_000)
    assert words(harness, task)[-1] == "finished"


# Opening again


@pytest.mark.parametrize("error", [Failed("broken"), Filtered("no"), Skipped("no")])
def test_a_task_is_opened_again_and_keeps_its_finished_stages(
    start: Start, script: Script, error: BaseException
) -> None:
    script.act = raises(error)
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert harness.task(task).status.is_terminal
    harness.app.tasks.retry(task.id)
    opened = harness.task(task)
    assert (opened.status, opened.reason, opened.ended_at, opened.run) == (Status.PENDING, None, None, 1)
    script.act = lambda ctx: None
    harness.drain()
    assert script.calls == ["first", "second", "second", "third"]
    assert harness.task(task).results == {"first": 1, "second": 2, "third": 3}
    assert harness.task(task).status is Status.SUCCEEDED


def test_a_cancelled_task_is_opened_again(start: Start, script: Script) -> None:
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.app.tasks.cancel(task.id)
    harness.app.tasks.retry(task.id)
    harness.drain()
    assert script.calls == ["first", "second", "third"]
    assert harness.task(task).status is Status.SUCCEEDED


def test_a_fresh_run_forgets_everything(start: Start, script: Script) -> None:
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    harness.app.tasks.retry(task.id, fresh=True)
    assert (harness.task(task).run, harness.task(task).results) == (2, {})
    harness.drain()
    assert script.calls == ["first", "second", "third"] * 2
    assert harness.task(task).results == {"first": 1, "second": 2, "third": 3}
    assert [one.run for one in harness.task(task).history] == [1, 1, 1, 2, 2, 2, 2]


def test_a_task_is_opened_again_from_a_stage_on(start: Start, script: Script) -> None:
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    harness.app.tasks.retry(task.id, stage=script.stages[1])
    assert harness.task(task).results == {"first": 1}
    harness.drain()
    assert script.calls == ["first", "second", "third", "second", "third"]
    assert harness.task(task).run == 1


def test_a_task_cannot_be_opened_at_a_stage_whose_predecessors_have_no_result(start: Start, script: Script) -> None:
    script.act = raises(Failed("broken"))
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    with pytest.raises(ConfigError, match=f"task {task.id} cannot start at 'third': 'second' has no stored result"):
        harness.app.tasks.retry(task.id, stage="third")
    with pytest.raises(ConfigError, match="there is no stage 'fourth'; the stages are first, second, third"):
        harness.app.tasks.retry(task.id, stage="fourth")
    with pytest.raises(ConfigError, match="fresh=True or stage=, not both"):
        harness.app.tasks.retry(task.id, fresh=True, stage="first")
    assert harness.task(task).status is Status.FAILED


def test_what_has_not_ended_cannot_be_opened_again(start: Start, script: Script) -> None:
    refused: list[str] = []

    def act(ctx: Context[Job]) -> None:
        with pytest.raises(IllegalTransition) as error:
            harness.app.tasks.retry(ctx.task.id)
        refused.append(str(error.value))
        raise Retryable("busy", after="1h")

    script.act = act
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    with pytest.raises(IllegalTransition, match="a task that is pending cannot become pending by being reopened"):
        harness.app.tasks.retry(task.id)
    harness.drain(wait_for_due=False)
    assert refused == ["a task that is running cannot become pending by being reopened"]
    with pytest.raises(IllegalTransition, match="a task that is retryable cannot become pending by being reopened"):
        harness.app.tasks.retry(task.id, fresh=True)
    with pytest.raises(TaskNotFound):
        harness.app.tasks.retry(task.id + 1_000)


def test_a_waiting_task_may_be_opened_again(start: Start, script: Script) -> None:
    script.act = raises(Waiting(until="never"))
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    script.act = lambda ctx: None
    harness.app.tasks.retry(task.id)
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED


def test_retries_begin_anew_with_an_operators_retry(start: Start, script: Script) -> None:
    errors = iter([ValueError("no")] * 4 + [ValueError("nor so")] * 4)

    def act(ctx: Context[Job]) -> None:
        raise next(errors)

    script.act = act
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    assert script.calls.count("second") == 4
    harness.app.tasks.retry(task.id)
    harness.drain()
    assert script.calls.count("second") == 8
    assert harness.task(task).reason == "failed after 3 retries: ValueError: nor so"


# Looking


def test_tasks_are_found_by_status_kind_and_key(start: Start, script: Script) -> None:
    harness = start(script.pipeline, migrations=[NOTES])
    done = harness.enqueue(Job("done"))
    harness.drain()
    later = harness.enqueue(Job("later"), after="1h")
    assert [task.id for task in harness.app.tasks.list()] == [later.id, done.id]
    assert [task.id for task in harness.app.tasks.list(status="succeeded")] == [done.id]
    assert [task.id for task in harness.app.tasks.list(status=Status.PENDING, kind="job")] == [later.id]
    assert harness.app.tasks.list(kind="other") == []
    assert harness.app.tasks.list(limit=1)[0].payload == Job("later")
    assert harness.app.stats.counts()[Status.SUCCEEDED] == harness.app.stats.counts()[Status.PENDING] == 1
    assert later
    assert not harness.app.tasks.list(stuck=True)


def test_a_status_that_is_none_is_refused(start: Start, script: Script) -> None:
    harness = start(script.pipeline, migrations=[NOTES])
    with pytest.raises(ConfigError, match="'done' is no status; there are: pending, running"):
        harness.app.tasks.list(status="done")


def test_the_history_of_a_task_names_its_workers(start: Start, script: Script) -> None:
    script.act = lambda ctx: Retryable("x") if ctx.task.attempt else None
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Job())
    harness.drain()
    history = harness.task(task).history
    assert [(one.event.word, one.status.word, one.stage, one.fence, one.worker) for one in history] == [
        ("stage committed", "running", "first", 1, "harness"),
        ("stage committed", "running", "second", 1, "harness"),
        ("finished", "succeeded", "third", 1, "harness"),
    ]


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 10**30])
def test_a_number_that_no_database_holds_is_that_of_no_task(start: Start, number: int) -> None:
    app = start().app
    asks: list[Callable[[int], object]] = [
        app.tasks.get, app.why, app.tasks.cancel, app.tasks.retry, lambda task: app.tasks.retry(task, fresh=True),
        lambda task: app.tasks.signal(task, "go"),
    ]  # fmt: skip
    for ask in asks:
        with pytest.raises(TaskNotFound, match=f"there is no task {number}"):
            ask(number)
