"""What an operator does to a lineage or a part of it: cancel, retry, pause, resume, raise limits."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from onceward import (
    App,
    Config,
    ConfigError,
    Connection,
    Context,
    Failed,
    IllegalTransition,
    Limits,
    Payload,
    Pipeline,
    Retryable,
    Status,
    TaskNotFound,
    Waiting,
)
from onceward.baggage import incoming
from onceward.errors import LineageNotFound
from onceward.store.attempts import claims
from onceward.store.lineage import pause_lineage, trees
from onceward.store.lines.memory import LineMemory
from onceward.testing import Harness
from tests.store.conftest import Hands
from tests.worker.conftest import Start, assert_verified, words


class Node(Payload, kind="node"):
    """A task that spawns by its name: "a" spawns "aa", "ab", … as many as its width says, down to a depth."""

    name: str
    width: int = 2
    depth: int = 2

    def key(self) -> str:
        return self.name


def tree_pipeline(broken: set[str] | None = None, ran: list[str] | None = None) -> Pipeline[Node]:
    """Nodes that spawn in their first stage, and fail in their second as long as their name is in `broken`."""
    node = Pipeline(Node)

    @node.stage
    def grow(ctx: Context[Node]) -> None:
        if ran is not None:
            ran.append(ctx.payload.name)
        if len(ctx.payload.name) <= ctx.payload.depth:
            for letter in "abcdefghij"[: ctx.payload.width]:
                ctx.spawn(Node(ctx.payload.name + letter, ctx.payload.width, ctx.payload.depth))

    @node.stage
    def bloom(ctx: Context[Node]) -> str:
        if ctx.payload.name in (broken or ()):
            raise Failed("it does not bloom")
        return ctx.payload.name.upper()

    return node


def by_key(harness: Harness, task: Any) -> dict[str, Any]:
    """The tasks of a lineage, by their keys."""
    return {branch.key: branch for branch in harness.app.lineages.get(task.id).walk()}


def statuses_of(harness: Harness, task: Any) -> dict[str, str]:
    return {key: branch.status.word for key, branch in by_key(harness, task).items()}


# Cancel


def slow_tree() -> Pipeline[Node]:
    """Nodes whose children are due tomorrow."""
    node = Pipeline(Node)

    @node.stage
    def grow(ctx: Context[Node]) -> None:
        if len(ctx.payload.name) <= ctx.payload.depth:
            for letter in "ab":
                ctx.spawn(Node(ctx.payload.name + letter), after="1d" if ctx.payload.name == "rb" else None)

    return node


def test_cancelling_a_lineage_cancels_all_that_is_open(start: Start) -> None:
    harness = start(slow_tree())
    root = harness.enqueue(Node("r"))
    harness.drain(wait_for_due=False)
    open_ones = [branch.id for branch in harness.app.lineages.get(root.id).walk() if not branch.status.is_terminal]
    assert len(open_ones) == 2

    cancelled = harness.app.lineages.cancel(root.id, "enough")

    assert cancelled == open_ones
    assert statuses_of(harness, root) == {
        "r": "succeeded", "ra": "succeeded", "raa": "succeeded", "rab": "succeeded", "rb": "succeeded",
        "rba": "cancelled", "rbb": "cancelled",
    }  # fmt: skip
    assert harness.task(open_ones[0]).reason == "enough"
    assert words(harness, open_ones[0]) == ["cancelled"]
    assert harness.app.lineages.cancel(root.id) == []


def test_cancelling_a_part_leaves_the_rest_alone_and_wakes_who_joins_it(start: Start) -> None:
    node = Pipeline(Node)

    @node.stage
    def grow(ctx: Context[Node]) -> None:
        if len(ctx.payload.name) < 3:
            for letter in "ab":
                ctx.spawn(Node(ctx.payload.name + letter), after="1d" if len(ctx.payload.name) == 2 else None)

    @node.stage(join=True)
    def count(ctx: Context[Node]) -> list[str]:
        return sorted(child.status for child in ctx.children)

    harness = start(node)
    root = harness.enqueue(Node("r"))
    harness.drain(wait_for_due=False)
    family = by_key(harness, root)
    assert [family[key].status.word for key in ("r", "ra", "rb")] == ["waiting"] * 3

    cancelled = harness.app.lineages.cancel(family["ra"].id)

    assert cancelled == [family[key].id for key in ("ra", "raa", "rab")]
    harness.drain()
    assert statuses_of(harness, root) == {
        "r": "succeeded", "ra": "cancelled", "raa": "cancelled", "rab": "cancelled", "rb": "succeeded",
        "rba": "succeeded", "rbb": "succeeded",
    }  # fmt: skip
    assert harness.task(root).results["count"] == ["cancelled", "succeeded"]


def test_a_lineage_that_is_not_there_is_said_to_be_so(start: Start) -> None:
    app = start(tree_pipeline()).app
    with pytest.raises(TaskNotFound):
        app.lineages.cancel(4711)
    with pytest.raises(LineageNotFound):
        app.lineages.pause(uuid.UUID(int=7))
    with pytest.raises(ConfigError, match="neither the number of a task nor the id of a lineage"):
        app.lineages.retry("apples")


# Retry


def test_all_failed_tasks_of_a_part_are_retried(start: Start) -> None:
    broken = {"ra", "raa", "rbb"}
    harness = start(tree_pipeline(broken))
    root = harness.enqueue(Node("r"))
    harness.drain()
    family = by_key(harness, root)
    broken.clear()

    assert harness.app.lineages.retry(family["ra"].id) == (sorted([family["ra"].id, family["raa"].id]), {})
    harness.drain()

    assert {key for key, word in statuses_of(harness, root).items() if word == "failed"} == {"rbb"}
    assert harness.app.lineages.retry(str(harness.app.lineages.get(root.id).id)).tasks == [family["rbb"].id]
    harness.drain()
    assert set(statuses_of(harness, root).values()) == {"succeeded"}


def test_one_that_cannot_be_retried_does_not_keep_the_others_from_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceward.operations.lineages.RETRIED_AT_ONCE", 2)  # more than one transaction
    broken = {"r", "ra", "rb", "rc"}
    node = Pipeline(Node, unique="everywhere")

    @node.stage
    def grow(ctx: Context[Node]) -> None:
        if ctx.payload.name == "r":
            for letter in "abc":
                ctx.spawn(Node("r" + letter))

    @node.stage
    def bloom(ctx: Context[Node]) -> None:
        if ctx.payload.name in broken:
            raise Failed("it does not bloom")

    harness = start(node)
    root = harness.enqueue(Node("r"))
    harness.drain()
    family = by_key(harness, root)
    again = harness.enqueue(Node("rb"))  # somebody else is at that work now
    broken.clear()

    retried = harness.app.lineages.retry(root.id)

    assert retried.tasks == [root.id, family["ra"].id, family["rc"].id]
    taken = f"task {family['rb'].id} cannot be opened again: task {again.id} is at the same work now"
    assert retried.refused == {family["rb"].id: taken}
    harness.drain()
    assert statuses_of(harness, root) == {"r": "succeeded", "ra": "succeeded", "rb": "failed", "rc": "succeeded"}


# Pause and resume


def test_nothing_of_a_paused_lineage_runs_before_it_is_resumed(start: Start) -> None:
    ran: list[str] = []
    harness = start(tree_pipeline(ran=ran))
    root = harness.enqueue(Node("r"))
    other = harness.enqueue(Node("other", depth=0))

    assert harness.app.lineages.pause(root.id) == 1
    harness.drain()
    assert ran == ["other"]
    assert harness.task(other).status is Status.SUCCEEDED
    assert harness.task(root).status is Status.PENDING
    assert harness.app.lineages.get(root.id).is_paused

    assert harness.app.lineages.resume(root.id) == 1
    harness.drain()
    assert set(statuses_of(harness, root).values()) == {"succeeded"}
    assert not harness.app.lineages.get(root.id).is_paused
    assert words(harness, root)[:2] == ["paused", "resumed"]


def test_a_running_stage_ends_in_good_order_and_the_task_goes_no_further(start: Start) -> None:
    ran: list[str] = []
    node = Pipeline(Node)

    @node.stage
    def first(ctx: Context[Node]) -> str:
        ran.append(f"first {ctx.payload.name}")
        if ctx.payload.name == "r":
            ctx.spawn(Node("child"))
            harness.app.lineages.pause(ctx.task.id)
        return "kept"

    @node.stage
    def second(ctx: Context[Node]) -> str:
        ran.append(f"second {ctx.payload.name}")
        return ctx.result(first)

    harness = start(node)
    root = harness.enqueue(Node("r"))
    harness.drain()

    assert ran == ["first r"]
    assert harness.task(root).results == {"first": "kept"}
    assert statuses_of(harness, root) == {"r": "pending", "child": "pending"}
    assert harness.app.lineages.get(root.id).paused == 2

    harness.app.lineages.resume(root.id)
    harness.drain()
    assert sorted(ran) == ["first child", "first r", "second child", "second r"]
    assert set(statuses_of(harness, root).values()) == {"succeeded"}


@pytest.mark.parametrize("way", ["retry", "poll", "signal", "join", "queue", "write"])
def test_whatever_brings_a_task_back_does_not_run_it_while_it_is_paused(start: Start, way: str) -> None:
    ran: list[str] = []
    node = Pipeline(Node)

    @node.stage
    def first(ctx: Context[Node]) -> str:
        if ctx.payload.name != "r":
            return "a child"
        ran.append("first")
        if len(ran) == 1:
            if way == "join":
                ctx.spawn(Node("child"))
            harness.app.lineages.pause(ctx.task.id)
            if way == "retry":
                raise Retryable("not yet", after="1m")
            if way == "poll":
                raise Waiting(after="1m")
            if way == "signal":
                raise Waiting(until="approved", after="1h")
            if way == "write":
                ctx.write(lambda connection: connection.execute("SELECT 1"))  # type: ignore[arg-type]
        return "done"

    @node.stage(join=way == "join", queue="elsewhere" if way == "queue" else None)
    def second(ctx: Context[Node]) -> None:
        if ctx.payload.name == "r":
            ran.append("second")

    harness = start(node)
    root = harness.enqueue(Node("r"))
    harness.drain()
    if way == "signal":
        harness.app.tasks.signal(root.id, "approved")
        harness.drain()
    harness.advance("1h")
    harness.drain()
    assert ran == ["first"]

    harness.app.lineages.resume(root.id)
    harness.drain()
    assert harness.task(root).status is Status.SUCCEEDED
    again = {"retry": 2, "poll": 2, "signal": 2}.get(way, 1)
    assert ran == ["first"] * again + ["second"]


def test_a_part_is_paused_while_the_rest_goes_on(start: Start) -> None:
    ran: list[str] = []
    node = Pipeline(Node)

    @node.stage
    def grow(ctx: Context[Node]) -> None:
        ran.append(ctx.payload.name)
        if ctx.payload.name == "r":
            for letter in "ab":
                ctx.spawn(Node("r" + letter), after="1m")
        elif len(ctx.payload.name) < 3:
            ctx.spawn(Node(ctx.payload.name + "a"))

    harness = start(node)
    root = harness.enqueue(Node("r"))
    harness.drain(wait_for_due=False)
    family = by_key(harness, root)
    harness.app.lineages.pause(family["ra"].id)
    harness.drain()
    assert ran == ["r", "rb", "rba"]
    assert harness.app.why(family["ra"].id).cause == "paused"

    with pytest.raises(IllegalTransition, match="paused already"):
        harness.app.lineages.pause(family["ra"].id)
    harness.app.lineages.pause(root.id)  # the rest of it too
    with pytest.raises(IllegalTransition, match=rf"because task {root.id} is: resume that"):
        harness.app.lineages.resume(family["ra"].id)
    assert harness.app.lineages.resume(root.id) == 1
    harness.drain()
    assert ran == ["r", "rb", "rba", "ra", "raa"]


def test_a_task_that_is_retried_in_a_paused_part_stays_paused(start: Start) -> None:
    broken = {"raa"}
    harness = start(tree_pipeline(broken))
    root = harness.enqueue(Node("r"))
    harness.drain()
    family = by_key(harness, root)
    with pytest.raises(IllegalTransition, match="nothing to pause"):
        harness.app.lineages.pause(root.id)
    harness.app.tasks.retry(family["rb"].id)
    harness.app.lineages.pause(root.id)
    broken.clear()

    harness.app.tasks.retry(family["raa"].id)
    harness.drain()
    assert statuses_of(harness, root)["raa"] == "pending"
    assert harness.app.why(family["raa"].id).paused_by == root.id

    assert harness.app.lineages.resume(root.id) == 2
    harness.drain()
    assert set(statuses_of(harness, root).values()) == {"succeeded"}
    with pytest.raises(IllegalTransition, match="not paused"):
        harness.app.lineages.resume(root.id)


def test_what_arrives_from_afar_for_a_task_of_a_paused_lineage_is_paused(start: Start) -> None:
    """Also if that task has ended, and so does not carry the mark itself."""
    ran: list[str] = []
    harness = start(tree_pipeline(ran=ran))
    root = harness.enqueue(Node("r", depth=1))
    harness.drain()
    family = by_key(harness, root)
    harness.app.tasks.retry(family["rb"].id)
    harness.app.lineages.pause(root.id)
    assert not by_key(harness, root)["ra"].is_paused
    lineage = harness.app.lineages.get(root.id).id
    with incoming({"baggage": f"onceward.lineage={lineage},onceward.task={family['ra'].id},onceward.depth=1"}):
        late = harness.enqueue(Node("late", depth=0))
    harness.drain()
    assert "late" not in ran
    assert harness.app.why(late.id).paused_by == root.id
    harness.app.lineages.resume(root.id)
    harness.drain()
    assert harness.task(late).status is Status.SUCCEEDED


def test_a_paused_lineage_can_be_cancelled_and_keeps_no_worker_from_ending(start: Start) -> None:
    harness = start(tree_pipeline())
    root = harness.enqueue(Node("r"))
    harness.app.lineages.pause(root.id)
    assert harness.app.stats.backlog().ready_tasks == 0
    assert harness.app.lineages.cancel(root.id) == [root.id]
    harness.drain()
    assert harness.task(root).status is Status.CANCELLED


@pytest.mark.timeout(60)
def test_a_worker_that_runs_until_nothing_is_left_does_not_wait_for_what_is_paused(store_url: str) -> None:
    ran: list[str] = []
    with App(store_url, [tree_pipeline(ran=ran)]) as app:
        ready, later = app.enqueue(Node("ready", depth=0)), app.enqueue(Node("later", depth=0), after="1h")
        app.lineages.pause(ready.id)
        app.lineages.pause(later.id)
        app.run(until_idle=True)
        assert ran == []
        app.lineages.resume(ready.id)
        app.run(until_idle=True)
        assert ran == ["ready"]
        assert_verified(app)


def test_a_suspect_is_one_still_after_a_pause(hands: Hands) -> None:
    [task] = hands.enqueue()
    worker = hands.worker()
    hands.claim(worker)
    hands.bury(worker, frozenset({task}))
    head = hands.do(lambda: trees.head_of(task))
    hands.do(lambda: pause_lineage.pause(head, hands.now))

    def suspects() -> list[int]:
        memory = LineMemory(("!default:note",), sweeps=hands.session.dialect == "postgres")
        ant = hands.worker("ant")
        return [one.task for one in hands.do(lambda: claims.claim_suspects(memory, ant, hands.now)).leases]

    assert suspects() == []
    hands.do(lambda: pause_lineage.resume(head, hands.now))
    assert [tuple(row) for row in hands.sql("SELECT lane, rank FROM onceward_ready")] == [("!default:note", 1)]
    assert suspects() == [task]


class Held:
    """A stage whose commit is held open, in a transaction, until it is let go."""

    def __init__(self) -> None:
        self.inside, self.let_go = threading.Event(), threading.Event()

    def hold(self, connection: Connection) -> None:
        self.inside.set()
        assert self.let_go.wait(20)

    def meanwhile(self, harness: Harness, url: str, act: Callable[[App], object]) -> object:
        """Work, do something else while the commit is held open, and let it go when that waits for it."""
        done: list[object] = []
        with harness.app.on(url, clock=harness.clock) as other:
            draining = threading.Thread(target=lambda: harness.drain(wait_for_due=False))
            acting = threading.Thread(target=lambda: done.append(act(other)))
            draining.start()
            assert self.inside.wait(20)
            acting.start()
            if url.startswith("postgres"):
                wait_for_a_lock(url)
            self.let_go.set()
            acting.join(20)
            draining.join(20)
        return done[0]


@pytest.mark.parametrize("is_pause", [True, False], ids=["pausing", "resuming"])
def test_children_that_come_to_be_meanwhile_are_paused_or_resumed_too(
    start: Start, store_url: str, is_pause: bool
) -> None:
    """Who pauses or resumes waits for a parent that is just committing, and then sees the children it has made."""
    node = Pipeline(Node)
    held = Held()
    ran: list[str] = []

    @node.stage
    def grow(ctx: Context[Node]) -> None:
        ran.append(ctx.payload.name)
        if ctx.payload.name == "r":
            ctx.spawn(Node("rc"))
        if ctx.payload.name == "rc":
            ctx.spawn(Node("rcc"), after="1m")
            if not is_pause:
                harness.app.lineages.pause(root.id)
            ctx.write(held.hold)

    harness = start(node)
    root = harness.enqueue(Node("r"))
    if is_pause:
        assert held.meanwhile(harness, store_url, lambda app: app.lineages.pause(root.id)) == 1
        harness.drain()
        assert ran == ["r", "rc"]
        harness.app.lineages.resume(root.id)
    else:
        assert held.meanwhile(harness, store_url, lambda app: app.lineages.resume(root.id)) == 1
    harness.drain()
    assert ran == ["r", "rc", "rcc"]
    assert harness.app.lineages.get(root.id).paused == 0


def test_children_that_come_to_be_meanwhile_are_cancelled_too(start: Start, store_url: str) -> None:
    node = Pipeline(Node)
    held = Held()
    ran: list[str] = []

    @node.stage
    def grow(ctx: Context[Node]) -> None:
        ran.append(ctx.payload.name)
        if ctx.payload.name == "r":
            ctx.spawn(Node("child"), after="1m")
            ctx.write(held.hold)

    @node.stage
    def bloom(ctx: Context[Node]) -> None: ...

    harness = start(node)
    root = harness.enqueue(Node("r"))
    held.meanwhile(harness, store_url, lambda app: app.lineages.cancel(root.id))
    harness.drain()
    assert ran == ["r"]
    assert statuses_of(harness, root)["child"] == "cancelled"


def test_children_that_come_to_be_meanwhile_get_the_new_limits(start: Start, store_url: str) -> None:
    node = Pipeline(Node)
    held = Held()

    @node.stage
    def grow(ctx: Context[Node]) -> None:
        ctx.spawn(Node(ctx.payload.name + "x"), after="1m")
        if ctx.payload.name == "r":
            ctx.write(held.hold)

    harness = start(node)
    root = harness.enqueue(Node("r"), limits=Limits(max_depth=1))
    held.meanwhile(harness, store_url, lambda app: app.lineages.raise_limits(root.id, Limits(max_depth=3)))
    harness.drain()
    assert harness.app.lineages.get(root.id).deepest == 3


def wait_for_a_lock(url: str) -> None:
    """Until somebody waits for somebody else in the database."""
    until = time.monotonic() + 20
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        while not connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall():
            assert time.monotonic() < until


# Limits


def chain() -> Pipeline[Node]:
    """A task that spawns one child after the other, as long as it is let."""
    node = Pipeline(Node)

    @node.stage
    def grow(ctx: Context[Node]) -> bool:
        return bool(ctx.spawn(Node(ctx.payload.name + "x")))

    return node


def test_an_operator_raises_the_limits_of_a_lineage(start: Start) -> None:
    harness = start(chain())
    root = harness.enqueue(Node("r"), limits=Limits(max_depth=2, max_tasks=50))
    harness.drain()
    assert harness.app.lineages.get(root.id).deepest == 2

    now_has = harness.app.lineages.raise_limits(root.id, Limits(max_depth=4))
    assert (now_has.max_depth, now_has.max_tasks) == (4, 50)
    last = max(branch.id for branch in harness.app.lineages.get(root.id).walk())
    harness.app.tasks.retry(last, fresh=True)
    harness.drain()

    lineage = harness.app.lineages.get(root.id)
    assert (lineage.deepest, lineage.max_depth) == (4, 4)
    assert harness.task(root).history[-1].event.word == "limits raised"
    assert harness.task(root).history[-1].note == "max_depth 2 → 4"


def test_max_tasks_and_the_deadline_can_be_raised_and_nothing_lowered(start: Start) -> None:
    harness = start(chain())
    root = harness.enqueue(Node("r"), limits=Limits(max_tasks=2, deadline="1h"))
    harness.drain()
    harness.advance("2h")
    harness.app.lineages.raise_limits(root.id, Limits(max_tasks=4, deadline="3h"))
    last = max(branch.id for branch in harness.app.lineages.get(root.id).walk())
    harness.app.tasks.retry(last, fresh=True)
    harness.drain()
    lineage = harness.app.lineages.get(root.id)
    assert (lineage.tasks, lineage.tasks_counted, lineage.max_tasks) == (4, 4, 4)
    with pytest.raises(ConfigError, match="raised here, not lowered: max_tasks is 4"):
        harness.app.lineages.raise_limits(root.id, Limits(max_tasks=3))


def test_limits_can_be_raised_before_a_root_has_spawned(start: Start) -> None:
    harness = start(chain())
    root = harness.enqueue(Node("r"))
    harness.app.lineages.raise_limits(root.id, Limits(max_depth=12))
    harness.drain()
    assert harness.app.lineages.get(root.id).deepest == 12


def test_a_root_that_has_not_run_knows_its_raised_limits_at_once(start: Start) -> None:
    node = Pipeline(Node)

    @node.stage
    def grow(ctx: Context[Node]) -> bool:
        return bool(ctx.spawn(Node(ctx.payload.name + "x")))

    @node.stage
    def bloom(ctx: Context[Node]) -> None: ...

    harness = start(node, config=Config(max_depth=0))
    root = harness.enqueue(Node("r"))
    harness.app.lineages.raise_limits(root.id, Limits(max_depth=1))
    harness.drain()
    family = by_key(harness, root)
    assert set(family) == {"r", "rx"}
    assert harness.task(root).results["grow"] is True
    assert harness.task(family["rx"].id).results["grow"] is False


def test_limits_that_a_task_has_narrowed_stay_narrow(start: Start) -> None:
    node = Pipeline(Node)

    @node.stage
    def grow(ctx: Context[Node]) -> None:
        narrow = Limits(max_depth=2, max_tasks=2) if ctx.payload.name == "r" else None
        ctx.spawn(Node(ctx.payload.name + "n"), limits=narrow)
        if ctx.payload.name == "r":
            ctx.spawn(Node("rw"))

    harness = start(node)
    root = harness.enqueue(Node("r"), limits=Limits(max_depth=4))
    harness.drain()
    assert set(by_key(harness, root)) == {"r", "rn", "rnn", "rw", "rwn", "rwnn", "rwnnn"}
    harness.app.lineages.raise_limits(root.id, Limits(max_depth=5))
    harness.app.tasks.retry(by_key(harness, root)["rwnnn"].id, fresh=True)
    harness.app.tasks.retry(by_key(harness, root)["rnn"].id, fresh=True)
    harness.drain()
    assert "rwnnnn" in by_key(harness, root)
    assert "rnnn" not in by_key(harness, root)

    narrow = by_key(harness, root)["rn"].id
    with pytest.raises(ConfigError, match="raise that first"):
        harness.app.lineages.raise_limits(narrow, Limits(max_depth=9))
    harness.app.lineages.raise_limits(narrow, Limits(max_depth=3, max_tasks=3))
    harness.app.tasks.retry(by_key(harness, root)["rnn"].id, fresh=True)
    harness.drain()
    assert "rnnn" in by_key(harness, root)
    assert "rnnnn" not in by_key(harness, root)
