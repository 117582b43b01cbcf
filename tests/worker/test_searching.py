"""Filtered lists on both databases: every filter finds what a look at each task finds, page by page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest

from onceward import (
    App,
    Budget,
    ConfigError,
    Context,
    Failed,
    Filtered,
    Limits,
    Payload,
    Pipeline,
    Retry,
    Status,
    Waiting,
)
from onceward.errors import FilterError
from onceward.model.times import moment
from onceward.operations import searching
from onceward.store.operations import search
from onceward.testing import Harness
from onceward.views.task import Task
from tests.worker.conftest import Start


class Page(Payload, kind="page"):
    url: str
    number: int
    text: str = ""

    def key(self) -> str:
        return self.url


class Note(Payload, kind="note"):
    text: str


page = Pipeline(Page, retry=Retry(retries=1, base="1h", jitter=False))
note = Pipeline(Note, queue="slow")


@page.stage
def fetch(ctx: Context[Page]) -> None:
    match ctx.payload.number % 6:
        case 0:
            raise TimeoutError(f"no answer from {ctx.payload.url} within {ctx.payload.number}s")
        case 1:
            raise Failed("the page is gone")
        case 2:
            raise Filtered("robots: not allowed")
        case 3 if not ctx.signal("approved"):
            raise Waiting(until="approved")
        case 4:
            ctx.spawn(Note(f"of {ctx.payload.number}"))


@page.stage
def read(ctx: Context[Page]) -> None:
    pass


@note.stage
def keep(ctx: Context[Note]) -> None:
    pass


@pytest.fixture
def world(start: Start) -> App:
    """Tasks of every status but running: 36 pages, a batch of six, notes, two large payloads, one paused lineage."""
    harness = start(page, note)
    app = harness.app
    app.enqueue_many([Page(f"https://Old.example/{number}", number) for number in range(24)])
    harness.drain(wait_for_due=False)
    harness.advance("30m")
    with app.batch("nightly") as batch:
        for number in range(6):
            batch.add(Page(f"https://batch.example/{number}", number))
    harness.drain(wait_for_due=False)
    harness.advance("40m")  # what is to be tried again is due, and fails for good
    harness.drain(wait_for_due=False)
    app.enqueue(Page("https://large.example/a", 5, "x" * 10_000))
    app.enqueue(Page("https://large.example/b", 5, "x" * 100_000))
    harness.drain(wait_for_due=False)
    app.enqueue_many([Page(f"https://new.example/{number}", number) for number in range(6)])
    held = app.enqueue(Page("https://held.example/", 4), limits=Limits(max_tasks=10))
    app.lineages.pause(str(app.tasks.get(held).lineage))
    app.enqueue(Note("later"), after="1h")
    app.tasks.cancel(app.enqueue(Note("unwanted")))
    app.tasks.retry(2)
    return app


def everything(app: App) -> list[Task]:
    return app.tasks.list(limit=1_000)


def url_of(task: Task) -> str:
    return task.payload.url if isinstance(task.payload, Page) else ""


def age(app: App, at: object) -> timedelta:
    return moment(app._store.clock.now()) - at  # type: ignore[operator,no-any-return]


def is_in_batch(app: App, one: Task) -> bool:
    """Children belong to the batch of their parent."""
    return "batch.example" in url_of(one if one.parent is None else app.tasks.get(one.parent))


NAIVE: dict[str, Callable[[App, Task], bool]] = {
    "": lambda app, one: True,
    "status:failed": lambda app, one: one.status is Status.FAILED,
    "status:failed,cancelled,filtered": lambda app, one: one.status.word in ("failed", "cancelled", "filtered"),
    "status:succeeded": lambda app, one: one.status is Status.SUCCEEDED,
    "status:pending": lambda app, one: one.status is Status.PENDING,
    "status:retryable": lambda app, one: one.status is Status.RETRYABLE,
    "status:waiting": lambda app, one: one.status is Status.WAITING,
    "status:running": lambda app, one: one.status is Status.RUNNING,
    "status:open": lambda app, one: not one.status.is_terminal,
    "status:open,failed": lambda app, one: not one.status.is_terminal or one.status is Status.FAILED,
    "-status:open": lambda app, one: one.status.is_terminal,
    "-status:failed kind:page": lambda app, one: one.status is not Status.FAILED and one.kind == "page",
    "kind:note": lambda app, one: one.kind == "note",
    "kind:nothing": lambda app, one: False,
    "-kind:page,other": lambda app, one: one.kind != "page",
    "kind:page kind:note": lambda app, one: False,
    "queue:slow": lambda app, one: one.queue == "slow",
    "-queue:slow status:ended": lambda app, one: one.queue != "slow" and one.status.is_terminal,
    "stage:fetch": lambda app, one: one.stage == "fetch",
    "-stage:fetch": lambda app, one: one.stage != "fetch",
    "key:https://Old.example/7": lambda app, one: one.key == "https://Old.example/7",
    "key:https://Old.example/7,https://new.example/1 status:failed": lambda app, one: one.status is Status.FAILED
    and one.key in ("https://Old.example/7", "https://new.example/1"),
    "key:https://Old.example/1*": lambda app, one: one.key.startswith("https://Old.example/1"),
    "-key:https://Old.example/1": lambda app, one: one.key != "https://Old.example/1",
    "key~OLD": lambda app, one: "old" in one.key.lower(),
    "key~later": lambda app, one: "later" in one.key,
    "id:3,9,4711": lambda app, one: one.id in (3, 9),
    "-id:3,9": lambda app, one: one.id not in (3, 9),
    "lineage:5": lambda app, one: one.lineage == app.tasks.get(5).lineage,
    "lineage:5 kind:note": lambda app, one: one.lineage == app.tasks.get(5).lineage and one.kind == "note",
    "lineage:4711": lambda app, one: False,
    "-lineage:5": lambda app, one: one.lineage != app.tasks.get(5).lineage,
    "batch:nightly": lambda app, one: is_in_batch(app, one),
    "batch:nightly,other status:failed": lambda app, one: is_in_batch(app, one) and one.status is Status.FAILED,
    "batch:other": lambda app, one: False,
    "parent:5": lambda app, one: one.parent == 5,
    "depth>0": lambda app, one: one.depth > 0,
    f"depth>{2**63 - 1}": lambda app, one: False,
    f"depth:{2**63 - 1}": lambda app, one: False,
    "depth:0,7": lambda app, one: one.depth == 0,
    "-depth>0": lambda app, one: one.depth == 0,
    "attempts>1": lambda app, one: str(one.reason).startswith("failed after 1 retry"),
    "cost>0": lambda app, one: one.cost > 0,
    "cost<0.1 status:failed": lambda app, one: one.cost < Decimal("0.1") and one.status is Status.FAILED,
    "created<1h": lambda app, one: age(app, one.created_at) <= timedelta(hours=1),
    "created>1h": lambda app, one: age(app, one.created_at) > timedelta(hours=1),
    "ended<10m": lambda app, one: one.ended_at is not None and age(app, one.ended_at) <= timedelta(minutes=10),
    "ended>10m": lambda app, one: one.ended_at is not None and age(app, one.ended_at) > timedelta(minutes=10),
    "-ended<10m": lambda app, one: one.ended_at is None or age(app, one.ended_at) > timedelta(minutes=10),
    "error:timeouterror": lambda app, one: "TimeoutError" in str(one.reason)
    and one.status in (Status.FAILED, Status.RETRYABLE),
    'reason~"NOT ALLOWED"': lambda app, one: "not allowed" in str(one.reason),
    "-reason~robots": lambda app, one: "robots" not in str(one.reason),
    "waiting:signal": lambda app, one: one.status is Status.WAITING,
    "paused:yes": lambda app, one: one.is_paused,
    "paused:no status:open": lambda app, one: not one.is_paused and not one.status.is_terminal,
    "payload.number>4": lambda app, one: isinstance(one.payload, Page)
    and one.payload.number > 4
    and len(one.payload.text) < 60_000,
    "payload.url~NEW": lambda app, one: "new" in url_of(one),
    "payload.text~xxx": lambda app, one: isinstance(one.payload, Page) and len(one.payload.text) == 10_000,
    "payload.missing:1": lambda app, one: False,
}  # fmt: skip
"""Filters, and what they mean said in another way. A payload of more than 64 KiB is not looked into."""


def test_every_filter_finds_what_a_look_at_each_task_finds(world: App) -> None:
    tasks = everything(world)
    assert {one.status for one in tasks} == set(Status) - {Status.RUNNING, Status.SKIPPED}
    for text, means in NAIVE.items():
        expected = [one.id for one in tasks if means(world, one)]
        page = world.tasks.search(text, limit=100)
        assert [one.id for one in page.tasks] == expected, text
        assert (page.next, page.searched_back_to, page.is_whole) == (None, None, True), text
        assert world.tasks.count(text) == searching.Counted(len(expected), is_exact=True), text


def test_pages_follow_one_another_without_a_gap(world: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SMALLEST", 3)
    monkeypatch.setattr(search, "LARGEST_PORTION", 5)
    monkeypatch.setattr(search, "FIRST_STRETCH", 2)
    monkeypatch.setattr(search, "STRETCH", 7)
    tasks = everything(world)
    for text, means in NAIVE.items():
        found: list[int] = []
        cursor = None
        while True:
            page = world.tasks.search(text, cursor, limit=4)
            assert len(page.tasks) <= 4
            found += [one.id for one in page.tasks]
            if page.next is None:
                break
            assert (page.is_whole, len(page.tasks)) == (True, 4)
            cursor = page.next
        assert found == [one.id for one in tasks if means(world, one)], text
        assert world.tasks.count(text).n == len(found), text


def test_a_look_back_that_is_too_long_says_how_far_it_came(world: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_LOOKED_AT", 10)
    monkeypatch.setattr(search, "FIRST_STRETCH", 5)
    monkeypatch.setattr(search, "STRETCH", 5)
    tasks = everything(world)
    first = world.tasks.search("payload.url~Old.example/0", limit=5)
    assert (first.tasks, first.is_whole, first.next) == ((), False, str(tasks[9].id))
    assert first.searched_back_to == tasks[9].created_at
    assert not world.tasks.count("payload.url~old.example/0").is_exact
    assert str(world.tasks.count("kind:page")).startswith("at least ")
    cursor, found = first.next, []
    while cursor is not None:
        page = world.tasks.search("payload.url~old.example/0", cursor, limit=5)
        found += [one.id for one in page.tasks]
        cursor = page.next
    assert found == [1]


def test_a_status_of_many_tasks_is_looked_for_backwards(world: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FEW", 1)
    tasks = everything(world)
    for text in ("status:waiting", "status:pending", "status:open"):
        expected = [one.id for one in tasks if NAIVE[text](world, one)]
        assert [one.id for one in world.tasks.search(text, limit=100).tasks] == expected


def test_tasks_come_back_as_they_are(world: App) -> None:
    [found] = world.tasks.search("key:https://Old.example/3").tasks
    assert found == world.tasks.list(key="https://Old.example/3")[0]
    assert isinstance(found.payload, Page)


def test_all_of_it_has_an_awaited_form(world: App) -> None:
    async def ask() -> None:
        assert len((await world.tasks.asearch("status:failed")).tasks) == (await world.tasks.acount("status:failed")).n
        assert await world.tasks.agroups() == world.tasks.groups()
        assert (await world.tasks.acomplete("sta", 3))[0].text == "status:"

    asyncio.run(ask())


def test_what_cannot_be_meant_is_refused(world: App) -> None:
    with pytest.raises(FilterError, match="did you mean failed"):
        world.tasks.search("status:faild")
    for cursor in ("x", "-1", "9" * 30, ""):
        with pytest.raises(ConfigError, match="is no cursor"):
            world.tasks.search("", cursor)
    with pytest.raises(ConfigError, match="is no filter"):
        world.tasks.search(7)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="from 1"):
        world.tasks.search("", limit=0)


def test_errors_that_are_alike_are_one_group(world: App) -> None:
    groups = world.tasks.groups()
    failed = [one for one in everything(world) if one.status is Status.FAILED]
    assert sum(group.tasks for group in groups) == len(failed)
    assert [group.tasks for group in groups] == sorted((group.tasks for group in groups), reverse=True)
    timed_out = next(group for group in groups if "TimeoutError" in group.message)
    assert timed_out.message == "TimeoutError: no answer from ⟨url⟩ within ⟨#⟩s"
    same = [one for one in failed if "TimeoutError" in str(one.reason)]
    assert (timed_out.tasks, timed_out.example) == (len(same), same[0].id)
    ended = [one.ended_at for one in same if one.ended_at is not None]
    assert (timed_out.first_seen, timed_out.last_seen) == (min(ended), max(ended))
    assert (timed_out.kinds, timed_out.stages, sum(timed_out.hourly)) == (("page",), ("fetch",), len(same))
    assert [one.id for one in world.tasks.search(f"status:failed {timed_out.filter}", limit=100).tasks] == [
        one.id for one in same
    ]
    assert timed_out.is_whole


def test_what_a_group_has_cost_is_told(start: Start) -> None:
    paid: Pipeline[Note] = Pipeline(Note, retry=Retry(retries=0))
    money = Budget("money", 100)

    @paid.stage(budget=money, estimate=1)
    def ask(ctx: Context[Note]) -> None:
        ctx.charge(money, 0.25)
        raise ValueError(f"answer {ctx.payload.text} is of no use")

    harness: Harness = start(paid)
    harness.app.enqueue_many([Note(str(number)) for number in range(3)])
    harness.drain()
    [group] = harness.app.tasks.groups("kind:note")
    assert (group.tasks, group.cost) == (3, Decimal("0.75"))


def test_a_filter_completes_with_what_the_app_knows(world: App) -> None:
    assert [one.text for one in world.tasks.complete("kind:", 5)] == ["note", "page"]
    assert [one.text for one in world.tasks.complete("queue:s", 7)] == ["slow"]
    assert [one.text for one in world.tasks.complete("stage:", 6)] == ["fetch", "keep", "read"]
    with App(world.url) as bare:
        assert [one.text for one in bare.tasks.complete("kind:", 5)] == ["note", "page"]


def test_a_key_is_found_without_the_code_too(world: App) -> None:
    with App(world.url) as bare:
        found = bare.tasks.search("key:https://Old.example/7").tasks
        assert [one.key for one in found] == ["https://Old.example/7"]
