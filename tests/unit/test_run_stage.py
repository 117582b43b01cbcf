"""`run_stage`: one stage called with values, and everything it wanted is there to look at."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from onceward import Budget, ConfigError, Context, Filtered, Payload, Pipeline, Source, StageEnded, Waiting
from onceward.testing import run_stage


class Book(Payload, kind="book"):
    title: str


book = Pipeline(Book)
kept: list[Context[Book]] = []


@book.stage
def read(ctx: Context[Book]) -> list[str]:
    return ctx.payload.title.split()


@book.stage
async def count(ctx: Context[Book]) -> int:
    if "forbidden" in ctx.result(read):
        raise Filtered("a forbidden book")
    return len(ctx.result(read))


def insert(connection: Any, words: int) -> None:
    connection.execute("INSERT INTO book VALUES (?)", (words,))


@book.stage
def store(ctx: Context[Book]) -> str:
    kept.append(ctx)
    start = ctx.cursor_as(int) or 0
    price = ctx.once("price", lambda: 12, type=int)
    for place in range(start, ctx.result(count)):
        ctx.write(insert, place)
        ctx.progress(place + 1, ctx.result(count))
        ctx.checkpoint(place + 1)
    if not ctx.signal("approved", bool):
        raise Waiting(until="approved")
    return f"{price} {ctx.is_fresh} {ctx.task.attempt} {ctx.alive()}"


def test_a_stage_is_given_the_results_of_earlier_ones() -> None:
    assert run_stage(read, Book("on the road")).result == ["on", "the", "road"]
    assert run_stage(count, Book("x"), results={read: ["a", "b"]}).result == 2


def test_a_verdict_comes_through_as_raised() -> None:
    with pytest.raises(Filtered, match="a forbidden book"):
        run_stage(count, Book("x"), results={read: ["forbidden"]})


def test_effects_cursors_parts_and_progress_can_be_looked_at() -> None:
    run = run_stage(store, Book("x"), results={count: 3}, cursor=1, signals={"approved": True}, failures=2)
    assert run.result == "12 False 3 True"
    assert run.writes == [(insert, (1,)), (insert, (2,))]
    assert run.cursors == [2, 3]
    assert run.parts == {"price": 12}
    assert [(one.done, one.total) for one in run.progress] == [(2, 3), (3, 3)]


def test_a_stored_part_is_not_asked_for_again() -> None:
    run = run_stage(store, Book("x"), results={count: 0}, parts={"price": 99}, signals={"approved": True})
    assert run.result.startswith("99")
    assert run.parts == {}


def test_a_signal_that_has_not_come_is_waited_for() -> None:
    with pytest.raises(Waiting):
        run_stage(store, Book("x"), results={count: 0})


def test_a_context_takes_nothing_after_its_stage() -> None:
    run_stage(store, Book("x"), results={count: 0}, signals={"approved": True})
    paid: list[int] = []
    context = kept[-1]
    for late in (
        lambda: context.write(insert, 1),
        lambda: context.checkpoint(1),
        lambda: context.progress(1),
        lambda: context.once("late", lambda: paid.append(1)),
    ):
        with pytest.raises(StageEnded, match="stage 'store' of task 1 has ended; it takes no more effects"):
            late()
    assert not context.alive()
    assert paid == [], "what would be paid for is not asked for"


def test_a_result_that_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="stage 'read' has not finished before 'count'"):
        run_stage(count, Book("x"))


def test_a_wrong_result_is_the_tests_error() -> None:
    with pytest.raises(ConfigError, match="the result of stage 'read' does not fit its annotation"):
        run_stage(count, Book("x"), results={read: 7})


def test_reading_needs_a_connection() -> None:
    made = Pipeline(Book)

    @made.stage
    def look(ctx: Context[Book]) -> int:
        return ctx.read(lambda connection: connection + 1)

    assert run_stage(look, Book("x"), read_from=41).result == 42
    with pytest.raises(ConfigError, match="read_from=connection"):
        run_stage(look, Book("x"))


def test_a_coroutine_cannot_be_written() -> None:
    made = Pipeline(Book)

    async def insert_later(connection: Any) -> None: ...

    @made.stage
    def wrong(ctx: Context[Book]) -> None:
        ctx.write(insert_later)  # type: ignore[arg-type]

    with pytest.raises(ConfigError, match=r"ctx\.write takes a plain function"):
        run_stage(wrong, Book("x"))


def test_a_part_of_another_type_than_was_asked_for_is_not_stored() -> None:
    made = Pipeline(Book)

    @made.stage
    def pay(ctx: Context[Book]) -> int:
        return ctx.once("price", lambda: ctx.payload.title, type=int)  # type: ignore[return-value]

    with pytest.raises(ConfigError, match="the part 'price' is not of the type that was asked for"):
        run_stage(pay, Book("x"))


def test_a_stage_finds_in_the_cache_what_it_has_asked_for_itself() -> None:
    shop = Source("shop")
    asked: list[str] = []
    pipeline = Pipeline(Book)

    @pipeline.stage(calls=10)
    def price(ctx: Context[Book]) -> list[int]:
        def ask() -> int:
            asked.append(ctx.payload.title)
            return 12

        called = ctx.call(shop, ask)
        return [called, *(ctx.cached(shop, ctx.payload.title, ask, type=int) for _ in range(2))]

    assert run_stage(price, Book("x")).result == [12, 12, 12]
    assert len(asked) == 2
    run_stage(price, Book("x"), settings={"cache": False})
    assert len(asked) == 5


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual_s)


def together(*functions: Callable[[], None]) -> None:
    """Run functions in threads of their own, all at once."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_of_a_stage_lose_no_money_and_no_rows(restless: None) -> None:
    usd = Budget("usd", 100_000)
    busy = Pipeline(Book)

    @busy.stage(budget=usd, estimate=1)
    def spend(ctx: Context[Book]) -> None:
        def ask() -> None:
            for number in range(2_000):
                ctx.charge(usd, 1)
                ctx.write(insert, number)

        def keep() -> None:
            for number in range(500):
                ctx.checkpoint(number)

        together(ask, ask, ask, ask, keep)

    run = run_stage(spend, Book("War and Peace"))
    assert run.charges == {"usd": Decimal(8_000)}
    assert len(run.writes) == 8_000


def test_a_stage_is_told_that_a_wait_ran_out_of_time() -> None:
    book = Pipeline(Book)

    @book.stage
    def ask(ctx: Context[Book]) -> bool:
        return ctx.timed_out("answered")

    assert not run_stage(ask, Book("a")).result
    assert run_stage(ask, Book("a"), timed_out=["answered"]).result
    assert not run_stage(ask, Book("a"), timed_out=["answered"], signals={"answered": True}).result
