"""Waiting for children: no slot is held, nobody is forgotten, whatever becomes of them, and no circle ever waits."""

from __future__ import annotations

from typing import Any

import pytest

from onceward import Config, ConfigError, Context, Failed, Filtered, Payload, Pipeline, Retry, Skipped, Status, Waiting
from onceward.testing import Harness
from tests.store.conftest import Hands
from tests.worker.conftest import Start, words


class Order(Payload, kind="order"):
    items: list[str]


class Item(Payload, kind="item"):
    name: str

    def key(self) -> str:
        return self.name


def items(**options: Any) -> Pipeline[Item]:
    """Items that end in the way their name says."""
    made = Pipeline(Item, retry=Retry(retries=0), **options)

    @made.stage
    def handle(ctx: Context[Item]) -> dict[str, str]:
        match ctx.payload.name:
            case "failed":
                raise Failed("out of stock")
            case "filtered":
                raise Filtered("not for sale")
            case "skipped":
                raise Skipped("seen before")
            case "error":
                raise OSError("the line is cut")
            case "waiting":
                if ctx.signal("go") is None:
                    raise Waiting(until="go")
        return {"handled": ctx.payload.name}

    return made


def orders(said: list[Any]) -> Pipeline[Order]:
    """Orders that wait for all of their items."""
    made = Pipeline(Order)

    @made.stage
    def split(ctx: Context[Order]) -> int:
        return sum(bool(ctx.spawn(Item(name))) for name in ctx.payload.items)

    @made.stage(join=True)
    def gather(ctx: Context[Order]) -> dict[str, str]:
        said.append(len(ctx.children))
        return {name: ctx.outcome(Item(name)).status for name in ctx.payload.items}

    return made


def test_a_join_starts_when_every_child_has_ended_and_is_handed_how(start: Start) -> None:
    names = ["fine", "failed", "filtered", "skipped", "error"]
    said: list[Any] = []
    harness = start(orders(said), items())
    order = harness.enqueue(Order(names))
    harness.drain()
    assert harness.task(order).results["gather"] == {
        "fine": "succeeded", "failed": "failed", "filtered": "filtered", "skipped": "skipped", "error": "failed",
    }  # fmt: skip
    assert said == [5]
    assert words(harness, order) == ["handed over", "spawned", "parked", "woken", "finished"]


def test_while_it_waits_it_holds_no_slot_and_says_for_what(start: Start) -> None:
    harness = start(orders([]), items())
    order = harness.enqueue(Order(["fine", "waiting"]))
    harness.drain()
    task = harness.task(order)
    assert (task.status, task.waiting_for, task.stage) == (Status.WAITING, "children", "gather")
    [item] = [one for one in harness.app.tasks.list(kind="item") if one.status is Status.WAITING]
    harness.app.tasks.signal(item.id, "go")
    harness.drain()
    assert harness.task(order).results["gather"] == {"fine": "succeeded", "waiting": "succeeded"}


def test_what_a_task_waits_for_outlives_the_time_for_which_ended_tasks_are_kept(start: Start) -> None:
    said: list[Any] = []
    harness = start(orders(said), items(), config=Config(deadline="100d"))
    order = harness.enqueue(Order(["fine", "waiting"]))
    harness.drain()
    harness.advance("40d")
    assert harness.app.tasks.prune("30d").tasks == 0
    [item] = [one for one in harness.app.tasks.list(kind="item") if one.status is Status.WAITING]
    harness.app.tasks.signal(item.id, "go")
    harness.drain()
    assert harness.task(order).results["gather"] == {"fine": "succeeded", "waiting": "succeeded"}
    assert said == [2]

    assert harness.app.tasks.prune("30d").tasks == 0, "the order may be opened again, and asks for all of them"
    harness.advance("40d")
    assert harness.app.tasks.prune("30d").tasks == 3


def test_so_does_what_it_was_linked_to(start: Start) -> None:
    harness = start(orders([]), items(unique="everywhere"), config=Config(deadline="100d"))
    item = harness.enqueue(Item("waiting"))
    order = harness.enqueue(Order(["waiting"]))
    harness.drain()
    harness.app.workers.pause(pipeline="order")
    harness.app.tasks.signal(item.id, "go")
    harness.drain()
    harness.advance("40d")
    assert harness.app.tasks.prune("30d").tasks == 0
    harness.app.workers.resume(pipeline="order")
    harness.drain()
    assert harness.task(order).results["gather"] == {"waiting": "succeeded"}


def test_a_child_that_is_cancelled_counts_as_ended(start: Start) -> None:
    harness = start(orders([]), items())
    order = harness.enqueue(Order(["waiting"]))
    harness.drain()
    [item] = harness.app.tasks.list(kind="item")
    harness.app.tasks.cancel(item.id)
    harness.drain()
    assert harness.task(order).results["gather"] == {"waiting": "cancelled"}


def test_a_join_without_children_passes_at_once(start: Start) -> None:
    harness = start(orders([]), items())
    order = harness.enqueue(Order([]))
    harness.drain()
    assert harness.task(order).results["gather"] == {}
    assert words(harness, order) == ["handed over", "finished"]


def test_results_of_children_are_read_as_types_and_only_where_there_are_any(start: Start) -> None:
    said: list[Any] = []
    made = Pipeline(Order)

    @made.stage
    def split(ctx: Context[Order]) -> None:
        for name in ctx.payload.items:
            ctx.spawn(Item(name))

    @made.stage(join=True)
    async def gather(ctx: Context[Order]) -> None:
        fine, failed = ctx.outcome(Item("fine")), ctx.outcome(Item("failed"))
        said.append(fine.result(dict[str, str]))
        said.append(failed.reason)
        with pytest.raises(ConfigError, match="it is failed"):
            failed.result()
        with pytest.raises(ConfigError, match="no earlier stage"):
            ctx.outcome(Item("never asked for"))

    harness = start(made, items())
    harness.enqueue(Order(["fine", "failed"]))
    harness.drain()
    assert said == [{"handled": "fine"}, "out of stock"]


def test_a_refused_child_has_an_outcome_too(start: Start) -> None:
    said: list[Any] = []
    made = Pipeline(Order)

    @made.stage
    def split(ctx: Context[Order]) -> None:
        ctx.spawn(Order(ctx.payload.items))

    @made.stage
    def look(ctx: Context[Order]) -> None:
        refused = ctx.outcome(Order(ctx.payload.items))
        said.extend([refused.status, refused.rule, refused.has_ended, ctx.children])

    harness = start(made)
    harness.enqueue(Order(["x"]))
    harness.drain()
    assert said == ["refused", "cycle", True, []]


def test_a_parent_waits_for_the_task_that_a_duplicate_was_folded_into(start: Start) -> None:
    class Part(Payload, kind="part"):
        name: str

    parts = Pipeline(Part)

    @parts.stage
    def split(ctx: Context[Part]) -> None:
        ctx.spawn(Item("waiting"))

    @parts.stage(join=True)
    def gather(ctx: Context[Part]) -> list[str]:
        return [child.status for child in ctx.children]

    made = Pipeline(Order)

    @made.stage
    def divide(ctx: Context[Order]) -> None:
        for name in ctx.payload.items:
            ctx.spawn(Part(name))

    harness = start(made, parts, items())
    harness.enqueue(Order(["left", "right"]))
    harness.drain()
    assert [task.waiting_for for task in harness.app.tasks.list(kind="part")] == ["children"] * 2
    [item] = harness.app.tasks.list(kind="item")
    harness.app.tasks.signal(item.id, "go")
    harness.drain()
    assert [task.results["gather"] for one in harness.app.tasks.list(kind="part") if (task := harness.task(one))] == [
        ["succeeded"],
        ["succeeded"],
    ]


def test_a_wait_that_would_close_a_circle_is_refused(start: Start) -> None:
    """Two roots that each want the other's work, everywhere unique: one waits, the other goes on."""

    class Node(Payload, kind="node"):
        name: str
        wants: str = ""

        def key(self) -> str:
            return self.name

    nodes = Pipeline(Node, unique="everywhere")

    @nodes.stage
    def want(ctx: Context[Node]) -> None:
        if ctx.payload.wants:
            ctx.spawn(Node(ctx.payload.wants))

    @nodes.stage(join=True)
    def go_on(ctx: Context[Node]) -> str:
        return ctx.outcome(Node(ctx.payload.wants)).status if ctx.payload.wants else "nothing wanted"

    harness = start(nodes)
    tasks = harness.app.enqueue_many([Node("a", "b"), Node("b", "a")])
    harness.drain()
    assert [harness.task(task).status for task in tasks] == [Status.SUCCEEDED] * 2
    assert sorted(harness.task(task).results["go_on"] for task in tasks) == ["refused", "succeeded"]


def test_a_join_that_fails_is_retried_without_waiting_again(start: Start) -> None:
    tries: list[int] = []
    made = Pipeline(Order)

    @made.stage
    def split(ctx: Context[Order]) -> None:
        ctx.spawn(Item("fine"))

    @made.stage(join=True)
    def gather(ctx: Context[Order]) -> None:
        tries.append(len(ctx.children))
        if len(tries) < 3:
            raise OSError("the line is cut")

    harness = start(made, items())
    harness.enqueue(Order([]))
    harness.drain()
    assert tries == [1, 1, 1]


def test_a_parent_that_is_opened_again_does_not_wait_twice(start: Start) -> None:
    harness = start(orders([]), items())
    order = harness.enqueue(Order(["waiting"]))
    harness.drain()
    harness.app.tasks.retry(order.id)
    harness.drain()
    assert harness.task(order).status is Status.SUCCEEDED
    assert harness.task(order).results["gather"] == {"waiting": "waiting"}
    [item] = harness.app.tasks.list(kind="item")
    harness.app.tasks.signal(item.id, "go")
    harness.drain()
    assert words(harness, order).count("woken") == 0


@pytest.mark.parametrize("stage", [None, "gather"])
def test_a_parent_that_was_cancelled_while_it_waited_waits_again(start: Start, stage: str | None) -> None:
    harness = start(orders([]), items())
    order = harness.enqueue(Order(["waiting", "fine"])).id
    harness.drain()
    for _ in range(2):
        harness.app.tasks.cancel(order)
        harness.app.tasks.retry(order, stage=stage)
        harness.drain()
        assert harness.task(order).status is Status.WAITING
    harness.app.tasks.signal(one_that_waits(harness), "go")
    harness.drain()
    assert harness.task(order).results["gather"] == {"waiting": "succeeded", "fine": "succeeded"}
    assert words(harness, order).count("woken") == 1


def test_a_parent_that_was_cancelled_and_whose_children_have_ended_goes_on(start: Start) -> None:
    harness = start(orders([]), items())
    order = harness.enqueue(Order(["waiting"])).id
    harness.drain()
    harness.app.tasks.cancel(order)
    harness.app.tasks.signal(one_that_waits(harness), "go")
    harness.drain()
    harness.app.tasks.retry(order)
    harness.drain()
    assert harness.task(order).results["gather"] == {"waiting": "succeeded"}


def test_a_parent_that_an_operator_let_go_on_does_not_wait_again(start: Start) -> None:
    harness = start(orders([]), items())
    order = harness.enqueue(Order(["waiting"])).id
    harness.drain()
    harness.app.tasks.retry(order)  # while it waits: it need not any more
    harness.app.tasks.cancel(order)
    harness.app.tasks.retry(order)
    harness.drain()
    assert harness.task(order).results["gather"] == {"waiting": "waiting"}


def one_that_waits(harness: Harness) -> int:
    """The item that waits for its signal."""
    return next(task.id for task in harness.app.tasks.list(kind="item") if task.key == "waiting")


def test_a_child_that_is_quarantined_wakes_its_parent(start: Start) -> None:
    harness = start(orders([]), items())
    order = harness.enqueue(Order(["waiting"]))
    harness.drain()
    [item] = harness.app.tasks.list(kind="item")
    session = harness.app._store.session()
    hands = Hands(session)
    hands.kinds = {"item", "order"}
    hands.now = harness.clock.now()
    harness.app.tasks.signal(item.id, "go")
    for number in range(3):
        worker = hands.worker(f"unlucky {number}")
        leases = hands.claim(worker)
        assert [lease.task for lease in leases] == [item.id]
        hands.bury(worker, frozenset([item.id]))
    assert harness.task(item).status is Status.FAILED
    session.close()
    harness.drain()
    assert harness.task(order).results["gather"] == {"waiting": "failed"}
