"""Durable progress inside a stage: cursors, parts done once, what a context knows, and its end."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from onceward import Connection, Context, Payload, Pipeline, Retryable, StageEnded, Status, Waiting
from onceward.errors import WrongTwin
from tests.worker.conftest import NOTES, Start, insert_note, notes, words


class Book(Payload, kind="book"):
    pages: int = 5


class Place(msgspec.Struct):
    page: int
    line: int


def test_a_cursor_and_the_effects_before_it_survive_the_error_after_it(start: Start) -> None:
    book = Pipeline(Book)
    began: list[Any] = []

    @book.stage
    def read(ctx: Context[Book]) -> str:
        place = ctx.cursor_as(Place) or Place(0, 0)
        began.append((ctx.cursor, place.page))
        for page in range(place.page, ctx.payload.pages):
            ctx.write(insert_note, ctx.task.id, f"page {page}")
            if page == 3 and ctx.task.attempt == 1:
                raise ValueError("torn")
            ctx.checkpoint(Place(page + 1, 0))
        return "read"

    harness = start(book, migrations=[NOTES])
    task = harness.enqueue(Book())
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert began == [(None, 0), ({"page": 3, "line": 0}, 3)]
    assert notes(harness.app) == [(task.id, f"page {page}") for page in range(5)]


@pytest.mark.parametrize("point", ["before commit", "inside commit", "after commit", "after read"])
def test_every_page_is_written_once_wherever_the_worker_dies(start: Start, point: str) -> None:
    book = Pipeline(Book)

    @book.stage
    async def read(ctx: Context[Book]) -> int:
        for page in range(ctx.cursor or 0, ctx.payload.pages):
            ctx.write(insert_note, ctx.task.id, f"page {page}")
            await ctx.acheckpoint(page + 1)
        return ctx.payload.pages

    harness = start(book, migrations=[NOTES])
    task = harness.enqueue(Book())
    harness.crash(point)
    harness.drain()
    assert harness.crashes == 1
    assert notes(harness.app) == [(task.id, f"page {page}") for page in range(5)]
    assert harness.task(task).status is Status.SUCCEEDED


def test_a_cursor_belongs_to_its_stage_and_ends_with_it(start: Start) -> None:
    book = Pipeline(Book)
    seen: list[Any] = []

    @book.stage
    def first(ctx: Context[Book]) -> None:
        ctx.checkpoint("mine")

    @book.stage
    def second(ctx: Context[Book]) -> None:
        seen.append(ctx.cursor)
        ctx.checkpoint("also mine")
        seen.append(ctx.cursor)

    harness = start(book)
    harness.enqueue(Book())
    harness.drain()
    assert seen == [None, "also mine"]


def test_what_is_done_once_is_not_done_again(start: Start) -> None:
    book = Pipeline(Book)
    paid: list[str] = []

    def pay(what: str) -> int:
        paid.append(what)
        return len(paid)

    async def pay_later(what: str) -> int:
        await asyncio.sleep(0)
        return pay(what)

    @book.stage
    def blocking(ctx: Context[Book]) -> list[int]:
        prices = [ctx.once("first", lambda: pay("first"), type=int), ctx.once("second", lambda: pay("second"))]
        if ctx.task.attempt < 3:
            raise Retryable("again")
        return prices

    @book.stage
    async def awaited(ctx: Context[Book]) -> list[int]:
        prices = [await ctx.aonce("first", lambda: pay_later("third"), type=int)]
        nothing = await ctx.aonce("nothing", lambda: asyncio.sleep(0))
        assert nothing is None
        if ctx.task.attempt < 3:
            raise Retryable("again")
        return prices

    harness = start(book)
    task = harness.enqueue(Book())
    harness.drain()
    assert paid == ["first", "second", "third"]
    assert harness.task(task).results == {"blocking": [1, 2], "awaited": [3]}


def test_once_keeps_its_value_and_flushes_nothing_else(start: Start) -> None:
    book = Pipeline(Book)

    @book.stage
    def pay(ctx: Context[Book]) -> None:
        ctx.write(insert_note, ctx.task.id, f"try {ctx.task.attempt}")
        ctx.once("paid", lambda: 12)
        if ctx.task.attempt == 1:
            raise ValueError("after paying")

    harness = start(book, migrations=[NOTES])
    task = harness.enqueue(Book())
    harness.drain()
    assert notes(harness.app) == [(task.id, "try 2")]


def test_a_task_is_fresh_until_something_of_it_is_stored(start: Start) -> None:
    book = Pipeline(Book)
    fresh: list[bool] = []

    @book.stage
    def first(ctx: Context[Book]) -> None:
        fresh.append(ctx.is_fresh)
        if ctx.task.attempt == 1:
            ctx.progress(1, 2, "does not count")
            raise ValueError("nothing stored")
        if ctx.task.attempt == 2:
            ctx.once("part", lambda: 1)
            raise ValueError("a part stored")

    @book.stage
    def second(ctx: Context[Book]) -> None:
        fresh.append(ctx.is_fresh)

    harness = start(book)
    task = harness.enqueue(Book())
    harness.drain()
    assert fresh == [True, True, False, False]
    harness.app.tasks.retry(task.id)
    harness.drain()
    harness.app.tasks.retry(task.id, fresh=True)
    harness.drain()
    assert fresh[4:] == [False, True, True, False, False]


def test_the_idempotency_key_changes_with_task_stage_and_fresh_run_only(start: Start) -> None:
    book = Pipeline(Book)
    keys: dict[tuple[int, str, int], set[str]] = {}

    @book.stage
    def first(ctx: Context[Book]) -> None:
        keys.setdefault((ctx.task.id, "first", ctx.task.run), set()).add(ctx.idempotency_key)
        if ctx.task.attempt < 3:
            raise Retryable("again")

    @book.stage
    def second(ctx: Context[Book]) -> None:
        keys.setdefault((ctx.task.id, "second", ctx.task.run), set()).add(ctx.idempotency_key)

    harness = start(book)
    one, other = harness.enqueue(Book()), harness.enqueue(Book())
    harness.drain()
    harness.app.tasks.retry(one.id, stage="first")
    harness.drain()
    harness.app.tasks.retry(one.id, fresh=True)
    harness.drain()
    assert set(keys) == {(one.id, stage, run) for stage in ("first", "second") for run in (1, 2)} | {
        (other.id, "first", 1),
        (other.id, "second", 1),
    }
    assert all(len(same) == 1 for same in keys.values()), "every attempt of a run has the same key"
    assert len(set.union(*keys.values())) == len(keys), "and nobody else has it"


def test_a_context_knows_its_task(start: Start) -> None:
    book = Pipeline(Book)
    known: list[Any] = []

    @book.stage
    def look(ctx: Context[Book]) -> None:
        known.append((ctx.task, ctx.alive(), repr(ctx)))
        if ctx.task.attempt == 1:
            raise ValueError("once more")
        if ctx.task.deferrals == 0:
            raise Waiting(after=1)

    harness = start(book)
    task = harness.enqueue(Book())
    harness.drain()
    first, second, third = (info for info, _, _ in known)
    assert (first.id, first.kind, first.run, first.stage, first.depth, first.parent) == (
        task.id, "book", 1, "look", 0, None
    )  # fmt: skip
    assert [(info.attempt, info.deferrals) for info in (first, second, third)] == [(1, 0), (2, 0), (2, 1)]
    assert first.lineage == third.lineage == harness.task(task).lineage
    assert all(alive for _, alive, _ in known)
    assert known[0][2] == f"<context of task {task.id}, stage look>"


def test_a_context_takes_no_effects_after_its_stage(start: Start) -> None:
    book = Pipeline(Book)
    kept: list[Context[Book]] = []

    @book.stage
    def leave(ctx: Context[Book]) -> None:
        kept.append(ctx)

    harness = start(book, migrations=[NOTES])
    task = harness.enqueue(Book())
    harness.drain()
    with pytest.raises(StageEnded, match=f"stage 'leave' of task {task.id} has ended"):
        kept[0].write(insert_note, task.id, "late")
    with pytest.raises(StageEnded):
        kept[0].checkpoint(1)
    assert not kept[0].alive()
    assert notes(harness.app) == []


def test_the_blocking_form_is_refused_on_the_event_loop(start: Start) -> None:
    book = Pipeline(Book)
    refused: list[str] = []

    @book.stage
    async def wrong(ctx: Context[Book]) -> None:
        for wrong_twin in (lambda: ctx.checkpoint(1), lambda: ctx.once("a", lambda: 1), lambda: ctx.read(len)):
            try:
                wrong_twin()
            except WrongTwin as error:
                refused.append(str(error))

    harness = start(book)
    task = harness.enqueue(Book())
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert [sentence.partition("use ")[2] for sentence in refused] == [
        "await ctx.acheckpoint or ctx.aonce",
        "await ctx.acheckpoint or ctx.aonce",
        "await ctx.aread",
    ]


def test_progress_is_shown_while_a_stage_runs(start: Start) -> None:
    book = Pipeline(Book)

    @book.stage
    def read(ctx: Context[Book]) -> None:
        ctx.progress(5, 5, "the last page\x00")
        raise Waiting(until="more")

    harness = start(book)
    task = harness.enqueue(Book())
    harness.drain()
    progress = harness.task(task).progress
    assert progress is not None
    assert (progress.stage, progress.done, progress.total) == ("read", 5, 5)
    assert progress.note == "the last page\N{REPLACEMENT CHARACTER}"


def test_a_cursor_that_cannot_be_stored_is_an_error_of_the_stage(start: Start) -> None:
    book = Pipeline(Book)

    @book.stage
    def read(ctx: Context[Book]) -> None:
        ctx.checkpoint(float("nan") if ctx.task.attempt == 1 else 1)

    harness = start(book)
    task = harness.enqueue(Book())
    harness.drain()
    assert words(harness, task) == ["retry scheduled", "progressed", "finished"]
    assert "the cursor of stage 'read' holds NaN" in str(harness.task(task).history[0].note)


def test_the_effects_of_a_checkpoint_that_failed_are_those_of_the_next(start: Start) -> None:
    book = Pipeline(Book)
    away: list[str] = ["the shelf is full"]

    def insert_if_there_is_room(connection: Connection, task: int) -> None:
        if away:
            raise LookupError(away.pop())
        insert_note(connection, task, "second")

    @book.stage
    def read(ctx: Context[Book]) -> None:
        ctx.write(insert_note, ctx.task.id, "first")
        ctx.spawn(Book(1))
        ctx.write(insert_if_there_is_room, ctx.task.id)
        with pytest.raises(LookupError):
            ctx.checkpoint(1)
        assert ctx.cursor is None
        ctx.write(insert_note, ctx.task.id, "third")
        ctx.spawn(Book(2))

    harness = start(book, migrations=[NOTES])
    task = harness.enqueue(Book())
    harness.drain(attempts=1)
    assert harness.task(task).status is Status.SUCCEEDED
    assert [text for _, text in notes(harness.app)] == ["first", "second", "third"]
    assert sorted(one.key for one in harness.app.tasks.list() if one.parent == task.id) == [
        '{"pages":1}',
        '{"pages":2}',
    ]


def test_of_a_stage_one_result_and_one_cursor_are_stored_however_often_it_runs(start: Start) -> None:
    book = Pipeline(Book)

    @book.stage
    def read(ctx: Context[Book]) -> int:
        for page in range(3):
            ctx.checkpoint(page)
        if ctx.task.attempt < 3:
            raise Retryable("again")
        return 3

    @book.stage
    def shelve(ctx: Context[Book]) -> None: ...

    harness = start(book)
    task = harness.enqueue(Book())
    harness.drain()
    harness.app.tasks.retry(task.id, stage="read")
    harness.drain()
    rows = harness.app.read(
        lambda connection: sorted(
            connection.execute("SELECT stage, part, count(*) FROM onceward_checkpoint GROUP BY stage, part").fetchall()
        )
    )
    assert [tuple(row) for row in rows] == [("read", "", 1), ("read", "cursor", 1)]
