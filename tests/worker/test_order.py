"""Who goes first: priority with age, then the order of arrival; what is not due waits; queues part the work."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from onceward import App, Config, ConfigError, Context, Event, Payload, Pipeline, Retry, Status
from onceward.errors import BadDuration
from onceward.testing import Harness
from tests.worker.conftest import Start, assert_verified, words

ONE_AT_A_TIME = Config(concurrency=1, threads=1)


class Job(Payload, kind="job"):
    name: str


class Rush(Payload, kind="rush"):
    name: str


def noting(done: list[str], **options: Any) -> Pipeline[Job]:
    job = Pipeline(Job, **options)

    @job.stage
    def work(ctx: Context[Job]) -> None:
        done.append(ctx.payload.name)

    return job


def test_within_a_priority_work_is_done_in_the_order_of_arrival(start: Start) -> None:
    done: list[str] = []
    harness = start(noting(done), config=ONE_AT_A_TIME)
    names = [f"{number}" for number in range(12)]
    for name in names[:6]:
        harness.enqueue(Job(name))
    harness.app.enqueue_many([Job(name) for name in names[6:]])
    harness.drain()
    assert done == names


def test_higher_priority_goes_first(start: Start) -> None:
    done: list[str] = []
    harness = start(noting(done), config=ONE_AT_A_TIME)
    for priority in (-2, 0, 2, -1, 1):
        harness.enqueue(Job(f"{priority}"), priority=priority)
    harness.drain()
    assert done == ["2", "1", "0", "-1", "-2"]


def test_a_pipeline_has_a_priority_and_a_task_may_have_another(start: Start) -> None:
    done: list[str] = []
    rush: Pipeline[Rush] = Pipeline(Rush, priority=1)

    @rush.stage
    def work(ctx: Context[Rush]) -> None:
        done.append(ctx.payload.name)

    harness = start(noting(done), rush, config=ONE_AT_A_TIME)
    harness.enqueue(Job("job"))
    harness.enqueue(Rush("slow rush"), priority=-1)
    usual = harness.enqueue(Rush("rush"))
    harness.drain()
    assert done == ["rush", "job", "slow rush"]
    assert harness.task(usual).priority == 1
    with pytest.raises(ConfigError, match="priority 3: it is a whole number from -2 to 2"):
        harness.enqueue(Job("x"), priority=3)


def test_what_has_waited_long_goes_before_what_is_more_important(start: Start) -> None:
    done: list[str] = []
    harness = start(noting(done), config=ONE_AT_A_TIME)
    harness.enqueue(Job("low and old"), priority=-2)
    harness.advance("19m")
    harness.enqueue(Job("high"), priority=2)  # four levels are twenty minutes
    harness.drain()
    assert done == ["high", "low and old"]
    done.clear()
    harness.enqueue(Job("low and old"), priority=-2)
    harness.advance("21m")
    harness.enqueue(Job("high"), priority=2)
    harness.drain()
    assert done == ["low and old", "high"]


def test_nothing_runs_before_it_is_due(start: Start) -> None:
    done: list[str] = []
    harness = start(noting(done), config=ONE_AT_A_TIME)
    now = datetime.fromtimestamp(harness.clock.now() / 1_000, UTC)
    harness.enqueue(Job("in an hour"), after="1h")
    harness.enqueue(Job("in half an hour"), at=now + timedelta(minutes=30))
    harness.enqueue(Job("yesterday"), at=now - timedelta(days=1))
    late = harness.enqueue(Job("now"))
    harness.drain(wait_for_due=False)
    assert done == ["yesterday", "now"]
    harness.advance("29m59s")
    harness.drain(wait_for_due=False)
    assert done == ["yesterday", "now"]
    harness.advance("1s")
    harness.drain(wait_for_due=False)
    assert done == ["yesterday", "now", "in half an hour"]
    harness.drain()
    assert done[-1] == "in an hour"
    assert harness.clock.now() == late_of(harness, late) + 3_600_000


def late_of(harness: Harness, task: Any) -> int:
    return round(harness.task(task).created_at.timestamp() * 1_000)


def test_a_due_time_that_cannot_be_meant_is_refused(start: Start) -> None:
    harness = start(noting([]))
    with pytest.raises(ConfigError, match="has no time zone"):
        harness.enqueue(Job("x"), at=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(ConfigError, match="give after= or at=, not both"):
        harness.enqueue(Job("x"), at=datetime(2026, 1, 1, tzinfo=UTC), after="1h")
    with pytest.raises(BadDuration, match="'soon' is not a duration"):
        harness.enqueue(Job("x"), after="soon")
    assert sum(harness.app.stats.counts().values()) == 0


def test_what_is_put_off_to_the_end_of_time_can_be_looked_at(start: Start) -> None:
    harness = start(noting([]))
    task = harness.enqueue(Job("some day"), at=datetime.max.replace(tzinfo=UTC))
    [listed] = harness.app.tasks.list()
    assert listed.due_at == harness.task(task).due_at == harness.app.why(task.id).until
    assert listed.due_at is not None
    assert listed.due_at.year == 9_999


def two_queues(done: list[str], fail: list[str] | None = None, *, after: str = "0s") -> Pipeline[Job]:
    """A pipeline whose middle stage belongs to another queue. What fails is tried again after a while."""
    job = Pipeline(Job, retry=Retry(base=after, jitter=False))
    broken = [] if fail is None else fail

    def note(ctx: Context[Job], stage: str) -> None:
        done.append(stage)
        if stage in broken:
            broken.remove(stage)
            raise RuntimeError("no")

    @job.stage
    def fetch(ctx: Context[Job]) -> str:
        note(ctx, "fetch")
        return ctx.payload.name

    @job.stage(queue="heavy")
    def render(ctx: Context[Job]) -> str:
        note(ctx, "render")
        return ctx.result(fetch) * 2

    @job.stage
    def save(ctx: Context[Job]) -> str:
        note(ctx, "save")
        return ctx.result(render)

    return job


def run_queue(harness: Harness, queue: str) -> None:
    """Be a worker for one queue until nothing is left for it, with the real worker."""
    harness.app.run(queues=[queue], until_idle=True)


def test_a_stage_of_another_queue_is_handed_over(start: Start) -> None:
    done: list[str] = []
    harness = start(two_queues(done))
    task = harness.enqueue(Job("x"))
    run_queue(harness, "default")
    assert done == ["fetch"]
    assert (harness.task(task).status, harness.task(task).queue) == (Status.PENDING, "heavy")
    run_queue(harness, "default")
    assert done == ["fetch"]
    run_queue(harness, "heavy")
    assert done == ["fetch", "render"]
    run_queue(harness, "default")
    assert done == ["fetch", "render", "save"]
    assert words(harness, task) == ["handed over", "handed over", "finished"]
    assert harness.task(task).results == {"fetch": "x", "render": "xx", "save": "xx"}


def test_a_worker_for_all_queues_hands_nothing_over(start: Start) -> None:
    done: list[str] = []
    harness = start(two_queues(done))
    task = harness.enqueue(Job("x"))
    harness.drain()
    assert words(harness, task) == ["stage committed", "stage committed", "finished"]


def test_a_stage_stays_in_its_queue_though_tasks_have_failed_in_it(start: Start) -> None:
    done: list[str] = []
    harness = start(two_queues(done, ["render"], after="1h"))
    task = harness.enqueue(Job("x"))
    harness.drain(wait_for_due=False)  # by a worker for all queues
    assert (harness.task(task).stage, harness.task(task).queue) == ("render", "heavy")
    harness.advance("100m")
    run_queue(harness, "default")
    assert done == ["fetch", "render"]
    run_queue(harness, "heavy")
    run_queue(harness, "default")
    assert done == ["fetch", "render", "render", "save"]


def test_a_stage_stays_in_its_queue_though_workers_have_died_in_it(start: Start) -> None:
    job = Pipeline(Job)
    done: list[str] = []

    @job.stage
    def fetch(ctx: Context[Job]) -> None:
        done.append("fetch")

    @job.stage(queue="heavy")
    def render(ctx: Context[Job]) -> None:
        done.append("render")

    harness = start(job)
    task = harness.enqueue(Job("x"))
    harness.crash("before render")
    harness.drain()
    reclaimed = [one for one in harness.task(task).history if one.event is Event.CRASHED]
    assert len(reclaimed) == 1
    assert harness.task(task).queue == "heavy"
    assert done == ["fetch", "render"]


def test_a_stage_that_the_code_gives_to_another_queue_goes_there(start: Start) -> None:
    def made(queue: str, done: list[str]) -> Pipeline[Job]:
        job = Pipeline(Job)

        @job.stage(queue=queue)
        def render(ctx: Context[Job]) -> None:
            done.append(queue)

        @job.stage(queue="default")
        def save(ctx: Context[Job]) -> None: ...

        return job

    done: list[str] = []
    before = start(made("default", done))
    task = before.enqueue(Job("x"))
    changed = start(made("heavy", done), after=before)
    run_queue(changed, "default")
    assert done == []
    assert words(changed, task) == ["released"]
    run_queue(changed, "heavy")
    run_queue(changed, "default")
    assert done == ["heavy"]
    assert changed.task(task).status is Status.SUCCEEDED


def test_an_operator_starts_a_task_again_in_the_queue_of_its_stage(start: Start) -> None:
    done: list[str] = []
    harness = start(two_queues(done))
    task = harness.enqueue(Job("x"))
    harness.drain()
    harness.app.tasks.retry(task.id, stage="render")
    assert harness.task(task).queue == "heavy"
    harness.drain()
    harness.app.tasks.retry(task.id, fresh=True)
    assert harness.task(task).queue == "default"
    harness.drain()
    assert done == ["fetch", "render", "save", "render", "save", "fetch", "render", "save"]


def test_an_app_in_memory_can_be_worked_on_in_real_time() -> None:
    done: list[str] = []
    app = App("sqlite:///:memory:", [noting(done)])
    app.enqueue(Job("x"))
    app.run(until_idle=True)
    assert done == ["x"]
    assert_verified(app)
    app.close()


SCRIPT = """
from onceward import App, Context, Payload, Pipeline

class Job(Payload, kind="buy, sell"):
    number: int

job = Pipeline(Job, queue="sooner, later")

@job.stage
def trade(ctx: Context[Job]) -> None: ...

app = App({url!r}, [job])

if __name__ == "__main__":
    app.enqueue(Job(1))
    app.run(processes=1, queues=["sooner, later"], until_idle=True)
"""


def test_names_of_kinds_and_queues_may_have_commas(store_url: str, tmp_path: Path) -> None:
    script = tmp_path / "trade.py"
    script.write_text(SCRIPT.format(url=store_url))
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, check=False)
    with App(store_url) as app:
        [task] = app.tasks.list(kind="buy, sell")
    assert (ended.returncode, task.status) == (0, Status.SUCCEEDED), ended.stderr
