"""What pages ask beside single tasks: all about one of them, and how all of them stand. Both are bounded."""

from __future__ import annotations

import pytest

from onceward import Context, Failed, Limits, Payload, Pipeline, Retry, TaskNotFound, Waiting
from onceward.model.status import Status
from onceward.store.reports import details, standing
from onceward.testing import Harness
from onceward.views.attempts import Came
from tests.worker.conftest import Start


class Page(Payload, kind="page"):
    name: str
    fate: str = "fine"

    def key(self) -> str:
        return self.name


page = Pipeline(Page, retry=Retry(retries=2, base="10s", jitter=False))
moving: list[Harness] = []
"""The harness whose clock the stages move."""


@page.stage
def read(ctx: Context[Page]) -> str:
    moving[-1].advance("2s")
    return ctx.payload.name


@page.stage
def follow(ctx: Context[Page]) -> None:
    moving[-1].advance("3s")
    match ctx.payload.fate:
        case "flaky" if ctx.task.attempt < 3:
            raise TimeoutError("no answer")
        case "broken":
            raise Failed("nothing there")
        case "asks" if ctx.signal("approved") is None:
            raise Waiting(until="approved")
        case "parent":
            for number in range(4):
                ctx.spawn(Page(f"{ctx.payload.name}/{number}"))
        case "many":
            for number in range(int(ctx.payload.name)):
                ctx.spawn(Page(f"{ctx.payload.name}/{number}"))


@pytest.fixture
def started(start: Start) -> Harness:
    harness = start(page)
    moving.append(harness)
    return harness


def test_every_attempt_is_told_with_the_time_at_which_it_was_claimed(started: Harness) -> None:
    started.crash("after read")
    task = started.enqueue(Page("one", "flaky"))
    started.drain()
    found = started.app.tasks.details(task)
    assert found.task.status is Status.SUCCEEDED
    assert [[run.came for run in one.stages] for one in found.attempts] == [
        [Came.LOST],
        [Came.FINISHED, Came.FAILED],
        [Came.KEPT, Came.FAILED],
        [Came.KEPT, Came.FINISHED],
    ]
    assert all(one.claimed_at is not None for one in found.attempts)
    for one in found.attempts:
        for run in one.stages:
            if run.came is not Came.KEPT:
                assert run.began_at is not None
                assert run.ended_at is not None
                assert (run.ended_at - run.began_at).total_seconds() in (2, 3)
    assert found.stages == ("read", "follow")
    assert found.retries == 2


def test_an_attempt_is_found_among_many_claims_of_its_worker(started: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    started.app.enqueue_many([Page(f"before-{number}") for number in range(40)])
    started.drain()
    task = started.enqueue(Page("one", "flaky"))
    started.drain()
    monkeypatch.setattr(details, "CLOCKS_MS", 0)
    monkeypatch.setattr(details, "MOST_CLAIMS", 3)
    assert all(one.claimed_at is not None for one in started.app.tasks.details(task).attempts)


def test_lists_beside_a_task_are_bounded_and_counted(started: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(details, "MOST_CHILDREN", 2)
    monkeypatch.setattr(details, "MOST_EVENTS", 1)
    root = started.app.enqueue(Page("root", "parent"), limits=Limits(max_children=3))
    started.drain()
    found = started.app.tasks.details(root)
    assert (len(found.children), found.children_count) == (2, 3)
    assert (len(found.refusals), found.refusals_count) == (1, 1)
    assert (len(found.task.history), found.is_whole) == (1, False)
    child = started.app.tasks.details(found.children[0].id)
    assert child.ancestors == ((root.id, "page"),)


def test_an_unknown_task_has_no_details(started: Harness) -> None:
    with pytest.raises(TaskNotFound):
        started.app.tasks.details(4711)


def test_how_tasks_stand_is_told_by_kind_and_by_what_they_wait_for(started: Harness) -> None:
    started.enqueue(Page("asks", "asks"))
    started.app.enqueue(Page("root", "parent"), limits=Limits(max_children=2))
    started.drain()
    started.app.enqueue_many([Page("ready"), Page("ready too")])
    found = started.app.stats.standing()
    assert (found.waits, found.waiting) == ({"signal:approved": 1}, {"page": 1})
    assert found.backlog.ready_tasks == 2
    assert [(one.rule, one.count, one.lineages) for one in found.refused] == [("limit", 2, 1)]


@pytest.mark.parametrize("most", [1, 100])
def test_a_very_long_line_is_counted_without_a_look_at_its_tasks(
    started: Harness, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(standing, "MOST_PLACES", most)
    ids = [one.id for one in started.app.enqueue_many([Page("a"), Page("b"), Page("c")])]
    started.app.enqueue(Page("later"), after="1h")
    found = started.app.stats.standing()
    assert found.backlog_is_exact is (most > 4)
    assert (found.backlog.ready_tasks, found.backlog.later_tasks) == (3, 1)
    started.app.tasks.cancel(ids[0])
    assert started.app.stats.standing().backlog.ready_tasks == (2 if most > 4 else 3)


@pytest.mark.parametrize("refused", [99, 250])
def test_refusals_of_which_only_the_first_are_kept_are_told_as_a_part(started: Harness, refused: int) -> None:
    started.app.enqueue(Page(f"{refused + 2}", "many"), limits=Limits(max_children=2))
    started.drain()
    [one] = started.app.stats.standing().refused
    assert (one.count, one.is_whole) == (min(refused, 100), refused == 99)


def test_refusals_of_another_hour_are_not_told(started: Harness) -> None:
    started.app.enqueue(Page("root", "parent"), limits=Limits(max_children=2))
    started.drain()
    started.advance("61m")
    assert list(started.app.stats.standing().refused) == []
