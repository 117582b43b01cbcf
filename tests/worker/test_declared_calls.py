"""A stage makes at most the outside calls that it declares, each with the retries that are known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from onceward import ConfigError, Context, Payload, Pipeline, Retry, Source, Status
from onceward.testing import run_stage
from tests.worker.conftest import Start

web, other = Source("web", retries=0), Source("other", retries=0)


class Visit(Payload, kind="visit"):
    pages: int


def visiting(way: str, made: list[int], **options: Any) -> Pipeline[Visit]:
    """Visits of so many pages, each a call."""
    pipeline = Pipeline(Visit, retry=Retry(retries=3, base="1ms"))

    async def go(number: int) -> int:
        made.append(number)
        return number

    if way.startswith("a"):

        @pipeline.stage(**options)
        async def awaited(ctx: Context[Visit]) -> None:
            for number in range(ctx.payload.pages):
                if way == "acall":
                    await ctx.acall(web, lambda number=number: go(number))  # type: ignore[misc]
                else:
                    await ctx.acached(web, number, lambda number=number: go(number))  # type: ignore[misc]

    else:

        @pipeline.stage(**options)
        def visit(ctx: Context[Visit]) -> None:
            for number in range(ctx.payload.pages):
                if way == "call":
                    ctx.call(web, lambda number=number: made.append(number))  # type: ignore[misc]
                else:
                    ctx.cached(web, number, lambda number=number: made.append(number))  # type: ignore[misc]

    return pipeline


@pytest.mark.parametrize("way", ["call", "acall", "cached", "acached"])
@pytest.mark.parametrize(
    ("options", "allowed"),
    [({"source": web}, 1), ({}, 0), ({"source": web, "calls": 3}, 3), ({"calls": 2}, 2),
     ({"source": web, "calls": lambda visit: visit.pages - 1}, 3), ({"calls": lambda visit: 1}, 1)],
    ids=["a source", "none", "a number", "a number without a source", "a function", "a function without a source"],
)  # fmt: skip
def test_the_call_beyond_those_declared_is_refused_and_not_retried(
    start: Start, way: str, options: dict[str, Any], allowed: int
) -> None:
    made: list[int] = []
    harness = start(visiting(way, made, **options))
    task = harness.enqueue(Visit(4))
    harness.drain()
    found = harness.task(task)
    assert (made, found.status) == (list(range(allowed)), Status.FAILED)
    assert (found.reason or "").startswith("CallsExceeded: stage ")
    assert f"may make {allowed} outside calls in a run; declare more with @pipeline.stage(calls=" in (
        found.reason or ""
    )


def test_an_answer_from_the_cache_is_no_call(start: Start) -> None:
    made: list[int] = []
    harness = start(visiting("cached", made, calls=2))
    first = harness.enqueue(Visit(2))
    harness.drain()
    second = harness.app.enqueue(Visit(4))
    harness.drain()
    assert harness.task(first).status is Status.SUCCEEDED
    assert harness.app.tasks.get(second.id).status is Status.SUCCEEDED, "two of the four were there"
    assert made == [0, 1, 2, 3]


def test_threads_of_a_stage_make_no_more_calls_together(start: Start) -> None:
    pipeline = Pipeline(Visit, retry=Retry(retries=0))
    made: list[int] = []

    @pipeline.stage(calls=5)
    def visit(ctx: Context[Visit]) -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda number: ctx.call(web, lambda: made.append(number)), range(ctx.payload.pages)))

    harness = start(pipeline)
    harness.enqueue(Visit(40))
    harness.drain()
    assert len(made) == 5


@pytest.mark.parametrize(
    ("own", "called", "requests"),
    [
        (None, Source("far", retries=9), 7),
        (Source("near", retries=2), Source("far", retries=9), 7),
        (Source("near", retries=8), Source("far", retries=9), 9),
        (Source("far", retries=9, timeout="1s"), None, 10),
        (None, Source("far", retries=1), 2),
    ],
    ids=["no source", "fewer of its own", "more of its own", "its own", "less than the setting"],
)
def test_one_call_is_repeated_no_more_often_than_the_setting_or_its_own_source_say(
    start: Start, own: Source | None, called: Source | None, requests: int
) -> None:
    pipeline = Pipeline(Visit, retry=Retry(retries=0))
    made: list[int] = []
    target = called or own
    assert target is not None

    def fail() -> None:
        made.append(1)
        raise ConnectionError("refused")

    @pipeline.stage(source=own, calls=1, timeout="1h")
    def visit(ctx: Context[Visit]) -> None:
        ctx.call(Source(target.name, retries=target.retries, breaker=None), fail)

    harness = start(pipeline)
    harness.enqueue(Visit(1))
    harness.drain()
    assert len(made) == requests


def test_a_call_of_another_source_uses_up_a_token_of_the_own_one(start: Start) -> None:
    slow = Source("slow", rate="60/min", burst=2, retries=0)
    pipeline = Pipeline(Visit)

    @pipeline.stage(source=slow, calls=2)
    def visit(ctx: Context[Visit]) -> None:
        ctx.cached(slow, "the same", lambda: 1)
        ctx.call(other, lambda: None)

    harness = start(pipeline)
    began = harness.clock.now()
    harness.app.enqueue_many([Visit(number) for number in range(10)])
    harness.drain()
    assert harness.clock.now() - began >= 8_000, "ten calls elsewhere need ten tokens"


@pytest.mark.parametrize("wrong", [-1, 1.5, "many", None, True])
def test_a_function_that_returns_no_number_is_an_error_of_its_stage(wrong: Any) -> None:
    pipeline = visiting("call", [], calls=lambda _visit: wrong)
    with pytest.raises(ConfigError, match="it is a whole number from 0"):
        run_stage(pipeline.stages[0], Visit(1))


@pytest.mark.parametrize("wrong", [-1, True, "1", 1_001])
def test_a_number_that_cannot_be_meant_is_refused(wrong: Any) -> None:
    pipeline = Pipeline(Visit)
    add: Callable[..., Any] = pipeline.stage(source=web, calls=wrong)
    with pytest.raises(ConfigError, match="it is a whole number from 1 to 1,000, or a function of the payload"):
        add(visiting("call", []).stages[0].function)


def test_both_applications_declare_their_calls() -> None:
    from onceward_apps.documents.pipelines import paid_documents
    from onceward_apps.jobfinder.pipelines.reading import readings

    assert [stage.name for stage in paid_documents.stages if stage.calls] == ["clean", "embed"]
    assert [stage.name for stage in readings.stages if stage.calls] == ["read"]
