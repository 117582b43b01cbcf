"""Batches that a stage opens: an effect like any other, with children under the rules of their lineage, and followed by
one of them, exactly once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pytest

from onceward import (
    App,
    BatchNotFound,
    Budget,
    ConfigError,
    Context,
    Failed,
    Limits,
    NoLineage,
    Payload,
    Pipeline,
    Retry,
    Rule,
    SpawnRefused,
    StageEnded,
    Status,
    StopList,
    Task,
    Waiting,
)
from onceward.authoring.current_stage import current
from onceward.baggage import incoming, outgoing_headers
from onceward.model.decide import wait_text
from onceward.store.verify.counting_rules import BatchFacts, batch_breaches
from onceward.testing import Harness, run_stage
from onceward.views.why import Cause
from tests.worker.conftest import NOTES, Start, assert_verified, insert_note, notes, statuses, words


class Opener(Payload, kind="opener"):
    """Opens batches, as its test says."""

    name: str = "it"


class Item(Payload, kind="item"):
    name: str
    end: str = "well"
    children: tuple[str, ...] = ()

    def key(self) -> str:
        return self.name


class Report(Payload, kind="report"):
    about: str

    def key(self) -> str:
        return self.about


IN_PART: dict[str, Any] = {"refused": {"limit": "refuse"}}
"""A pipeline that lets a part of a batch in where there is no room for all of it."""
Fill = Callable[[App, Context[Opener]], None]


def openers(fill: Fill, **options: Any) -> tuple[Pipeline[Opener], Callable[[Harness], Harness]]:
    """A pipeline whose one stage does what the test wants, once it knows its app."""
    opener = Pipeline(Opener, **{"retry": Retry(retries=1, base="1s"), **options})
    apps: list[App] = []

    @opener.stage
    def opening(ctx: Context[Opener]) -> None:
        fill(apps[-1], ctx)

    def on(harness: Harness) -> Harness:
        apps.append(harness.app)
        return harness

    return opener, on


def items(**options: Any) -> Pipeline[Item]:
    item = Pipeline(Item, retry=Retry(retries=0), **options)

    @item.stage
    def work(ctx: Context[Item]) -> None:
        for child in ctx.payload.children:
            ctx.spawn(Item(child))
        if ctx.payload.end == "failed":
            raise Failed("broken")
        if ctx.payload.end == "waits" and ctx.signal("go") is None:
            raise Waiting(until="go")

    return item


def reports(runs: list[str] | None = None, **options: Any) -> Pipeline[Report]:
    report = Pipeline(Report, **options)

    @report.stage
    def write(ctx: Context[Report]) -> str:
        if runs is not None:
            runs.append(ctx.payload.about)
        return ctx.payload.about

    return report


def night(*payloads: Payload, **options: Any) -> Fill:
    """Opens one batch with these."""

    def fill(app: App, ctx: Context[Opener]) -> None:
        with app.batch("night", **options) as batch:
            for payload in payloads:
                batch.add(payload)

    return fill


def begin(start: Start, fill: Fill, *others: Pipeline[Any], **options: Any) -> Harness:
    opener, on = openers(fill)
    return on(start(opener, *(others or (items(), reports())), **options))


def one(harness: Harness, kind: str) -> Task:
    [task] = harness.app.tasks.list(kind=kind)
    return task


def refusals(harness: Harness) -> list[tuple[str, str]]:
    """The rule and the kind of every refusal."""
    return [(rule, kind) for rule, kind, _ in _refusals(harness)]


def _refusals(harness: Harness) -> list[tuple[str, str, str]]:
    query = "SELECT rule, kind, reason FROM onceward_refusal ORDER BY id"
    return harness.app.read(lambda connection: [tuple(row) for row in connection.execute(query).fetchall()])


# Opening


def test_what_is_added_are_children_of_the_stage_and_what_follows_is_one_that_waits(start: Start) -> None:
    runs: list[str] = []
    fill = night(Item("a", children=("a/1",)), Item("b", "waits"), then=Report("night"))
    harness = begin(start, fill, items(), reports(runs))
    opener = harness.enqueue(Opener()).id
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.total, batch.open, batch.progress) == ("open", 3, 1, 2 / 3)
    follower = harness.task(one(harness, "report").id)
    assert (batch.then, runs) == (follower.id, [])
    assert (follower.status, follower.parent, follower.depth) == (Status.WAITING, opener, 1)
    assert follower.lineage == harness.task(opener).lineage
    why = harness.app.why(follower.id)
    assert (why.cause, why.sentence) == (Cause.BATCH, "it waits for batch 'night' to end: task 4 open")
    children = {task.key: task for task in harness.app.tasks.list(kind="item")}
    assert [(children[key].parent, children[key].depth) for key in ("a", "b", "a/1")] == [
        (opener, 1), (opener, 1), (children["a"].id, 2),
    ]  # fmt: skip
    assert_verified(harness.app)
    harness.app.tasks.signal(children["b"].id, "go")
    harness.drain()
    assert (runs, harness.app.batches.get("night").status) == (["night"], "succeeded")
    assert words(harness, follower.id) == ["parked", "woken", "finished"]
    assert harness.task(opener).status is Status.SUCCEEDED


def test_it_is_not_there_before_the_stage_commits_and_a_stage_that_fails_leaves_none(start: Start) -> None:
    seen: list[str] = []

    def fill(app: App, ctx: Context[Opener]) -> None:
        with app.batch("night", then=Report("night")) as batch:
            assert batch.add(Item("a"))
            with pytest.raises(ConfigError, match="or in a stage when the stage commits"):
                _ = batch.id
        with pytest.raises(ConfigError, match="or in a stage when the stage commits"):
            _ = batch.tasks
        with pytest.raises(BatchNotFound):
            app.batches.get("night")
        seen.append(repr(batch))
        raise ZeroDivisionError

    harness = begin(start, fill)
    opener = harness.enqueue(Opener())
    harness.drain()
    assert (seen, harness.task(opener).status) == (["<batch 'night', 1 added>"] * 2, Status.FAILED)
    assert (harness.app.batches.list(), len(harness.app.tasks.list())) == ([], 1)


def test_an_error_in_its_block_adds_nothing(start: Start) -> None:
    def fill_badly(app: App) -> None:
        with app.batch("night", then=Report("night")) as batch:
            batch.add(Item("a"))
            raise ZeroDivisionError

    def fill(app: App, ctx: Context[Opener]) -> None:
        with pytest.raises(ZeroDivisionError):
            fill_badly(app)

    harness = begin(start, fill)
    opener = harness.enqueue(Opener())
    harness.drain()
    assert (harness.task(opener).status, harness.app.batches.list(), len(harness.app.tasks.list())) == (
        Status.SUCCEEDED,
        [],
        1,
    )


def test_a_stage_that_is_tried_again_opens_it_once(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        night(Item("a"), Item("b"), then=Report("night"))(app, ctx)
        if ctx.task.attempt == 1:
            raise ZeroDivisionError

    runs: list[str] = []
    harness = begin(start, fill, items(), reports(runs))
    harness.enqueue(Opener())
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.total, batch.then, runs) == ("succeeded", 2, one(harness, "report").id, ["night"])


def test_a_batch_that_a_checkpoint_has_opened_is_the_same_when_its_task_opens_it_again(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        added = [Item("a", "waits"), *([Item("b")] if ctx.task.attempt > 1 else [])]
        night(*added, then=Report("night"), limits=Limits(max_tasks=3))(app, ctx)
        ctx.checkpoint("opened")
        opened.append(app.batches.get("night").status)
        if ctx.task.attempt == 1 and ctx.task.run == 1:
            raise ZeroDivisionError

    runs: list[str] = []
    opened: list[str] = []
    harness = begin(start, fill, items(), reports(runs))
    opener = harness.enqueue(Opener())
    harness.drain()
    assert (harness.task(opener).status, opened) == (Status.SUCCEEDED, ["open", "open"])
    batch = harness.app.batches.get("night")
    assert (batch.total, batch.open) == (2, 1)  # the second time it has got another child
    harness.app.tasks.signal(next(task.id for task in harness.app.tasks.list(kind="item") if task.key == "a"), "go")
    harness.drain()
    assert (harness.app.batches.get("night").status, runs) == ("succeeded", ["night"])
    harness.app.tasks.retry(opener.id, fresh=True)
    harness.drain()
    assert (harness.task(opener).status, opened[2:], runs) == (Status.SUCCEEDED, ["succeeded"], ["night"])
    assert len(harness.app.tasks.list()) == 4


def test_a_task_that_has_all_the_children_it_may_have_opens_its_batch_again(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        night(Item("a"), then=Report("night"))(app, ctx)
        ctx.checkpoint("opened")
        if ctx.task.attempt == 1:
            raise ZeroDivisionError

    runs: list[str] = []
    harness = begin(start, fill, items(), reports(runs))
    opener = harness.app.enqueue(Opener(), limits=Limits(max_children=2))
    harness.drain()
    assert (harness.task(opener).status, runs) == (Status.SUCCEEDED, ["night"])
    assert refusals(harness) == []


def test_a_name_that_another_batch_has_is_an_error_of_the_stage(start: Start) -> None:
    harness = begin(start, night(Item("a"), then=Report("night")))
    first, second = harness.enqueue(Opener("first")), harness.enqueue(Opener("second"))
    harness.drain()
    assert sorted(statuses(harness, [first, second])) == ["failed", "succeeded"]
    failed = next(task for task in (first, second) if harness.task(task).status is Status.FAILED)
    assert "there is a batch 'night' already" in str(harness.task(failed).reason)
    assert (len(harness.app.tasks.list()), harness.app.batches.get("night").total) == (4, 1)
    with pytest.raises(ConfigError, match="there is a batch 'night' already"), harness.app.batch("night"):
        pass


def test_a_stage_opens_many_batches_and_none_of_them_twice(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        for name in ("y", "x", "empty"):
            with app.batch(name, then=Report(name)) as batch:
                if name != "empty":
                    batch.add(Item(name))
                    batch.add(Item(f"{name}2", "failed"))
        with pytest.raises(ConfigError, match="there is a batch 'x' already"), app.batch("x"):
            pass
        ctx.spawn(Item("beside"))

    runs: list[str] = []
    harness = begin(start, fill, items(), reports(runs))
    harness.enqueue(Opener())
    harness.drain()
    found = {batch.name: (batch.status, batch.total) for batch in harness.app.batches.list()}
    assert found == {"x": ("partial", 2), "y": ("partial", 2), "empty": ("succeeded", 0)}
    assert sorted(runs) == ["empty", "x", "y"]


def test_an_awaited_stage_opens_one_too_and_rows_go_with_it(start: Start) -> None:
    opener = Pipeline(Opener)

    @opener.stage
    async def opening(ctx: Context[Opener]) -> None:
        async with harness.app.batch("night", then=Report("night")) as batch:
            batch.add(Item("a"))
            await asyncio.sleep(0)
            batch.add(Item("b"), after="5m", priority=2)
        ctx.write(insert_note, ctx.task.id, "opened")

    harness = start(opener, items(), reports(), migrations=[NOTES])
    harness.enqueue(Opener())
    harness.drain()
    assert [text for _, text in notes(harness.app)] == ["opened"]
    assert harness.app.batches.get("night").succeeded == 2
    assert one(harness, "report").status is Status.SUCCEEDED


def test_rows_that_are_refused_take_the_batch_with_them(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        night(Item("a"), then=Report("night"))(app, ctx)
        ctx.write(insert_note, ctx.task.id, "" if ctx.task.attempt == 1 else "fine")

    harness = begin(start, fill, migrations=[NOTES])
    opener = harness.enqueue(Opener())
    harness.drain()
    assert words(harness, opener.id).count("retry scheduled") == 1
    assert (harness.app.batches.get("night").total, len(harness.app.tasks.list())) == (1, 3)


def test_a_stage_that_has_ended_opens_none(start: Start) -> None:
    kept: list[Context[Opener]] = []

    def fill(app: App, ctx: Context[Opener]) -> None:
        kept.append(ctx)
        night()(app, ctx)

    harness = begin(start, fill)
    harness.enqueue(Opener())
    harness.drain()

    def later() -> None:
        with harness.app.batch("later"):
            pass

    token = current.set(kept[0])
    try:
        with pytest.raises(StageEnded):
            later()
        with pytest.raises(StageEnded):
            harness.app.batch("later", then=Report("later"))
    finally:
        current.reset(token)
    assert [batch.name for batch in harness.app.batches.list()] == ["night"]


def test_bad_input_is_an_error_of_the_stage_at_once(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        with pytest.raises(ConfigError, match="is no name of a batch"):
            app.batch("")
        with pytest.raises(ConfigError, match="a deadline of '0s'"):
            app.batch("night", deadline="0s")
        with pytest.raises(ConfigError, match="not widen them"), app.batch("x", limits=Limits(max_depth=90)) as batch:
            batch.add(Item("a"))
        with pytest.raises(ConfigError, match="spawn takes a payload"), app.batch("night") as batch:
            batch.add("a")  # type: ignore[arg-type]

    harness = begin(start, fill)
    opener = harness.enqueue(Opener())
    harness.drain()
    assert (harness.task(opener).status, harness.app.batches.list()) == (Status.SUCCEEDED, [])


def test_a_stage_that_is_called_by_a_test_tells_what_it_adds() -> None:
    app = App("sqlite:///:memory:", [items(), reports()])
    opener = Pipeline(Opener)

    @opener.stage
    def opening(ctx: Context[Opener]) -> None:
        night(Item("a"), then=Report("night"))(app, ctx)

    assert run_stage(opening, Opener()).spawned == [Report("night"), Item("a")]


# Crashes


@pytest.mark.parametrize("point", ["after opening", "before commit", "inside commit", "after commit", "after work"])
def test_a_batch_is_opened_once_and_followed_once_though_workers_die(start: Start, point: str) -> None:
    runs: list[str] = []
    harness = begin(start, night(Item("a"), Item("b"), then=Report("night")), items(), reports(runs))
    harness.enqueue(Opener())
    harness.crash(point, times=2)
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (harness.crashes, batch.status, batch.total) == (2, "succeeded", 2)
    assert (len(harness.app.tasks.list(kind="report")), one(harness, "report").status) == (1, Status.SUCCEEDED)


# The rules of the lineage


def test_children_that_are_refused_are_not_in_it_and_the_refusals_are_kept(start: Start) -> None:
    said: list[bool] = []

    def fill(app: App, ctx: Context[Opener]) -> None:
        ctx.spawn(Item("beside"))
        with app.batch("night") as batch:
            said.extend(batch.add(item) for item in (Item("a"), Item("casino"), Item("beside"), Item("a")))
            said.append(batch.add(Opener()))

    harness = begin(start, fill, items(), stop_list=StopList(keywords=["casino"]))
    harness.enqueue(Opener())
    harness.drain()
    assert said == [True, False, True, True, False]
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.total) == ("succeeded", 1)
    assert sorted(refusals(harness)) == [(Rule.CYCLE, "opener"), (Rule.STOPPED, "item")]


def test_the_policy_of_a_pipeline_to_raise_holds_in_a_batch(start: Start) -> None:
    item = items(refused={"stopped": "raise"})
    harness = begin(start, night(Item("a"), Item("casino")), item, stop_list=StopList(keywords=["casino"]))
    opener = harness.enqueue(Opener())
    harness.drain()
    assert (harness.task(opener).status, harness.app.batches.list()) == (Status.FAILED, [])
    assert "item 'casino' was not spawned" in str(harness.task(opener).reason)


def test_max_tasks_counts_all_tasks_of_the_batch_and_its_counter_goes_with_it(start: Start) -> None:
    fill = night(
        *(Item(name, children=(f"{name}/1", f"{name}/2")) for name in "abc"),
        then=Report("night"),
        limits=Limits(max_tasks=4),
    )
    harness = begin(start, fill)
    harness.enqueue(Opener())
    harness.drain()
    assert harness.app.batches.get("night").total == 4
    assert refusals(harness).count((Rule.LIMIT, "item")) == 5
    reasons = {reason for _, _, reason in _refusals(harness)}
    assert reasons == {"its batch has no room: max_tasks is 4"}
    assert one(harness, "report").status is Status.SUCCEEDED  # it is outside
    assert_verified(harness.app)
    harness.advance("2h")
    pruned = harness.app.tasks.prune("1h")
    assert (pruned.tasks, pruned.batches) == (6, 1)
    assert _counters(harness) == 0


def test_a_counter_in_which_nothing_was_counted_goes_with_its_batch(start: Start) -> None:
    harness = begin(start, night(Opener(), limits=Limits(max_tasks=4)))
    harness.enqueue(Opener())
    harness.drain()
    assert harness.app.batches.get("night").total == 0
    harness.advance("2h")
    assert harness.app.tasks.prune("1h").batches == 1
    assert _counters(harness) == 0


def _counters(harness: Harness) -> int:
    return len(harness.app.read(lambda connection: connection.execute("SELECT id FROM onceward_lineage").fetchall()))


def test_other_limits_narrow_those_of_each_child(start: Start) -> None:
    harness = begin(start, night(Item("a", children=("b", "c")), limits=Limits(max_children=1)))
    harness.enqueue(Opener())
    harness.drain()
    assert harness.app.batches.get("night").total == 2


# What follows


@pytest.mark.parametrize("options", [{"max_depth": 0}, {"stopped": True}, {"cycle": True}])
def test_what_can_never_follow_is_an_error_of_the_stage(start: Start, options: dict[str, Any]) -> None:
    then: Payload = Opener() if "cycle" in options else Report("casino" if "stopped" in options else "night")
    harness = begin(start, night(Item("a"), then=then), stop_list=StopList(keywords=["casino"]))
    limits = Limits(max_depth=0) if "max_depth" in options else None
    opener = harness.app.enqueue(Opener(), limits=limits)
    harness.drain()
    assert harness.task(opener).status is Status.FAILED
    assert "what follows batch 'night' was not spawned" in str(harness.task(opener).reason)
    assert (harness.app.batches.list(), len(harness.app.tasks.list())) == ([], 1)


@pytest.mark.parametrize("before", [True, False])
def test_what_its_task_asks_for_besides_does_not_follow_and_the_batch_ends_without(start: Start, before: bool) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        if before:
            ctx.spawn(Report("night"))
        night(Item("a", "waits"), then=Report("night"))(app, ctx)
        if not before:
            ctx.spawn(Report("night"))

    harness = begin(start, fill)
    harness.enqueue(Opener())
    harness.drain()
    report = one(harness, "report")
    assert report.status is (Status.SUCCEEDED if before else Status.WAITING)  # the same child, asked for again
    assert harness.app.batches.get("night").then == (None if before else report.id)
    assert refusals(harness) == ([(Rule.DUPLICATE, "report")] if before else [])
    harness.app.tasks.signal(one(harness, "item").id, "go")
    harness.drain()
    assert harness.app.batches.get("night").status == "succeeded"
    assert one(harness, "report").status is Status.SUCCEEDED


def test_two_batches_are_not_followed_by_one_task(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        for name in ("first", "second"):
            with app.batch(name, then=Report("both")) as batch:
                batch.add(Item(name))

    harness = begin(start, fill)
    harness.enqueue(Opener())
    harness.drain()
    report = one(harness, "report")
    assert [harness.app.batches.get(name).then for name in ("first", "second")] == [report.id, None]
    assert refusals(harness) == [(Rule.DUPLICATE, "report")]


def test_what_follows_takes_its_room_when_the_batch_opens(start: Start) -> None:
    harness = begin(start, night(Item("a"), Item("b"), Item("c"), then=Report("night")), items(**IN_PART), reports())
    harness.enqueue(Opener(), limits=Limits(max_tasks=3))
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (batch.total, batch.refused, batch.status) == (1, 2, "partial")
    assert one(harness, "report").status is Status.SUCCEEDED
    assert refusals(harness) == [(Rule.LIMIT, "item")] * 2


def test_what_is_unique_everywhere_and_under_way_elsewhere_is_what_follows(start: Start) -> None:
    harness = begin(start, night(Item("a"), then=Report("night")), items(), reports(unique="everywhere"))
    other = harness.app.enqueue(Report("night"), after="1h")
    harness.enqueue(Opener())
    harness.drain(wait_for_due=False)
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.then, harness.task(other).status) == ("succeeded", other.id, Status.PENDING)
    harness.drain()


def test_where_a_child_would_wait_for_approval_what_follows_is_refused(start: Start) -> None:
    harness = begin(start, night(Item("a"), then=Report("night")), items(), reports(refused={"depth": "park"}))
    opener = harness.enqueue(Opener(), limits=Limits(max_depth=0))
    harness.drain()
    assert (harness.task(opener).status, len(harness.app.tasks.list())) == (Status.FAILED, 1)


def test_what_follows_may_be_cancelled_and_comes_no_more(start: Start) -> None:
    harness = begin(start, night(Item("a", "waits"), then=Report("night")))
    harness.enqueue(Opener())
    harness.drain()
    harness.app.tasks.cancel(one(harness, "report").id)
    harness.app.tasks.signal(one(harness, "item").id, "go")
    harness.drain()
    assert harness.app.batches.get("night").status == "succeeded"
    assert one(harness, "report").status is Status.CANCELLED


def with_cancelled_follower(start: Start, runs: list[str]) -> tuple[Harness, int]:
    """A batch with an item that waits, and what follows it, cancelled meanwhile."""
    harness = begin(start, night(Item("a", "waits"), then=Report("night")), items(), reports(runs))
    harness.enqueue(Opener())
    harness.drain()
    report = one(harness, "report").id
    harness.app.tasks.cancel(report)
    return harness, report


@pytest.mark.parametrize("fresh", [False, True])
def test_what_follows_and_was_cancelled_waits_again_when_it_is_opened_again(start: Start, fresh: bool) -> None:
    runs: list[str] = []
    harness, report = with_cancelled_follower(start, runs)
    harness.app.tasks.retry(report, fresh=fresh)
    harness.drain()
    assert (harness.task(report).status, runs) == (Status.WAITING, [])
    harness.app.tasks.signal(one(harness, "item").id, "go")
    harness.drain()
    assert (harness.task(report).status, runs) == (Status.SUCCEEDED, ["night"])


def test_what_follows_and_is_opened_again_after_its_batch_has_ended_runs(start: Start) -> None:
    runs: list[str] = []
    harness, report = with_cancelled_follower(start, runs)
    harness.app.tasks.signal(one(harness, "item").id, "go")
    harness.drain()
    harness.app.tasks.retry(report)
    harness.drain()
    assert runs == ["night"]


def test_a_cancelled_lineage_takes_batch_and_follower_with_it(start: Start) -> None:
    harness = begin(start, night(Item("a", "waits"), Item("b"), then=Report("night")))
    opener = harness.enqueue(Opener()).id
    harness.drain()
    assert len(harness.app.lineages.cancel(opener)) == 2
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.succeeded, batch.cancelled) == ("partial", 1, 1)
    assert one(harness, "report").status is Status.CANCELLED
    harness.drain()


def test_it_is_followed_although_the_task_that_has_opened_it_is_gone(start: Start) -> None:
    harness = begin(start, night(Item("a", "waits"), then=Report("night")))
    opener = harness.enqueue(Opener()).id
    harness.drain()
    harness.advance("2h")
    assert harness.app.tasks.prune("1h").tasks == 1
    assert opener not in [task.id for task in harness.app.tasks.list()]
    harness.app.tasks.signal(one(harness, "item").id, "go")
    harness.drain()
    assert one(harness, "report").status is Status.SUCCEEDED


def test_at_its_deadline_it_fails_with_its_tasks_and_is_followed(start: Start) -> None:
    harness = begin(start, night(Item("a", "waits"), then=Report("night"), deadline="1h"))
    harness.enqueue(Opener())
    harness.drain()
    harness.advance("1h")
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.reason, batch.failed) == ("failed", "batch exceeded 1 h", 1)
    assert one(harness, "report").status is Status.SUCCEEDED


def test_people_are_told_what_it_waits_for_and_verify_finds_one_that_would_never_be_woken() -> None:
    assert wait_text("batch:night") == "batch 'night' to end"
    ended = BatchFacts(1, "night", 1, 1, 0, 1, 0, 7, 5, 0, None, opener=3, waiting_followers=0)
    assert list(batch_breaches(ended)) == []
    [sentence] = batch_breaches(ended._replace(waiting_followers=1))
    assert sentence == "batch 'night' has ended, and task 7 still waits for that: it would never be woken"


# Joins


def test_a_join_after_it_waits_for_its_tasks_and_for_what_follows(start: Start) -> None:
    opener = Pipeline(Opener)

    @opener.stage
    def opening(ctx: Context[Opener]) -> None:
        night(Item("a", children=("a/1",)), Item("b", "failed"), then=Report("night"))(harness.app, ctx)

    @opener.stage(join=True)
    def gather(ctx: Context[Opener]) -> list[str]:
        assert ctx.outcome(Report("night")).result(str) == "night"
        return sorted(f"{child.kind} {child.key} {child.status}" for child in ctx.children)

    harness = start(opener, items(), reports())
    task = harness.enqueue(Opener())
    harness.drain()
    assert harness.task(task).result(gather) == ["item a succeeded", "item b failed", "report night succeeded"]
    assert harness.app.batches.get("night").total == 3


def test_no_task_in_a_batch_waits_for_what_follows_it(start: Start) -> None:
    class Waiter(Payload, kind="waiter"):
        pass

    waiter = Pipeline(Waiter)

    @waiter.stage
    def ask(ctx: Context[Waiter]) -> None:
        ctx.spawn(Report("night"))

    @waiter.stage(join=True)
    def gather(ctx: Context[Waiter]) -> str:
        outcome = ctx.outcome(Report("night"))
        return f"{outcome.status}: {outcome.rule}"

    harness = begin(start, night(Waiter(), then=Report("night")), waiter, reports())
    harness.enqueue(Opener())
    harness.drain()
    assert harness.task(one(harness, "waiter").id).result(gather) == "refused: cycle"
    assert one(harness, "report").status is Status.SUCCEEDED


# Batches inside batches


def test_a_batch_inside_another_belongs_to_it_with_all_its_tasks_and_what_follows(start: Start) -> None:
    runs: list[str] = []
    fill = night(Item("a", "waits", children=("a/1",)), then=Report("inner"))
    harness = begin(start, fill, items(), reports(runs))
    with harness.app.batch("outer", then=Report("outer")) as outer:
        outer.add(Opener())
    harness.drain()
    inner, around = harness.app.batches.get("night"), harness.app.batches.get("outer")
    assert (inner.total, inner.open) == (2, 1)
    assert (around.total, around.open, around.succeeded) == (4, 2, 2)  # the opener, two items, what follows the inner
    assert_verified(harness.app)
    harness.app.tasks.signal(next(task.id for task in harness.app.tasks.list(kind="item") if task.key == "a"), "go")
    harness.drain()
    assert [harness.app.batches.get(name).status for name in ("night", "outer")] == ["succeeded"] * 2
    assert (runs, harness.app.batches.get("outer").total) == (["inner", "outer"], 4)


def test_without_anything_that_follows_the_outer_batch_waits_for_the_inner_one(start: Start) -> None:
    harness = begin(start, night(Item("a", "waits")))
    with harness.app.batch("outer", then=Report("outer")) as outer:
        outer.add(Opener())
    harness.drain()
    assert harness.app.batches.get("outer").open == 1
    task = one(harness, "item").id
    harness.app.tasks.signal(task, "go")
    harness.drain()
    assert [harness.app.batches.get(name).succeeded for name in ("night", "outer")] == [1, 2]
    assert one(harness, "report").payload == Report("outer")
    harness.app.tasks.retry(task)
    harness.drain()
    harness.advance("2h")
    assert harness.app.tasks.prune("1h").batches == 2  # the inner one, then the outer one


def test_a_task_that_is_opened_again_is_counted_in_every_batch_around_it_that_is_open(start: Start) -> None:
    harness = begin(start, night(Item("a", "failed")))
    with harness.app.batch("outer") as outer:
        outer.add(Opener())
        outer.add(Item("z", "waits"))
    harness.drain()
    task = next(task.id for task in harness.app.tasks.list(kind="item") if task.key == "a")
    harness.app.tasks.retry(task)
    inner, around = harness.app.batches.get("night"), harness.app.batches.get("outer")
    assert (inner.status, inner.open, around.open, around.failed) == ("failed", 0, 2, 0)
    assert_verified(harness.app)
    harness.drain()
    assert harness.app.batches.get("outer").failed == 1


def test_the_deadline_and_the_room_of_the_outer_batch_hold_in_the_inner_one(start: Start) -> None:
    fill = night(Item("a", "waits"), Item("b"), Item("c"), then=Report("inner"))
    harness = begin(start, fill, items(**IN_PART), reports())
    with harness.app.batch("outer", deadline="1h", limits=Limits(max_tasks=4)) as outer:
        outer.add(Opener())
    harness.drain()
    assert (harness.app.batches.get("night").total, harness.app.batches.get("outer").total) == (2, 4)
    harness.advance("1h")
    harness.drain()
    inner, around = harness.app.batches.get("night"), harness.app.batches.get("outer")
    assert (inner.status, inner.reason, around.status) == ("partial", None, "failed")
    assert one(harness, "report").reason == "batch exceeded 1 h"
    harness.advance("2h")
    assert (harness.app.tasks.prune("1h").batches, _counters(harness)) == (2, 0)


# From another process


def test_a_request_that_is_served_for_a_task_opens_a_batch_of_its_children(start: Start) -> None:
    sent: list[dict[str, str]] = []
    runs: list[str] = []
    harness = begin(start, lambda app, ctx: sent.append(outgoing_headers()), items(**IN_PART), reports(runs))
    opener = harness.enqueue(Opener()).id
    harness.drain()

    def serve() -> tuple[int, list[int]]:
        with incoming(sent[0]), harness.app.batch("night", then=Report("night"), limits=Limits(max_tasks=2)) as batch:
            for name in "abc":
                assert batch.add(Item(name))
        return batch.id, batch.tasks

    number, tasks = serve()
    assert serve() == (number, [])  # the request is sent again: it is the same batch
    assert number == harness.app.batches.get("night").id
    assert [(task.id, task.parent) for task in harness.app.tasks.list(kind="item")] == [
        (one, opener) for one in tasks[::-1]
    ]
    assert len(tasks) == 2
    harness.drain()
    assert (harness.app.batches.get("night").succeeded, runs) == (2, ["night"])
    assert harness.task(one(harness, "report").id).parent == opener


def test_a_request_that_cannot_be_served_so_opens_none(start: Start) -> None:
    sent: list[dict[str, str]] = []

    def fill(app: App, ctx: Context[Opener]) -> None:
        sent.append(outgoing_headers())
        raise Waiting(until="go")

    harness = begin(start, fill)
    opener = harness.enqueue(Opener()).id
    harness.drain()
    with (
        incoming(sent[0]),
        pytest.raises(SpawnRefused, match="what follows batch 'x'"),
        harness.app.batch("x", then=Opener()),
    ):
        pass
    harness.app.tasks.cancel(opener)
    with incoming(sent[0]), pytest.raises(ConfigError, match="was cancelled"), harness.app.batch("x"):
        pass
    assert harness.app.batches.list() == []
    strange = {"baggage": "onceward.lineage=00000000-0000-4000-8000-000000000000,onceward.task=999"}
    with incoming(strange), pytest.raises(NoLineage), harness.app.batch("x"):
        pass
    with incoming(strange, otherwise="root"), harness.app.batch("x") as batch:
        batch.add(Item("a"))
    assert harness.task(batch.tasks[0]).parent is None
    harness.drain()


# More than there is room for


def many(count: int) -> list[Item]:
    return [Item(str(number)) for number in range(count)]


def test_members_of_a_batch_do_not_count_as_children_of_the_task_that_opens_it(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        night(*many(12), then=Report("night"))(app, ctx)
        assert [bool(ctx.spawn(Item(name))) for name in ("x", "y", "z")] == [True, True, False]

    harness = begin(start, fill)
    opener = harness.app.enqueue(Opener(), limits=Limits(max_children=3))
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (harness.task(opener).status, batch.status, batch.succeeded, batch.refused) == (
        Status.SUCCEEDED, "succeeded", 12, 0
    )  # fmt: skip
    assert refusals(harness) == [(Rule.LIMIT, "item")]


def test_a_task_that_has_opened_a_batch_has_its_children_left_in_a_later_attempt(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        if not ctx.task.deferrals:
            night(*many(5))(app, ctx)
            raise Waiting(after="1m")
        assert [bool(ctx.spawn(Item(name))) for name in ("x", "y", "z")] == [True, True, False]

    harness = begin(start, fill)
    opener = harness.app.enqueue(Opener(), limits=Limits(max_children=2))
    harness.drain()
    assert harness.task(opener).status is Status.SUCCEEDED
    assert len(harness.app.tasks.list(kind="item")) == 7


@pytest.mark.parametrize(
    ("lineage", "batch", "options", "says"),
    [
        (Limits(max_tasks=5), None, {}, r"its lineage has no room: max_tasks is 5; .*Limits\(max_tasks=…\)"),
        (None, Limits(max_tasks=5), {}, r"its batch has no room: max_tasks is 5; .*open the batch, with Limits"),
        (Limits(max_depth=0), None, {}, "max_depth is 0; .*--max-depth"),
        (None, None, {"budget": Budget("few", 5, unit="tasks")}, "raise the budget"),
    ],
)
def test_a_batch_that_cannot_take_all_of_it_fails_its_stage_for_good(
    start: Start, lineage: Limits | None, batch: Limits | None, options: dict[str, Any], says: str
) -> None:
    item = Pipeline(Item)

    @item.stage(**options)
    def work(ctx: Context[Item]) -> None: ...

    harness = begin(start, night(*many(12), limits=batch), item, reports())
    opener = harness.app.enqueue(Opener(), limits=lineage)
    harness.drain()
    found = harness.task(opener)
    assert (found.status, found.failures, harness.app.batches.list(), harness.app.tasks.list(kind="item")) == (
        Status.FAILED, 0, [], []
    )  # fmt: skip
    assert re.search(f"batch 'night' cannot take all of its 12 tasks: .*{says}", str(found.reason))


def test_what_is_there_already_or_linked_folds_and_spoils_nothing(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        ctx.spawn(Item("a"))
        night(Item("a"), Item("b"), Item("b"), Item("c"))(app, ctx)

    harness = begin(start, fill, items(unique="everywhere"), reports())
    harness.app.enqueue(Item("c", "waits"))
    opener = harness.app.enqueue(Opener())
    harness.drain(wait_for_due=False)
    batch = harness.app.batches.get("night")
    assert (harness.task(opener).status, batch.status, batch.refused) == (Status.SUCCEEDED, "succeeded", 0)


def test_a_stage_that_opens_its_batch_again_counts_each_refusal_once(start: Start) -> None:
    def fill(app: App, ctx: Context[Opener]) -> None:
        night(*many(5), limits=Limits(max_tasks=3))(app, ctx)
        if ctx.task.attempt == 1:
            ctx.checkpoint(1)
            raise ValueError("after the checkpoint")

    harness = begin(start, fill, items(**IN_PART), reports())
    harness.enqueue(Opener())
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.succeeded, batch.refused) == ("partial", 3, 2)
