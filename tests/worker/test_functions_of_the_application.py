"""A function that the application hands over may raise at any moment: that ends its own task, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from onceward import Budget, Context, Payload, Pipeline, Retry, Source, Status, Waiting
from tests.worker.conftest import Start

BAD = 3
TASKS = 6
fails: set[str] = set()
"""The functions that raise from now on, for the bad task."""


def tripping(name: str, number: int) -> None:
    """Raise if a function is to fail for a task."""
    if name in fails and number == BAD:
        raise RuntimeError(f"{name} has tripped")


class Job(Payload, kind="job"):
    number: int

    def key(self) -> str:
        tripping("key", self.number)
        return f"host{self.number % 2}/{self.number}"


class Plain(Payload, kind="plain"):
    number: int


def host(key: str) -> str:
    found, _, number = key.partition("/")
    tripping("per", int(number))
    return found


def named(name: str, value: int) -> Callable[[Job], int]:
    def function(job: Job) -> int:
        tripping(name, job.number)
        return value

    return function


def pipelines(name: str, when: str) -> tuple[Pipeline[Any], Pipeline[Any]]:
    """Tasks whose second stage needs all those functions, beside tasks that need none of them."""
    job, plain = Pipeline(Job, retry=Retry(retries=1, base="1s"), deadline="1h"), Pipeline(Plain)
    web = Source("web", per=host, concurrency=2, weights={"tokens": "1000/min"})

    @job.stage
    async def first(ctx: Context[Job]) -> None:
        if ctx.payload.number == BAD and ctx.task.attempt == 1 and not ctx.task.deferrals:
            if when in ("while it runs", "while it waits", "before it is tried again"):
                fails.add(name)
            if when == "while it waits":
                raise Waiting(after="10s")
            if when == "before it is tried again":
                raise ValueError("a mistake")

    @job.stage(
        source=web,
        budget=Budget("usd", 100),
        estimate=named("estimate", 1),
        weights={"tokens": named("weights", 5)},
        calls=named("calls", 1),
    )
    async def second(ctx: Context[Job]) -> None:
        async def answer() -> int:
            return 1

        await ctx.acall(web, answer)
        if ctx.payload.number == BAD and when == "before its time is over":
            fails.add(name)
            raise Waiting(after="10h")

    @job.at_expiry
    async def give_up(ctx: Context[Job]) -> None:
        pass

    @plain.stage
    async def rest(ctx: Context[Plain]) -> None:
        pass

    return job, plain


@pytest.fixture(autouse=True)
def nothing_fails() -> Iterator[None]:
    yield
    fails.clear()


WHEN = ("once it is enqueued", "while it runs", "while it waits", "before it is tried again", "before its time is over")


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("name", ["key", "per", "estimate", "weights", "calls"])
def test_a_function_that_raises_ends_its_own_task_alone(start: Start, name: str, when: str) -> None:
    harness = start(*pipelines(name, when))
    tasks = harness.app.enqueue_many([Job(number) for number in range(TASKS)])
    tasks += harness.app.enqueue_many([Plain(number) for number in range(TASKS)])
    if when == "once it is enqueued":
        fails.add(name)
    assert harness.drain()
    found = [harness.task(task) for task in tasks]
    bad = found.pop(BAD)
    assert {task.status for task in found} == {Status.SUCCEEDED}
    assert bad.status is Status.FAILED
    expected = "exceeded 1 h" if when == "before its time is over" else f"RuntimeError: {name} has tripped"
    assert (bad.reason or "").endswith(expected)
