"""Dead places: tasks that were cancelled while they stood in line hold up none behind them."""

from __future__ import annotations

import time

import pytest

from onceward import App, Config, Context, Payload, Pipeline, Source, Status
from onceward.store.lines import lines
from onceward.testing import Harness
from tests.worker.conftest import Start, statuses

MANY = 100_000
LONGEST_S = 1.0


class Job(Payload, kind="job"):
    number: int


def pipeline(source: Source | None = None) -> Pipeline[Job]:
    made = Pipeline(Job, unique="no")

    @made.stage(source=source)
    async def work(ctx: Context[Job]) -> None:
        """Nothing."""

    return made


@pytest.mark.parametrize("living", [{40}, {0, 7, 8, 21, 40}], ids=["at the end", "between them"])
def test_tasks_behind_cancelled_ones_run_without_another_look(
    start: Start, monkeypatch: pytest.MonkeyPatch, living: set[int]
) -> None:
    monkeypatch.setattr(lines, "MOST_LOOKED_AT", 6)  # so that it takes several claims
    harness = start(pipeline(), config=Config(concurrency=2))
    tasks = harness.app.enqueue_many([Job(number) for number in range(41)])
    for number in sorted({*range(41)} - living):
        harness.app.tasks.cancel(tasks[number].id)
    assert harness.drain(wait_for_due=False)
    assert statuses(harness, [tasks[number] for number in sorted(living)]) == ["succeeded"] * len(living)


def test_cancelled_tasks_take_no_token_of_their_source(start: Start) -> None:
    harness = start(pipeline(Source("shop", rate="1/min", burst=1)), config=Config(concurrency=2))
    tasks = harness.app.enqueue_many([Job(number) for number in range(12)])
    for task in tasks[:10]:
        harness.app.tasks.cancel(task.id)
    harness.drain(wait_for_due=False)
    assert statuses(harness, tasks[10:]) == ["succeeded", "pending"]
    began = harness.clock.now()
    assert harness.drain()
    assert statuses(harness, tasks[10:]) == ["succeeded", "succeeded"]
    assert harness.clock.now() - began == 60_000


@pytest.mark.torture
def test_a_hundred_thousand_dead_places_take_a_second_at_most(store_url: str) -> None:
    harness = Harness(App("sqlite:///:memory:", [pipeline()]), url=store_url)
    harness.app.enqueue_many([Job(number) for number in range(MANY)])
    last = harness.enqueue(Job(MANY))
    session = harness.app._store.session()
    cancelled = int(Status.CANCELLED)  # all at once, without their log
    session.opened().execute(
        f"UPDATE onceward_task SET status = {cancelled}, ended_at = created_at WHERE id <> {last.id}"
    )
    session.close()
    began = time.monotonic()
    assert harness.drain()
    took_s = time.monotonic() - began
    assert harness.task(last).status is Status.SUCCEEDED
    harness.app.close()
    assert took_s <= LONGEST_S, f"it took {took_s:.2f} s"
