"""Errors: which are tried again, when, how often, and what a task that has failed for good says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from onceward import Context, Failed, Filtered, Payload, Pipeline, Retry, Retryable, Skipped, Status, Waiting
from tests.worker.conftest import Start, words

STEADY = Retry(base="10s", jitter=False)


class Call(Payload, kind="call"):
    number: int = 1


def failing(
    errors: list[BaseException | None], when: list[int], now: Callable[[], int], **options: Any
) -> Pipeline[Call]:
    """A pipeline of two stages; the first raises one error after the other."""
    call = Pipeline(Call, **options)

    @call.stage
    def first(ctx: Context[Call]) -> None:
        when.append(now())
        error = errors.pop(0) if errors else None
        if error is not None:
            raise error

    @call.stage
    def second(ctx: Context[Call]) -> str:
        return "done"

    return call


class Clock:
    """The time of the harness, once there is one."""

    def __init__(self) -> None:
        self.now: Callable[[], int] = lambda: 0

    def __call__(self) -> int:
        return self.now()


def delays(when: list[int]) -> list[float]:
    return [(later - earlier) / 1_000 for earlier, later in pairwise(when)]


def test_an_error_is_tried_again_with_growing_delays_until_the_retries_are_used_up(start: Start) -> None:
    when: list[int] = []
    clock = Clock()
    harness = start(failing([ValueError(f"no {n}") for n in range(9)], when, clock, retry=STEADY))
    clock.now = harness.clock.now
    task = harness.enqueue(Call())
    harness.drain(wait_for_due=False)
    first = harness.task(task)
    assert (first.status, first.failures, first.reason) == (Status.RETRYABLE, 1, "ValueError: no 0")
    harness.drain()
    done = harness.task(task)
    assert delays(when) == [10, 20, 40]
    assert (done.status, done.failures) == (Status.FAILED, 3)
    assert done.reason == "failed after 3 retries: ValueError: no 3"
    assert words(harness, task) == ["retry scheduled"] * 3 + ["finished"]


class Asking(Exception):
    """A server that asks for a time beyond all numbers."""

    retry_after = 1e306


def test_whatever_a_server_asks_for_its_task_is_tried_again_within_a_day(start: Start) -> None:
    when: list[int] = []
    clock = Clock()
    harness = start(failing([Asking("busy")], when, clock, retry=STEADY, deadline="2d"))
    clock.now = harness.clock.now
    task = harness.enqueue(Call())
    harness.drain()
    assert (harness.task(task).status, delays(when)) == (Status.SUCCEEDED, [86_400])


def test_the_counter_begins_anew_when_a_stage_has_committed(start: Start) -> None:
    call = Pipeline(Call, retry=STEADY)
    tries: list[tuple[str, int]] = []

    @call.stage
    def first(ctx: Context[Call]) -> None:
        tries.append(("first", ctx.task.attempt))
        if ctx.task.attempt < 4:
            raise ValueError("no")

    @call.stage
    def second(ctx: Context[Call]) -> None:
        tries.append(("second", ctx.task.attempt))
        if ctx.task.attempt < 4:
            raise ValueError("no")

    harness = start(call)
    task = harness.enqueue(Call())
    harness.drain()
    assert tries == [(stage, attempt) for stage in ("first", "second") for attempt in (1, 2, 3, 4)]
    assert harness.task(task).status is Status.SUCCEEDED


class Overloaded(Exception):
    def __init__(self, **headers: str) -> None:
        super().__init__("429")
        self.response = type("Response", (), {"headers": {k.replace("_", "-"): v for k, v in headers.items()}})()


@pytest.mark.parametrize(
    ("error", "delay_s"),
    [
        (Overloaded(retry_after="120"), 120),
        (Overloaded(retry_after_ms="2500"), 2.5),
        (Overloaded(retry_after="Thu, 01 Jan 2026 01:00:00 GMT"), 3600),
        (Overloaded(retry_after="nan"), 10),
        (Retryable("later", after="7m"), 420),
        (Retryable("soon"), 10),
    ],
)
def test_a_servers_wish_is_obeyed(start: Start, error: BaseException, delay_s: float) -> None:
    when: list[int] = []
    clock = Clock()
    harness = start(failing([error], when, clock, retry=STEADY))
    clock.now = harness.clock.now
    task = harness.enqueue(Call())
    harness.drain()
    assert delays(when) == [delay_s]
    assert harness.task(task).status is Status.SUCCEEDED


def test_a_permanent_error_is_not_tried_again(start: Start) -> None:
    when: list[int] = []
    retry = Retry(permanent=(OSError,), transient=(ConnectionError,))
    harness = start(failing([ConnectionResetError("once"), FileNotFoundError("gone")], when, Clock(), retry=retry))
    task = harness.enqueue(Call())
    harness.drain()
    assert len(when) == 2
    assert (harness.task(task).status, harness.task(task).reason) == (Status.FAILED, "FileNotFoundError: gone")


def test_no_retries_are_none(start: Start) -> None:
    when: list[int] = []
    harness = start(failing([ValueError("no")], when, Clock(), retry=Retry(retries=0)))
    task = harness.enqueue(Call())
    harness.drain()
    assert len(when) == 1
    assert harness.task(task).reason == "failed after 0 retries: ValueError: no"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Tricky(Exception):
    @property
    def response(self) -> Any:
        raise RuntimeError("no response was received")


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit(), Mute(), Tricky("odd")]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_stage_raises_belongs_to_the_stage(start: Start, error: BaseException, is_async: bool) -> None:
    call = Pipeline(Call, retry=STEADY)
    tries: list[int] = []

    def attempt(ctx: Context[Call]) -> None:
        tries.append(ctx.task.attempt)
        if ctx.task.attempt == 1 and ctx.payload.number == 1:
            raise error

    async def attempt_async(ctx: Context[Call]) -> None:
        attempt(ctx)

    call.stage(attempt_async if is_async else attempt)
    harness = start(call)
    tasks = [harness.enqueue(Call(number)) for number in (1, 2, 3)]
    harness.drain()
    assert sorted(tries) == [1, 1, 1, 2]
    assert [harness.task(task).status for task in tasks] == [Status.SUCCEEDED] * 3
    assert type(error).__name__ in str(harness.task(tasks[0]).history[0].note)


class Patient(Exception):
    retry_after = 1e306


class Forgetful(Waiting):
    def __init__(self) -> None: ...


@pytest.mark.parametrize(
    ("error", "status", "note"),
    [
        (Failed(ValueError("no such page")), Status.FAILED, "ValueError: no such page"),  # type: ignore[arg-type]
        (Patient("later"), Status.FAILED, "exceeded 2 h"),
        (Forgetful(), Status.SUCCEEDED, "AttributeError: 'Forgetful' object has no attribute 'after_ms'"),
    ],
)
@pytest.mark.parametrize("is_async", [False, True])
def test_whatever_a_stage_raises_its_task_is_judged(
    start: Start, error: BaseException, status: Status, note: str, is_async: bool
) -> None:
    call = Pipeline(Call, retry=STEADY)

    def attempt(ctx: Context[Call]) -> None:
        if ctx.task.attempt == 1:
            raise error

    async def attempt_async(ctx: Context[Call]) -> None:
        attempt(ctx)

    call.stage(attempt_async if is_async else attempt)
    harness = start(call)
    task = harness.enqueue(Call())
    harness.drain()
    assert harness.task(task).status is status
    assert note in [one.note for one in harness.task(task).history]


def test_a_verdict_out_of_a_task_group_is_the_verdict(start: Start) -> None:
    call = Pipeline(Call)

    async def look(number: int) -> None:
        if number == 2:
            raise Skipped("the second is known")
        await asyncio.Event().wait()

    @call.stage
    async def gather(ctx: Context[Call]) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(4):
                group.create_task(look(number))

    harness = start(call)
    task = harness.enqueue(Call())
    harness.drain()
    assert (harness.task(task).status, harness.task(task).reason) == (Status.SKIPPED, "the second is known")


def test_a_verdict_beside_an_error_is_an_error(start: Start) -> None:
    call = Pipeline(Call, retry=Retry(retries=0))

    @call.stage
    def both(ctx: Context[Call]) -> None:
        raise BaseExceptionGroup("both", [Filtered("no"), ValueError("odd")])

    harness = start(call)
    task = harness.enqueue(Call())
    harness.drain()
    assert harness.task(task).status is Status.FAILED
    assert str(harness.task(task).reason).startswith("failed after 0 retries: BaseExceptionGroup: both")


def test_failed_for_good_is_not_tried_again(start: Start) -> None:
    when: list[int] = []
    harness = start(failing([Failed("no such page")], when, Clock()))
    task = harness.enqueue(Call())
    harness.drain()
    assert len(when) == 1
    assert (harness.task(task).status, harness.task(task).reason) == (Status.FAILED, "no such page")


class Strict(msgspec.Struct):
    n: int


@pytest.mark.parametrize(
    ("value", "returns", "says"),
    [
        (float("nan"), float, "the result of stage 'odd' holds NaN or an infinity"),
        ("\ud800", str, "the result of stage 'odd' holds a lone surrogate"),
        (object(), Any, "the result of stage 'odd' cannot be stored: Encoding objects of type object is unsupported"),
        ("seven", int, "the result of stage 'odd' does not fit its annotation: Expected `int`, got `str`"),
        (None, Strict, "the result of stage 'odd' does not fit its annotation: Expected `object`, got `null`"),
        ("x" * (17 << 20), str, "the result of stage 'odd' takes 17,825,794 bytes, the limit is 16,777,216"),
    ],
)
def test_a_result_that_cannot_be_stored_fails_with_the_reason(
    start: Start, value: Any, returns: Any, says: str
) -> None:
    call = Pipeline(Call)
    calls: list[int] = []

    def odd(ctx: Context[Call]) -> Any:
        calls.append(1)
        return value

    odd.__annotations__["return"] = returns
    call.stage(odd)
    harness = start(call)
    task = harness.enqueue(Call())
    harness.drain()
    assert harness.task(task).status is Status.FAILED
    assert str(harness.task(task).reason).startswith(says)
    assert calls == [1], "the code has to change: a retry would not help"


def test_one_failing_task_never_stops_its_neighbours(start: Start) -> None:
    call = Pipeline(Call, retry=Retry(retries=1))

    @call.stage
    def work(ctx: Context[Call]) -> int:
        if ctx.payload.number % 3 == 0:
            raise ValueError("no")
        if ctx.payload.number % 3 == 1:
            raise Waiting(until="never") if ctx.payload.number == 4 else Skipped("odd one")
        return ctx.payload.number

    harness = start(call)
    tasks = [harness.enqueue(Call(number)) for number in range(30)]
    harness.drain()
    ended = [harness.task(task).status for task in tasks]
    assert ended[0::3] == [Status.FAILED] * 10
    assert ended[2::3] == [Status.SUCCEEDED] * 10
    assert [status for number, status in enumerate(ended) if number % 3 == 1 and number != 4] == [Status.SKIPPED] * 9
    assert ended[4] is Status.WAITING


@pytest.mark.parametrize("verdict", [Failed, Skipped, Filtered])
def test_what_ends_without_a_reason_says_so(start: Start, verdict: Any) -> None:
    """Every task that has not succeeded has a reason: `verify`, which looks after this test too, insists on it."""
    harness = start(failing([verdict("")], [], lambda: 0))
    ended, cancelled = harness.enqueue(Call(1)), harness.enqueue(Call(2))
    harness.app.tasks.cancel(cancelled.id, reason="")
    harness.drain()
    assert {harness.task(ended).reason, harness.task(cancelled).reason} == {"no reason was given"}
