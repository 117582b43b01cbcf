"""A retry resumes after the last finished stage, whatever ended the attempt before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from onceward import App, Context, Payload, Pipeline, Status
from onceward.testing import POINTS, Harness
from tests.worker.conftest import NOTES, Start, insert_note, notes, words


class Page(Payload, kind="page"):
    url: str


class Posting(msgspec.Struct):
    title: str
    tags: list[str]


class Script:
    """A pipeline of three stages that counts its calls, and fails where it is told to."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fail: dict[str, int] = {}
        self.seen: list[Any] = []
        self.pipeline = page = Pipeline(Page)

        @page.stage
        def fetch(ctx: Context[Page]) -> Posting:
            self.enter("fetch")
            ctx.write(insert_note, ctx.task.id, "fetch")
            return Posting(ctx.payload.url.upper(), ["a", "b"])

        @page.stage
        async def ask_model(ctx: Context[Page]) -> dict[int, float]:
            self.enter("ask_model")
            self.seen.append(ctx.result(fetch))
            ctx.write(insert_note, ctx.task.id, "ask_model")
            return {1: 0.5}

        @page.stage
        def save(ctx: Context[Page]) -> str:
            self.enter("save")
            self.seen.append(ctx.result(ask_model))
            ctx.write(insert_note, ctx.task.id, "save")
            return ctx.result(fetch).title

        self.stages = fetch, ask_model, save

    def enter(self, stage: str) -> None:
        self.calls.append(stage)
        if self.fail.get(stage, 0) > 0:
            self.fail[stage] -= 1
            raise RuntimeError(f"{stage} broke")


@pytest.fixture
def script() -> Script:
    return Script()


def test_stages_run_in_order_and_their_results_are_typed(start: Start, script: Script) -> None:
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Page("home"))
    harness.drain()
    done = harness.task(task)
    fetch, ask_model, save = script.stages
    assert done.status is Status.SUCCEEDED
    assert done.reason == "all stages have finished"
    assert done.result(fetch) == Posting("HOME", ["a", "b"])
    assert done.result(ask_model) == {1: 0.5}
    assert done.result(save) == "HOME"
    assert done.results["fetch"] == {"title": "HOME", "tags": ["a", "b"]}
    assert done.result("fetch", Posting) == Posting("HOME", ["a", "b"])
    assert script.seen == [Posting("HOME", ["a", "b"]), {1: 0.5}]
    assert words(harness, task) == ["stage committed", "stage committed", "finished"]
    assert done.created_at <= done.started_at <= done.ended_at  # type: ignore[operator]


@pytest.mark.parametrize("stage", ["fetch", "ask_model", "save"])
def test_a_paid_call_of_a_finished_stage_is_never_made_twice(start: Start, script: Script, stage: str) -> None:
    script.fail = {stage: 2}
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Page("home"))
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert {name: script.calls.count(name) for name in ("fetch", "ask_model", "save")} == {
        name: 3 if name == stage else 1 for name in ("fetch", "ask_model", "save")
    }
    assert notes(harness.app) == [(task.id, "ask_model"), (task.id, "fetch"), (task.id, "save")]


WORKER_POINTS = [
    *(point for point in POINTS if "<stage>" not in point and point not in ("before release", "during reclaim")),
    *(
        point.replace("<stage>", stage)
        for point in POINTS
        if "<stage>" in point
        for stage in ("fetch", "ask_model", "save")
    ),
]


@pytest.mark.parametrize("point", WORKER_POINTS)
def test_a_row_is_written_exactly_once_wherever_the_worker_dies(start: Start, script: Script, point: str) -> None:
    harness = start(script.pipeline, migrations=[NOTES])
    tasks = [harness.enqueue(Page(f"page {number}")) for number in range(3)]
    harness.crash(point, times=2)
    harness.drain()
    assert harness.crashes == 2
    assert [harness.task(task).status for task in tasks] == [Status.SUCCEEDED] * 3
    expected = [(task.id, stage) for task in tasks for stage in ("ask_model", "fetch", "save")]
    assert notes(harness.app) == sorted(expected)
    assert [harness.task(task).failures for task in tasks] == [0, 0, 0], "a death uses up no retry"


def test_a_crash_point_that_is_none_is_refused(script: Script) -> None:
    harness = Harness(App("sqlite:///:memory:", [script.pipeline]))
    with pytest.raises(Exception, match="'after fetsch' is no crash point; there are: after claim"):
        harness.crash("after fetsch")


def test_a_drain_can_stop_between_two_stages(start: Start) -> None:
    script = Script()
    harness = start(script.pipeline, migrations=[NOTES])
    task = harness.enqueue(Page("a"))

    assert not harness.drain(attempts=2)
    assert (script.calls, harness.task(task).stage) == (["fetch", "ask_model"], "save")
    assert harness.drain()
    assert script.calls == ["fetch", "ask_model", "save"]
    assert harness.task(task).status is Status.SUCCEEDED
