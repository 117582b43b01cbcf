"""The envelope: what one root can come to at worst, and an assertion for tests that it does not come to more."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from onceward import App, Config, ConfigError, Context, Limits, Payload, Pipeline, Retry, Status, Waiting
from onceward.testing import Harness
from onceward.views.envelope import envelope


class Seed(Payload, kind="seed"):
    number: int = 0


class Leaf(Payload, kind="leaf"):
    number: int


def pipeline(payload: type[Any], stages: int = 1, retries: int = 0) -> Pipeline[Any]:
    made: Pipeline[Any] = Pipeline(payload, retry=Retry(retries=retries))
    for number in range(stages):

        def stage(ctx: Context[Any]) -> None:
            pass

        stage.__name__ = f"stage_{number}"
        made.stage(stage)
    return made


TREES = [
    # depth, children, limit, and what they make
    (0, 1_000, 10_000, 1, "max_depth"),
    (10, 0, 10_000, 10_000, "max_tasks"),
    (1, 5, 10_000, 10_000, "max_tasks"),
    (3, 2, 15, 15, "max_tasks"),
    (3, 2, 14, 14, "max_tasks"),
    (10, 1_000, 10_000, 10_000, "max_tasks"),
    (100, 1_000_000, 1_000_000_000, 1_000_000_000, "max_tasks"),
]


@pytest.mark.parametrize(("depth", "children", "limit", "tasks", "why"), TREES)
def test_a_lineage_has_as_many_tasks_as_fit_its_depth_or_its_limit(
    depth: int, children: int, limit: int, tasks: int, why: str
) -> None:
    config = Config(max_depth=depth, max_children=children, max_tasks=limit)

    found = envelope([pipeline(Seed)], config)

    assert (found.tasks, found.bounded_by) == (tasks, why)


def test_attempts_are_those_of_the_worst_pipeline_for_all_but_the_root() -> None:
    config = Config(max_tasks=100, max_lost_workers=1)

    found = envelope([pipeline(Seed, stages=2, retries=0), pipeline(Leaf, stages=3, retries=4)], config)

    assert [(one.kind, one.attempts_per_task, one.attempts) for one in found.pipelines] == [
        ("leaf", 15, 1_500),
        ("seed", 2, 2 + 99 * 15),
    ]
    assert found.attempts == 1_500


def test_a_stage_may_be_lost_with_its_worker_too() -> None:
    found = envelope([pipeline(Seed, stages=2, retries=3)], Config(max_tasks=1, max_lost_workers=3))
    assert found.attempts == 2 * (1 + 3 + 2)


def test_polls_are_no_attempts_and_nothing_bounds_them() -> None:
    found = envelope([pipeline(Seed)], Config())
    assert found.polls is None
    assert found.document["polls"] == "unbounded"
    assert "unbounded" in str(found)


def test_a_root_may_have_limits_of_its_own() -> None:
    app = App("sqlite:///:memory:", [pipeline(Seed)])
    assert app.envelope().tasks == 10_000
    assert app.envelope(Limits(max_tasks=7)).tasks == 7
    assert app.envelope(Limits(max_tasks=4)).tasks == 4


def test_without_pipelines_there_is_nothing_to_do() -> None:
    found = envelope([], Config())
    assert (found.tasks, found.attempts, found.polls, found.pipelines) == (0, 0, 0, ())
    assert str(found)


def test_the_report_is_a_table_and_plain_values_and_cannot_be_changed() -> None:
    found = envelope([pipeline(Seed, retries=3), pipeline(Leaf)], Config())

    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines] == ["a", "leaf", "seed", "any", "one"]
    assert "at most 10,000 tasks, because of max_tasks" in lines[-1]
    assert json.loads(json.dumps(found.document))["pipelines"][1]["kind"] == "seed"
    assert found.exceeds(9_999)
    assert not found.exceeds(10_000)
    assert replace(found, tasks=1) != found
    with pytest.raises(FrozenInstanceError):
        found.tasks = 1  # type: ignore[misc]


def test_the_worst_case_is_reached_and_never_passed() -> None:
    """A task that fails, takes its worker down, and fails again makes exactly the attempts of the envelope."""
    seed = Pipeline(Seed, retry=Retry(retries=2, base="1ms"))
    runs: list[str] = []

    @seed.stage
    def first(ctx: Context[Seed]) -> None:
        runs.append("first")
        if len(runs) < 3:
            raise ValueError

    @seed.stage
    def second(ctx: Context[Seed]) -> None:
        raise ValueError

    app = App("sqlite:///:memory:", [seed], config=Config(max_lost_workers=3, max_tasks=1))
    harness = Harness(app)
    attempts = 0
    reached = harness._reached

    def counting(worker: Any, point: str) -> None:
        nonlocal attempts
        attempts += point in ("before first", "before second") and not worker.is_dead
        reached(worker, point)

    harness._reached = counting  # type: ignore[method-assign]
    harness.crash("before first", times=2)
    task = harness.enqueue(Seed())
    assert harness.drain(attempts=100)  # hears of every attempt
    assert harness.crashes == 2
    assert harness.task(task).status is Status.FAILED
    assert (len(runs), attempts) == (3, 5 + 3)
    [worst] = app.envelope().pipelines
    assert worst.attempts_per_task == 2 * 5


# For users' own tests


def growing(children: int, depth: int, **options: Any) -> App:
    """Every seed spawns so many leaves, and every leaf so many seeds, down to a depth."""
    seed, leaf = Pipeline(Seed), Pipeline(Leaf)

    @seed.stage
    def sow(ctx: Context[Seed]) -> None:
        if ctx.task.depth < depth:
            for number in range(children):
                ctx.spawn(Leaf(ctx.payload.number * 100 + number))

    @leaf.stage
    def grow(ctx: Context[Leaf]) -> None:
        if ctx.task.depth < depth:
            for number in range(children):
                ctx.spawn(Seed(ctx.payload.number * 100 + number + 1), limits=Limits(max_tasks=5_000))

    return App("sqlite:///:memory:", [seed, leaf], **options)


def test_what_stays_within_its_bound_passes_and_tells_how_it_grew() -> None:
    grown = Harness(growing(children=3, depth=2)).assert_bounded(Seed(), most=13)

    assert grown.tasks == 13
    assert [tuple(branch) for branch in grown.branches] == [
        ("leaf", "seed", 9, 3), ("seed", "leaf", 3, 1), (None, "seed", 1, 0),
    ]  # fmt: skip
    assert grown.refusals == []


def test_what_grows_beyond_it_fails_at_once_and_says_what_multiplied() -> None:
    harness = Harness(growing(children=9, depth=9))

    with pytest.raises(AssertionError) as failed:
        harness.assert_bounded(Seed(), most=20)

    assert "Seed(number=0) made more than 20 tasks, and was stopped at 21" in str(failed.value)
    assert "what multiplied is seed: 11 tasks, " in str(failed.value)
    assert "seed → leaf: 9 tasks from 1" in str(failed.value)
    assert "by the rule limit" in str(failed.value)
    assert "one root makes at most 10,000 tasks" in str(failed.value)
    assert sum(harness.app.stats.counts().values()) == 21


def test_roots_that_a_stage_begins_count_too_and_an_endless_row_of_them_ends() -> None:
    seed = Pipeline(Seed, retry=Retry(retries=0))

    @seed.stage
    def sow(ctx: Context[Seed]) -> None:
        app.enqueue(Seed(ctx.payload.number + 1), root=True)

    app = App("sqlite:///:memory:", [seed])
    harness = Harness(app)
    app = harness.app

    with pytest.raises(AssertionError, match="outside of its lineage: stages began them with root=True"):
        harness.assert_bounded(Seed(), most=3)


def test_a_stage_that_waits_for_ever_is_told() -> None:
    seed = Pipeline(Seed)

    @seed.stage
    def wait(ctx: Context[Seed]) -> None:
        raise Waiting(after="1s")

    with pytest.raises(AssertionError, match="does not come to an end"):
        Harness(App("sqlite:///:memory:", [seed])).assert_bounded(Seed(), most=3)


def test_without_a_payload_the_configuration_is_asked() -> None:
    harness = Harness(growing(children=1, depth=1))
    harness.assert_bounded(most=10_000)
    with pytest.raises(AssertionError, match=r"at most 10,000 tasks.* and 9,999 are allowed here: lower max_tasks"):
        harness.assert_bounded(most=9_999)


def test_limits_that_its_root_is_given_must_keep_the_bound_by_themselves() -> None:
    harness = Harness(growing(children=1, depth=1))
    assert harness.assert_bounded(Seed(), most=2, limits=Limits(max_tasks=2)).tasks == 2
    with pytest.raises(AssertionError, match="at most 3 tasks"):
        harness.assert_bounded(Seed(1), most=2, limits=Limits(max_tasks=3))


def test_a_bound_is_a_number() -> None:
    with pytest.raises(ConfigError, match="most=0"):
        Harness(growing(children=1, depth=1)).assert_bounded(most=0)


def test_crashes_are_no_reason_to_fail() -> None:
    harness = Harness(growing(children=2, depth=1))
    harness.crash("after sow")
    assert harness.assert_bounded(Seed(), most=3).tasks == 3
    assert harness.crashes == 1
