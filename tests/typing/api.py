"""The public API as a program uses it: all of this must pass a strict type checker. Never run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

import msgspec

from onceward import (
    App,
    Config,
    Connection,
    Context,
    Cron,
    Enqueued,
    Failed,
    Filtered,
    Isolation,
    Migration,
    Payload,
    Pipeline,
    Retry,
    Retryable,
    ScheduleStatus,
    Skipped,
    Stage,
    StageDuration,
    Stats,
    Status,
    Task,
    Waiting,
    sql,
)  # fmt: skip
from onceward.testing import Harness, StageRun, run_stage


class Listing(Payload, kind="listing"):
    url: str
    pages: int = 1

    def key(self) -> str:
        return self.url


class Company(Payload, kind="company"):
    name: str


class Posting(msgspec.Struct):
    title: str


listing = Pipeline(Listing, retry=Retry(retries=3, base="10s", permanent=(ValueError,)), priority=1, queue="web")
assert_type(listing, Pipeline[Listing])


@listing.stage
def fetch(ctx: Context[Listing]) -> str:
    assert_type(ctx.payload, Listing)
    assert_type(ctx.payload.pages, int)
    assert_type(ctx.idempotency_key, str)
    assert_type(ctx.is_fresh, bool)
    assert_type(ctx.scheduled_at, datetime | None)
    assert_type(ctx.alive(), bool)
    assert_type(ctx.task.attempt, int)
    return ctx.payload.url


@listing.stage(timeout="30s", queue="web")
async def scrape(ctx: Context[Listing]) -> Posting:
    assert_type(ctx.result(fetch), str)
    assert_type(await ctx.aonce("page", page), bytes)
    await ctx.acheckpoint(1)
    assert_type(await ctx.aread(count, "note"), int)
    return Posting(ctx.result(fetch))


@listing.stage(isolate=Isolation(memory_mb=100), timeout=timedelta(minutes=5))
def screen(ctx: Context[Listing]) -> None:
    posting = ctx.result(scrape)
    assert_type(posting, Posting)
    match posting.title:
        case "filtered":
            raise Filtered("five strikes")
        case "skipped":
            raise Skipped("seen before")
        case "failed":
            raise Failed("no such page")
        case "busy":
            raise Retryable("busy", after="1m")
        case "poll":
            raise Waiting(after=30)
    raise Waiting(until="approved", after="7d", reason="a person looks")


@listing.at_expiry(timeout="1m")
async def cancel(ctx: Context[Listing]) -> None:
    assert_type(ctx.payload, Listing)


@listing.stage(isolate="process", timeout=None)
def save(ctx: Context[Listing]) -> list[int]:
    assert_type(ctx.result(screen), None)
    assert_type(ctx.signal("approved", Posting), Posting | None)
    assert_type(ctx.cursor_as(int), int | None)
    assert_type(ctx.once("price", lambda: 12), int)
    assert_type(ctx.read(count, "note"), int)
    ctx.write(insert, ctx.payload.url, 7)
    ctx.write(sql("DELETE FROM match WHERE url = :url"), {"url": ctx.payload.url})
    assert_type(ctx.read(sql("SELECT score FROM match").rows), list[tuple[Any, ...]])
    ctx.checkpoint({"page": 1})
    ctx.progress(1, 2, "half way")
    ctx.log.info("saved", url=ctx.payload.url)
    return [1]


assert_type(fetch, Stage[Listing, str])
assert_type(scrape, Stage[Listing, Posting])
assert_type(screen, Stage[Listing, None])
assert_type(save, Stage[Listing, list[int]])


async def page() -> bytes:
    return b""


def insert(connection: Connection, url: str, score: int) -> None:
    connection.execute("INSERT INTO match VALUES (?, ?)", (url, score))
    connection.executemany("INSERT INTO match VALUES (?, ?)", [(url, score)])


def count(connection: Connection, table: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert_type(row, tuple[Any, ...] | None)
    return len(connection.execute("SELECT 1").fetchall())


nightly = Cron("30 2 * * *", Listing("u"), tz="Europe/Berlin", missed="all", name="nightly")
app = App(
    "sqlite:///jobs.db",
    [listing],
    migrations=[Migration("tables", "CREATE TABLE match (url text, score integer)")],
    on_connect=lambda connection: None,
    config=Config(lease="60s"),
    schedules=[nightly],
)


def use() -> None:
    task = app.enqueue(Listing("u"), after="5m", priority=2)
    assert_type(task, Enqueued)
    assert_type(task.id, int)
    assert_type(app.enqueue_many([Listing("u"), Company("c")], at=datetime(2026, 1, 1, tzinfo=UTC)), list[Enqueued])
    seen = app.tasks.get(task.id)
    assert_type(seen, Task)
    assert_type(seen.status, Status)
    assert_type(seen.result(scrape), Posting)
    assert_type(seen.result("scrape", Posting), Posting)
    assert_type(app.read(count, "match"), int)
    app.tasks.cancel(task.id, "not wanted")
    app.tasks.retry(task.id, stage=scrape)
    app.tasks.signal(task.id, "approved", {"by": "Ada"})
    app.run(until_idle=True, queues=["web"], processes=2)
    assert_type(app.schedules.list(), list[ScheduleStatus])
    assert_type(app.schedules.run_now(nightly.name), Enqueued)
    assert_type(app.verify().ok, bool)
    assert_type(app.stats.get("7d", stuck_after="6h"), Stats)
    assert_type(app.stats.get().durations, tuple[StageDuration, ...])
    assert_type(app.stats.get().pipelines[0].retry_rate, float | None)


async def use_async() -> None:
    assert_type(await app.aenqueue(Listing("u")), Enqueued)
    assert_type(await app.aenqueue_many([Listing("u")]), list[Enqueued])
    assert_type(await app.aread(count, "match"), int)
    for worker in await app.workers.alist():
        assert_type(worker.name, str)


def test_it() -> None:
    harness = Harness(app)
    task = harness.enqueue(Listing("u"))
    harness.crash("after scrape")
    harness.drain()
    assert_type(harness.task(task), Task)
    run = run_stage(scrape, Listing("u"), results={fetch: "text"})
    assert_type(run, StageRun[Posting])
    assert_type(run.result, Posting)
