"""Batches: all or nothing at the start, every task counted, one end, and what follows comes exactly once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from onceward import (
    App,
    BatchNotFound,
    BatchStatus,
    Config,
    ConfigError,
    Context,
    Failed,
    Filtered,
    Limits,
    NoLineage,
    Payload,
    Pipeline,
    Retry,
    Skipped,
    Status,
    StopList,
    UnknownKind,
    Waiting,
)
from onceward.authoring.current_stage import is_worker
from onceward.baggage import incoming, outgoing_headers
from onceward.model.batch import BatchCounts, BatchOutcome, outcome_of
from onceward.model.enqueue_options import EnqueueOptions
from onceward.model.status import Event
from onceward.model.task import Commit, Finish, Lease, NewTask
from onceward.model.time_limits import exceeded
from onceward.store.attempts import commits, expiry
from onceward.store.attempts.expiry import expire_batches
from onceward.store.lineage.batches import NewBatch, open_batch
from onceward.store.op import Op, Query, drive
from onceward.store.operations import task_actions
from onceward.testing import Harness
from onceward.worker.housekeeping import Housekeeping
from tests.store.conftest import Hands
from tests.worker.conftest import NOTES, Clockwork, Start, assert_verified, insert_note, notes, statuses, words


class Item(Payload, kind="item"):
    name: str
    end: str = "well"
    children: tuple[str, ...] = ()

    def key(self) -> str:
        return self.name


class Report(Payload, kind="report"):
    about: str


class Stranger(Payload, kind="stranger"):
    pass


def items(**options: Any) -> Pipeline[Item]:
    """Items that end as they are told, after asking for children."""
    item = Pipeline(Item, retry=Retry(retries=0), **options)

    @item.stage
    def work(ctx: Context[Item]) -> None:
        for child in ctx.payload.children:
            name, _, end = child.partition(":")
            ctx.spawn(Item(name, end or "well"))
        match ctx.payload.end:
            case "failed":
                raise Failed("broken")
            case "filtered":
                raise Filtered("five strikes")
            case "skipped":
                raise Skipped("not worth it")
            case "waits" if ctx.signal("go") is None:
                raise Waiting(until="go")

    return item


def reports() -> Pipeline[Report]:
    """What follows a batch."""
    report = Pipeline(Report)

    @report.stage
    def write(ctx: Context[Report]) -> str:
        return ctx.payload.about

    return report


def fill(harness: Harness, name: str, *payloads: Payload, **options: Any) -> list[int]:
    with harness.app.batch(name, **options) as batch:
        for payload in payloads:
            batch.add(payload)
    return batch.tasks


def counts(batch: BatchStatus) -> tuple[int, ...]:
    return (batch.succeeded, batch.filtered, batch.skipped, batch.failed, batch.cancelled)


def followers(harness: Harness) -> list[int]:
    return [task.id for task in harness.app.tasks.list(kind="report", limit=1_000)]


# Opening


def test_a_batch_ends_with_its_last_task_and_what_follows_is_enqueued(start: Start) -> None:
    harness = start(items(), reports())
    tasks = fill(harness, "night", Item("a"), Item("b"), Item("c"), then=Report("night"))
    before = harness.app.batches.get("night")
    assert (before.status, before.total, before.open, before.done, before.progress) == ("open", 3, 3, 0, 0.0)
    assert (before.then, before.ended_at, before.has_ended, followers(harness)) == (None, None, False, [])
    assert len({harness.task(task).lineage for task in tasks}) == 3
    harness.drain()
    after = harness.app.batches.get("night")
    assert (after.status, counts(after), after.open, after.progress) == ("succeeded", (3, 0, 0, 0, 0), 0, 1.0)
    assert (after.has_ended, after.ended_at is not None) == (True, True)
    [follower] = followers(harness)
    assert after.then == follower
    task = harness.task(follower)
    assert (task.status, task.parent, task.payload) == (Status.SUCCEEDED, None, Report("night"))


def test_nothing_is_there_before_the_block_ends_and_an_error_in_it_adds_nothing(start: Start) -> None:
    harness = start(items(), reports())
    batch = harness.app.batch("night", then=Report("x"))

    def fill_badly() -> None:
        with batch:
            batch.add(Item("a"))
            assert harness.app.tasks.list() == []
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fill_badly()
    assert (harness.app.tasks.list(), harness.app.batches.list()) == ([], [])
    with pytest.raises(ConfigError, match="is not committed"):
        _ = batch.id
    fill(harness, "night", Item("a"))  # the name is still free
    harness.drain()


def test_a_name_is_taken_once_and_the_second_batch_adds_nothing(start: Start) -> None:
    harness = start(items())
    fill(harness, "night", Item("a"))
    with pytest.raises(ConfigError, match="there is a batch 'night' already"):
        fill(harness, "night", Item("b"))
    assert len(harness.app.tasks.list()) == 1
    harness.drain()
    with pytest.raises(ConfigError, match="there is a batch 'night' already"):  # also after its end
        fill(harness, "night", Item("c"))


def test_a_batch_is_used_inside_its_block_alone(start: Start) -> None:
    harness = start(items())
    batch = harness.app.batch("night")
    with pytest.raises(ConfigError, match="batch 'night' is not open yet"):
        batch.add(Item("a"))
    with batch:
        batch.add(Item("a"))
        with pytest.raises(ConfigError, match="is not committed"):
            _ = batch.tasks
    assert (batch.name, batch.id) == ("night", harness.app.batches.get("night").id)
    with pytest.raises(ConfigError, match="batch 'night' has closed"):
        batch.add(Item("b"))
    with pytest.raises(ConfigError, match="a batch is filled once"), batch:
        pass
    assert harness.app.batches.get("night").total == 1


def test_an_empty_batch_ends_at_once(start: Start) -> None:
    harness = start(items(), reports())
    fill(harness, "nothing", then=Report("nothing"), limits=Limits(max_tasks=3), deadline="1h")
    batch = harness.app.batches.get("nothing")
    assert (batch.status, batch.total, batch.progress) == ("succeeded", 0, 1.0)
    assert [batch.then] == followers(harness)
    harness.drain()
    assert statuses(harness, followers(harness)) == ["succeeded"]
    fill(harness, "nothing at all")
    assert harness.app.batches.get("nothing at all").then is None


def test_what_is_added_may_be_due_later_and_more_urgent(start: Start) -> None:
    harness = start(items())
    with harness.app.batch("night") as batch:
        assert batch.add(Item("later"), after="5m")
        assert batch.add(Item("first"), priority=2)
    later, first = batch.tasks
    assert harness.task(later).due_at == harness.task(later).created_at + timedelta(minutes=5)
    assert (harness.task(first).priority, harness.task(later).priority) == (2, 0)
    harness.drain(wait_for_due=False)
    assert harness.app.batches.get("night").progress == 0.5
    harness.drain()
    assert harness.app.batches.get("night").status == "succeeded"


def test_thousands_are_added_at_once(start: Start) -> None:
    harness = start(items(), reports())
    tasks = fill(harness, "many", *(Item(str(number)) for number in range(2_500)), then=Report("many"))
    assert (len(tasks), tasks) == (2_500, sorted(tasks))
    assert [harness.task(task).key for task in (tasks[0], tasks[999], tasks[1_000], tasks[-1])] == [
        "0", "999", "1000", "2499",
    ]  # fmt: skip
    assert harness.app.batches.get("many").open == 2_500
    harness.drain()
    assert harness.app.batches.get("many").status == "succeeded"
    assert len(followers(harness)) == 1


def test_a_batch_is_filled_on_an_event_loop_too(start: Start) -> None:
    harness = start(items())

    async def fill_it() -> int:
        async with harness.app.batch("night") as batch:
            batch.add(Item("a"))
        return batch.id

    async def fill_badly() -> None:
        async with harness.app.batch("day") as batch:
            batch.add(Item("b"))
            raise ZeroDivisionError

    number = asyncio.run(fill_it())
    with pytest.raises(ZeroDivisionError):
        asyncio.run(fill_badly())
    assert [(batch.id, batch.name) for batch in harness.app.batches.list()] == [(number, "night")]
    harness.drain()


def test_bad_input_is_refused_and_adds_nothing(start: Start) -> None:
    harness = start(items(), reports(), stop_list=StopList(keywords=["casino"]))
    with pytest.raises(UnknownKind):
        fill(harness, "night", Item("a"), Stranger())
    with pytest.raises(UnknownKind):
        harness.app.batch("night", then=Stranger())
    with pytest.raises(ConfigError, match="enqueue takes a payload"), harness.app.batch("night") as batch:
        batch.add("a")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is no name of a batch"):
        harness.app.batch("")
    with pytest.raises(ConfigError, match="a deadline of '0s'"):
        harness.app.batch("night", deadline="0s")
    with pytest.raises(ConfigError, match="kept out by the stop list"):
        harness.app.batch("night", then=Report("casino"))
    with pytest.raises(BatchNotFound, match="there is no batch 'night'"):
        harness.app.batches.get("night")
    with pytest.raises(ConfigError, match="'done' is no status of a batch; there are: open, succeeded"):
        harness.app.batches.list(status="done")
    assert (harness.app.tasks.list(), harness.app.batches.list()) == ([], [])


def test_what_the_stop_list_keeps_out_is_not_counted(start: Start) -> None:
    harness = start(items(), stop_list=StopList(keywords=["casino"]))
    with harness.app.batch("night") as batch:
        assert batch.add(Item("a"))
        assert not batch.add(Item("casino"))
    assert (len(batch.tasks), harness.app.batches.get("night").total) == (1, 1)
    harness.drain()


def test_work_that_is_under_way_elsewhere_is_not_counted(start: Start) -> None:
    harness = start(items(unique="everywhere"))
    other = harness.enqueue(Item("a"))
    tasks = fill(harness, "night", Item("a"), Item("b"), Item("b"), Item("c"), limits=Limits(max_tasks=2))
    assert [harness.task(task).key for task in tasks] == ["b", "c"]
    assert other.id not in tasks
    assert harness.app.batches.get("night").total == 2
    harness.drain()
    assert harness.app.batches.get("night").succeeded == 2


def test_a_batch_inside_a_stage_that_begins_lineages_has_to_say_so(start: Start) -> None:
    item = Pipeline(Item)
    said: list[int] = []

    @item.stage
    def open_another(ctx: Context[Item]) -> None:
        if ctx.payload.name == "inner":
            return
        with app.batch("inner", root=True) as batch:
            batch.add(Item("inner"))
        said.extend(batch.tasks)

    harness = start(item)
    app: App = harness.app
    harness.enqueue(Item("outer"))
    harness.drain()
    assert [harness.task(task).parent for task in said] == [None]
    assert harness.app.batches.get("inner").succeeded == 1
    with is_worker(), pytest.raises(NoLineage):
        app.batch("outside of a stage")


# Counting


@pytest.mark.parametrize(
    ("ends", "outcome"),
    [
        (("well", "well"), "succeeded"),
        (("well", "filtered", "skipped"), "succeeded"),
        (("filtered",), "succeeded"),
        (("well", "failed"), "partial"),
        (("filtered", "failed"), "partial"),
        (("failed", "failed"), "failed"),
    ],
)
def test_every_end_counts_and_decides(start: Start, ends: tuple[str, ...], outcome: str) -> None:
    harness = start(items(), reports())
    fill(harness, "night", *(Item(str(number), end) for number, end in enumerate(ends)), then=Report("night"))
    harness.drain()
    batch = harness.app.batches.get("night")
    assert batch.status == outcome
    assert counts(batch) == (*(ends.count(end) for end in ("well", "filtered", "skipped", "failed")), 0)
    assert len(followers(harness)) == 1


def test_a_cancelled_task_counts_as_ended(start: Start) -> None:
    harness = start(items(), reports())
    tasks = fill(harness, "night", Item("a", "waits"), Item("b", "waits"), then=Report("night"))
    harness.drain()
    harness.app.tasks.cancel(tasks[0])
    assert harness.app.batches.get("night").open == 1
    harness.app.tasks.signal(tasks[1], "go")
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (batch.status, counts(batch)) == ("partial", (1, 0, 0, 0, 1))
    fill(harness, "day", Item("a", "waits"), then=Report("day"))
    harness.app.tasks.cancel(harness.app.tasks.list(kind="item", limit=1)[0].id)
    assert harness.app.batches.get("day").status == "failed"
    assert len(followers(harness)) == 2


def test_a_task_that_kills_its_workers_counts_as_failed(start: Start) -> None:
    harness = start(items(), reports())
    fill(harness, "night", Item("a"), then=Report("night"))
    harness.crash("before work", times=3)
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (harness.crashes, batch.status, counts(batch)) == (3, "failed", (0, 0, 0, 1, 0))
    assert len(followers(harness)) == 1


def test_descendants_belong_to_the_batch_and_it_does_not_end_before_them(start: Start) -> None:
    item = Pipeline(Item)
    seen: list[tuple[str, str, int, int]] = []

    @item.stage
    def work(ctx: Context[Item]) -> None:
        if ctx.payload.name.count("/") < 2:
            ctx.spawn(Item(f"{ctx.payload.name}/1"))
            ctx.spawn(Item(f"{ctx.payload.name}/2"))
        batch = app.batches.get("night")
        seen.append((ctx.payload.name, batch.status, batch.total, batch.open))

    harness = start(item, reports())
    app = harness.app
    fill(harness, "night", Item("a"), then=Report("night"))
    harness.drain()
    assert seen[0] == ("a", "open", 1, 1)
    assert {status for _, status, _, _ in seen} == {"open"}
    batch = app.batches.get("night")
    assert (batch.status, batch.total, batch.succeeded) == ("succeeded", 7, 7)
    assert len(followers(harness)) == 1


def test_children_that_are_refused_or_linked_are_not_counted(start: Start) -> None:
    harness = start(items())
    fill(harness, "night", Item("a", children=("a", "b", "b", "c:failed")))
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.total, counts(batch)) == ("partial", 3, (2, 0, 0, 1, 0))


def test_a_stage_that_writes_rows_and_spawns_is_counted_whole_or_not(start: Start) -> None:
    item = Pipeline(Item, retry=Retry(retries=1, base="1s"))
    tries: list[str] = []

    @item.stage
    def work(ctx: Context[Item]) -> None:
        tries.append(ctx.payload.name)
        if ctx.payload.name == "a":
            ctx.spawn(Item("b"))
        ctx.write(insert_note, ctx.task.id, "" if len(tries) == 1 else ctx.payload.name)  # the first is refused

    harness = start(item, reports(), migrations=[NOTES])
    fill(harness, "night", Item("a"), then=Report("night"))
    harness.drain()
    assert [text for _, text in notes(harness.app)] == ["a", "b"]
    batch = harness.app.batches.get("night")
    assert (tries, batch.status, batch.total) == (["a", "a", "b"], "succeeded", 2)
    assert len(followers(harness)) == 1


def test_tasks_of_many_batches_that_end_in_one_transaction_are_told_apart(start: Start) -> None:
    harness = start(items(), reports())
    for name, ends in (("x", ["well"] * 3), ("y", ["failed"] * 2), ("z", ["well", "failed"])):
        fill(harness, name, *(Item(f"{name}{at}", end) for at, end in enumerate(ends)), then=Report(name))
    harness.drain()
    found = {batch.name: (batch.status, batch.total) for batch in harness.app.batches.list()}
    assert found == {"x": ("succeeded", 3), "y": ("failed", 2), "z": ("partial", 2)}
    assert len(followers(harness)) == 3
    assert [batch.name for batch in harness.app.batches.list(limit=2)] == ["z", "y"]
    assert [batch.name for batch in harness.app.batches.list(status="failed")] == ["y"]


def test_what_follows_may_be_unique_and_is_then_the_one_that_is_there(start: Start) -> None:
    report = Pipeline(Report, unique="everywhere")

    @report.stage
    def write(ctx: Context[Report]) -> None:
        raise Waiting(until="go")

    harness = start(items(), report)
    fill(harness, "x", Item("a"), then=Report("both"))
    fill(harness, "y", Item("a"), then=Report("both"))
    harness.drain()
    assert [harness.app.batches.get(name).then for name in ("x", "y")] == followers(harness) * 2


def test_a_crash_at_the_end_of_a_batch_ends_it_once(start: Start) -> None:
    for point in ("inside commit", "after commit", "after work"):
        harness = start(items(), reports())
        name = f"{point} {len(harness.app.batches.list())}"
        fill(harness, name, Item("a"), then=Report(name))
        harness.crash(point)
        harness.drain()
        assert harness.app.batches.get(name).status == "succeeded"
        assert [task.payload for task in harness.app.tasks.list(kind="report")].count(Report(name)) == 1


def test_what_arrives_from_another_process_for_a_task_of_a_batch_belongs_to_it(start: Start) -> None:
    item = Pipeline(Item)
    sent: list[dict[str, str]] = []

    @item.stage
    def work(ctx: Context[Item]) -> None:
        if ctx.payload.name == "a":
            sent.append(outgoing_headers())
        if ctx.payload.end == "waits" and ctx.signal("go") is None:
            raise Waiting(until="go")

    harness = start(item, reports())
    [task] = fill(harness, "night", Item("a", "waits"), then=Report("night"))
    harness.drain()
    with incoming(sent[0]):
        harness.app.enqueue(Item("b", "waits"))
    assert harness.app.batches.get("night").open == 2
    harness.app.tasks.signal(task, "go")
    harness.drain()
    assert harness.app.batches.get("night").open == 1
    harness.app.tasks.cancel(harness.app.tasks.list(key="b")[0].id)
    assert harness.app.batches.get("night").status == "partial"


def test_a_batch_is_forgotten_with_its_last_task(start: Start) -> None:
    harness = start(items())
    tasks = fill(harness, "night", Item("a"), Item("b"))
    fill(harness, "open", Item("c", "waits"))
    fill(harness, "empty")
    harness.drain()
    harness.advance("2h")
    harness.app.tasks.retry(tasks[0])
    harness.drain()
    assert harness.app.tasks.prune("1h").batches == 1  # a task of the first has ended again just now
    assert [batch.name for batch in harness.app.batches.list()] == ["open", "night"]
    harness.advance("2h")
    assert harness.app.tasks.prune("1h").batches == 1
    assert [batch.name for batch in harness.app.batches.list()] == ["open"]
    fill(harness, "night")


# Reopening


def test_a_task_that_is_opened_again_in_an_open_batch_is_open_again(start: Start) -> None:
    harness = start(items(), reports())
    tasks = fill(harness, "night", Item("a", "failed"), Item("b", "waits"), then=Report("night"))
    harness.drain()
    assert counts(harness.app.batches.get("night")) == (0, 0, 0, 1, 0)
    harness.app.tasks.retry(tasks[0])
    batch = harness.app.batches.get("night")
    assert (batch.open, batch.total, counts(batch)) == (2, 2, (0, 0, 0, 0, 0))
    harness.app.tasks.retry(tasks[1])  # it was waiting: that was open before
    assert harness.app.batches.get("night").open == 2
    harness.app.tasks.signal(tasks[1], "go")
    harness.drain()
    assert harness.app.batches.get("night").status == "partial"
    assert len(followers(harness)) == 1


def test_a_task_that_is_opened_again_after_the_end_changes_nothing(start: Start) -> None:
    harness = start(items(), reports())
    tasks = fill(harness, "night", Item("a", "failed", ("child",)), then=Report("night"))
    harness.drain()
    ended = harness.app.batches.get("night")
    assert (ended.status, ended.total) == ("partial", 2)
    harness.app.tasks.retry(tasks[0], fresh=True)
    assert harness.app.batches.get("night") == ended
    harness.drain()
    assert harness.app.batches.get("night") == ended
    assert len(followers(harness)) == 1


# Limits


def test_max_tasks_counts_all_tasks_of_the_batch(start: Start) -> None:
    harness = start(items())
    fill(
        harness,
        "night",
        *(Item(f"{root}", children=tuple(f"{root}/{at}" for at in range(4))) for root in "abc"),
        limits=Limits(max_tasks=8),
    )
    harness.drain()
    assert harness.app.batches.get("night").total == 8
    refused = [
        word for task in harness.app.tasks.list(kind="item") for word in words(harness, task.id) if word == "refused"
    ]
    assert len(refused) == 3 * 4 - (8 - 3)


def test_a_batch_that_begins_with_more_than_its_limit_is_refused(start: Start) -> None:
    harness = start(items())
    with pytest.raises(ConfigError, match="batch 'night' would begin with 3 tasks, and its max_tasks is 2"):
        fill(harness, "night", Item("a"), Item("b"), Item("c"), limits=Limits(max_tasks=2))
    assert (harness.app.tasks.list(), harness.app.batches.list()) == ([], [])


def test_the_other_limits_hold_for_each_lineage_and_a_wide_batch_widens_none(start: Start) -> None:
    harness = start(items())
    fill(harness, "narrow", Item("a", children=("b", "c")), limits=Limits(max_children=1))
    fill(harness, "shallow", Item("d", children=("e",)), limits=Limits(max_depth=0, max_tasks=100))
    harness.drain()
    assert [harness.app.batches.get(name).total for name in ("narrow", "shallow")] == [2, 1]
    bounds = harness.app.config.bounds
    assert bounds.of_each(Limits(max_tasks=bounds.max_tasks + 1)) is None
    narrower = bounds.of_each(Limits(max_tasks=3, max_depth=1))
    assert narrower is not None
    assert (narrower.max_tasks, narrower.max_depth) == (3, 1)


# Deadlines


def test_at_its_deadline_a_batch_fails_with_its_open_tasks(start: Start) -> None:
    harness = start(items(), reports())
    tasks = fill(
        harness, "night", Item("a"), Item("b", "waits"), Item("c", "waits"), then=Report("night"), deadline="48h"
    )
    harness.drain()
    assert harness.app.batches.get("night").deadline == harness.task(tasks[0]).created_at + timedelta(hours=48)
    harness.advance("47h")
    harness.drain()
    assert harness.app.batches.get("night").open == 2
    harness.advance("1h")
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.reason, counts(batch)) == ("failed", "batch exceeded 48 h", (1, 0, 0, 2, 0))
    assert statuses(harness, tasks) == ["succeeded", "failed", "failed"]
    assert harness.task(tasks[1]).reason == "batch exceeded 48 h"
    assert words(harness, tasks[1]) == ["parked", "expired"]
    assert statuses(harness, followers(harness)) == ["succeeded"]
    harness.app.tasks.retry(tasks[1])  # the batch is over, the task is not
    harness.app.tasks.signal(tasks[1], "go")
    harness.advance("100h")
    harness.drain()
    assert harness.task(tasks[1]).status is Status.SUCCEEDED
    assert harness.app.batches.get("night") == batch


def test_a_batch_that_ends_in_time_never_fails(start: Start) -> None:
    harness = start(items(), reports())
    fill(harness, "night", Item("a"), then=Report("night"), deadline="1h")
    harness.drain()
    harness.advance("2h")
    harness.drain()
    assert harness.app.batches.get("night").status == "succeeded"
    assert len(followers(harness)) == 1


def test_work_that_is_due_after_the_deadline_never_runs(start: Start) -> None:
    harness = start(items())
    with harness.app.batch("night", deadline="90m") as batch:
        batch.add(Item("a"), after="2h")
    harness.drain()
    assert harness.task(batch.tasks[0]).reason == "batch exceeded 1h30m"
    assert words(harness, batch.tasks[0]) == ["expired"]


def test_a_join_and_its_children_end_with_their_batch_and_others_who_wait_are_woken(start: Start) -> None:
    parent = Pipeline(Report)

    @parent.stage
    def ask(ctx: Context[Report]) -> None:
        ctx.spawn(Item("shared", "waits"))

    @parent.stage(join=True)
    def gather(ctx: Context[Report]) -> str:
        [child] = ctx.children
        return f"{child.status}: {child.reason}"

    harness = start(parent, items(unique="everywhere"))
    mine = fill(harness, "night", Report("inside"), deadline="1h")[0]
    harness.drain()
    other = harness.enqueue(Report("outside"))  # linked to the child of the batch
    harness.drain()
    assert statuses(harness, [mine, other]) == ["waiting", "waiting"]
    harness.advance("1h")
    harness.drain()
    assert harness.task(mine).status is Status.FAILED
    assert harness.task(other).result(gather) == "failed: batch exceeded 1 h"
    assert harness.app.batches.get("night").failed == 2


def test_a_task_that_waits_for_a_task_outside_of_its_overdue_batch_waits_no_more(start: Start) -> None:
    parent = Pipeline(Report)

    @parent.stage
    def ask(ctx: Context[Report]) -> None:
        ctx.spawn(Item("shared", "waits"))

    @parent.stage(join=True)
    def gather(ctx: Context[Report]) -> str:
        return ctx.children[0].status

    harness = start(parent, items(unique="everywhere"))
    other = harness.enqueue(Item("shared", "waits"))
    [mine] = fill(harness, "night", Report("inside"), deadline="1h")
    harness.drain()
    assert harness.task(mine).waiting_for == "children"
    harness.advance("1h")
    harness.drain()
    assert statuses(harness, [mine, other]) == ["failed", "waiting"]
    assert_verified(harness.app)
    harness.app.tasks.retry(mine)
    harness.drain()
    harness.app.tasks.signal(other.id, "go")
    harness.drain()
    assert harness.task(mine).status is Status.SUCCEEDED


def test_a_running_task_of_an_overdue_batch_writes_nothing_any_more(start: Start) -> None:
    item = Pipeline(Item)

    @item.stage
    def work(ctx: Context[Item]) -> str:
        ctx.write(insert_note, ctx.task.id, "too late")
        ctx.spawn(Item("child"))
        harness.advance("1h")
        session = harness.app._store.session()
        expire_batches(session, harness.clock.now())
        session.close()
        return "done"

    harness = start(item, reports(), migrations=[NOTES])
    [task] = fill(harness, "night", Item("a"), then=Report("night"), deadline="1h")
    harness.drain()
    assert notes(harness.app) == []
    assert (harness.task(task).status, harness.task(task).results) == (Status.FAILED, {})
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.total) == ("failed", 1)
    assert len(followers(harness)) == 1


def test_many_tasks_fail_in_portions_and_the_batch_ends_with_the_last(start: Start) -> None:
    harness = start(items(), reports())
    fill(harness, "night", *(Item(str(n)) for n in range(1_100)), then=Report("night"), deadline="1h")
    harness.advance("1h")
    harness.drain()
    batch = harness.app.batches.get("night")
    assert (batch.status, batch.failed) == ("failed", 1_100)
    assert len(followers(harness)) == 1


# By hand


def new_task(payload: Payload, now: int) -> NewTask:
    return App("sqlite:///:memory:", [items(), reports()])._rooting.task(payload, now, EnqueueOptions())


DONE = Finish("work", None, Status.SUCCEEDED, None)


def open_by_hand(hands: Hands, *names: str, deadline_ms: int | None = None) -> list[Lease]:
    """A batch of items that a worker holds."""
    hands.kinds.add("item")
    new = NewBatch("night", new_task(Report("night"), hands.now), deadline_ms)
    tasks = [new_task(Item(name), hands.now) for name in names]
    hands.do(lambda: open_batch(new, tasks, hands.now))
    return hands.claim(hands.worker())


def meet(hands: Hands, first: Callable[[], Op[Any]], second: Callable[[], object]) -> None:
    """Have the second wait for a transaction of the first, which commits then."""
    hands.session.run(Query("begin"))
    drive(first(), hands.session)
    thread = threading.Thread(target=second)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive(), "the second waits for the first"
    hands.session.run(Query("commit"))
    thread.join(10)
    assert not thread.is_alive()


def test_two_who_end_the_last_two_tasks_at_the_same_moment_end_the_batch_once(clockwork: Clockwork) -> None:
    if clockwork.app.dialect == "sqlite":
        pytest.skip("SQLite has one writer: there the two cannot meet")
    hands, others = clockwork.hands(), clockwork.hands()
    first, second = open_by_hand(hands, "a", "b")
    meet(hands, lambda: commits.commit([Commit(first, DONE)], hands.now), lambda: others.commit(second, DONE))
    assert hands.sql("SELECT status, open, succeeded FROM onceward_batch") == [(1, 0, 2)]
    assert hands.sql("SELECT count(*) FROM onceward_task WHERE kind = 'report'") == [(1,)]


def test_an_end_and_a_cancel_at_the_same_moment_end_the_batch_once(clockwork: Clockwork) -> None:
    if clockwork.app.dialect == "sqlite":
        pytest.skip("SQLite has one writer: there the two cannot meet")
    hands, others = clockwork.hands(), clockwork.hands()
    first, second = open_by_hand(hands, "a", "b")
    meet(hands, lambda: task_actions.cancel(first.task, "not wanted", hands.now), lambda: others.commit(second, DONE))
    assert hands.sql("SELECT status, open, succeeded, cancelled FROM onceward_batch") == [(2, 0, 1, 1)]
    assert hands.sql("SELECT count(*) FROM onceward_task WHERE kind = 'report'") == [(1,)]


def test_two_who_open_the_same_batch_at_the_same_moment_make_one(clockwork: Clockwork) -> None:
    if clockwork.app.dialect == "sqlite":
        pytest.skip("SQLite has one writer: there the two cannot meet")
    hands, others = clockwork.hands(), clockwork.hands()
    refused: list[str] = []

    def open_it() -> Op[Any]:
        return open_batch(NewBatch("night"), [new_task(Item("a"), hands.now)], hands.now)

    def try_to() -> None:
        with pytest.raises(ConfigError) as error:
            others.do(open_it)
        refused.append(str(error.value))

    meet(hands, open_it, try_to)
    assert refused == ["there is a batch 'night' already; every batch has a name of its own"]
    assert hands.sql("SELECT count(*) FROM onceward_task") == [(1,)]


def test_a_task_that_a_transaction_holds_fails_at_the_next_look(clockwork: Clockwork) -> None:
    if clockwork.app.dialect == "sqlite":
        pytest.skip("SQLite has one writer: nobody is in the middle of anything")
    hands, sweeper = clockwork.hands(), clockwork.session()
    [lease] = open_by_hand(hands, "a", deadline_ms=10)
    hands.later(10)
    hands.session.run(Query("begin"))
    hands.sql("SELECT id FROM onceward_task WHERE id = ? FOR UPDATE", lease.task)
    assert expire_batches(sweeper, hands.now) == 0
    hands.session.run(Query("commit"))
    assert hands.sql("SELECT status, reason FROM onceward_batch") == [(0, None)]
    assert expire_batches(sweeper, hands.now) == 1
    assert expire_batches(sweeper, hands.now) == 0
    assert hands.commit(lease, DONE) is False
    assert hands.sql("SELECT status, open, failed FROM onceward_batch") == [(3, 0, 1)]


def test_a_batch_whose_last_task_ends_between_two_portions_has_failed(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "TASKS_AT_ONCE", 2)
    leases = open_by_hand(hands, "a", "b", "c", deadline_ms=10)
    [(batch,)] = hands.sql("SELECT id FROM onceward_batch")
    assert hands.do(lambda: expiry.expire_batch(batch, "batch exceeded 1 h", hands.now)).tasks == 2
    assert hands.sql("SELECT status, open, reason FROM onceward_batch") == [(0, 1, "batch exceeded 1 h")]
    assert [hands.commit(lease, DONE) for lease in leases] == [False, False, True]
    assert hands.sql("SELECT status, open, succeeded, failed FROM onceward_batch") == [(3, 0, 1, 2)]


def test_a_worker_looks_at_the_deadlines_of_batches(clockwork: Clockwork) -> None:
    hands = clockwork.hands()
    [lease] = open_by_hand(hands, "a", deadline_ms=60_000)
    keeper = Housekeeping(
        clockwork.session(),
        Config(),
        mine=lambda: [lease.worker],
        declared_dead=lambda dead: None,
        suspects_found=lambda: None,
        check_presence=False,
    )
    keeper.step()
    assert hands.sql("SELECT status FROM onceward_batch") == [(0,)]
    clockwork.clock.advance("1m")
    keeper.step()
    assert hands.sql("SELECT status, failed FROM onceward_batch") == [(3, 1)]
    assert hands.sql("SELECT count(*) FROM onceward_attempt WHERE event = ?", int(Event.EXPIRED)) == [(1,)]


# The rules alone


def test_how_a_batch_ends() -> None:
    assert outcome_of(BatchCounts(), is_overdue=False) is BatchOutcome.SUCCEEDED
    assert outcome_of(BatchCounts(skipped=1), is_overdue=False) is BatchOutcome.SUCCEEDED
    assert outcome_of(BatchCounts(skipped=1, cancelled=1), is_overdue=False) is BatchOutcome.PARTIAL
    assert outcome_of(BatchCounts(cancelled=1), is_overdue=False) is BatchOutcome.FAILED
    assert outcome_of(BatchCounts(succeeded=9), is_overdue=True) is BatchOutcome.FAILED


def test_a_deadline_is_said_in_hours_where_it_can_be() -> None:
    assert exceeded(48 * 3_600_000, "batch") == "batch exceeded 48 h"
    assert exceeded(90 * 60_000, "lineage") == "lineage exceeded 1h30m"
    assert exceeded(1_500) == "exceeded 1.5s"
