"""Pairs of transactions that meet: what is there before, who does what, and what must be true whoever was faster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from onceward import App, Budget, Context, Cron, Event, IllegalTransition, Limits, Payload, Pipeline, Status
from onceward.model.budget import Bill, BudgetRule, Charge
from onceward.model.decide import code_wait
from onceward.model.enqueue_options import NO_OPTIONS
from onceward.model.gates import SourceReport
from onceward.model.lineage import EVERYWHERE, Bounds, Spawn, StageBatch
from onceward.model.payload import identity
from onceward.model.source import GateLimits
from onceward.model.task import NEVER, Advance, Commit, Finish, Lease, Move, NewTask, Park, band_of
from onceward.store.attempts import claims, commits, workers
from onceward.store.attempts.expiry import expire_lineages
from onceward.store.drivers.session import Session
from onceward.store.governance.budget_waits import declare, set_limit, sweep_budgets
from onceward.store.governance.sources import disable
from onceward.store.lineage.raise_limits import raise_limits
from onceward.store.lineage.trees import head_of
from onceward.store.lineage.unique_roots import enqueue_root
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Op
from onceward.store.operations import task_actions
from onceward.store.operations.pruning import prune_gates, prune_tasks, sweep_slots
from onceward.testing import FakeClock
from onceward.worker.scheduler import fire_due
from tests.isolation.tester import Work
from tests.store.children import DEFAULTS, child, joining, known_as, together
from tests.store.conftest import NOON, Hands

DONE = Finish("only", b"1", Status.SUCCEEDED, None)
ON = Advance("first", b"1", "second")
CENT = 10**7
FINISHED = int(Event.FINISHED)


@dataclass(frozen=True)
class Scene:
    """Who meets, and what must be true afterwards."""

    works: Mapping[str, Work]
    judge: Callable[[Mapping[str, Any], Hands], str]
    """Is given what each has returned or raised, and the database; says who was faster."""


def doing(operation: Callable[[Session], Op[Any]]) -> Work:
    """A transaction of the engine."""
    return lambda session: session.transact(lambda: operation(session))


def claiming(memory: Callable[[], LineMemory], worker: int, count: int = 10) -> Work:
    """A claim by a worker that looks for the first time."""
    return doing(lambda _: claims.claim(memory(), worker, count, NOON, slots=count))


def burying(hands: Hands, worker: int, started: frozenset[int] | None = frozenset()) -> Work:
    """The worker is declared dead, by somebody who has seen it before."""
    [seen] = [seen for seen in hands.do(workers.living_workers) if seen.id == worker]
    death = workers.Death("was killed", started)

    def bury(session: Session) -> workers.BuriedWorker | None:
        try:
            return session.transact(lambda: workers.bury(seen, death, 3, lambda _: 1_000, NOON))
        except workers.StillBusy:
            return None

    return bury


def committing(lease: Lease, move: Move, **more: Any) -> Work:
    """What an attempt hands in."""
    return doing(lambda _: commits.commit([Commit(lease, move, **more)], NOON))


def row(hands: Hands, task: int) -> tuple[Status, int | None, int]:
    """The status of a task, the worker that holds it, and its fence."""
    [(status, worker, fence, token)] = hands.sql(
        "SELECT status, worker, fence, token FROM onceward_task WHERE id = ?", task
    )
    return Status(status), None if token is None else worker, fence


def in_line(hands: Hands, task: int) -> int:
    """How often a task stands in line."""
    [(ready,)] = hands.sql("SELECT count(*) FROM onceward_ready WHERE task = ?", task)
    [(due,)] = hands.sql("SELECT count(*) FROM onceward_due WHERE task = ?", task)
    return int(ready + due)


def fell(outcome: Any) -> Any:
    """What somebody has returned; an error that nobody expects is one of the test."""
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


# Two claims


def claim_and_claim(hands: Hands, _: str) -> Scene:
    """Three tasks, two workers that each want all of them: every task has one lease."""
    tasks = set(hands.enqueue(3))
    ant, bee = hands.worker("ant"), hands.worker("bee")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        got = {name: {lease.task for lease in fell(outcomes[name]).leases} for name in ("ant", "bee")}
        assert not got["ant"] & got["bee"]
        assert got["ant"] | got["bee"] == tasks, "somebody asked for all that there were"
        for name, worker in (("ant", ant), ("bee", bee)):
            assert all(row(hands, task) == (Status.RUNNING, worker, 1) for task in got[name])
        assert all(in_line(hands, task) == 0 for task in tasks)
        return "ant" if got["ant"] else "bee"

    return Scene({"ant": claiming(hands.memory, ant), "bee": claiming(hands.memory, bee)}, judge)


# A claim and the burial of the worker that holds the task


def claim_and_reclaim(hands: Hands, _: str) -> Scene:
    """A worker is buried while another claims: the task is in line, or has one new lease."""
    [task] = hands.enqueue()
    ant, bee = hands.worker("ant"), hands.worker("bee")
    [lease] = hands.claim(ant)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert fell(outcomes["bury"]) is not None, "nobody else has buried it"
        got = fell(outcomes["claim"]).leases
        if got:
            assert [(one.task, one.fence) for one in got] == [(task, lease.fence + 1)]
            assert (row(hands, task), in_line(hands, task)) == ((Status.RUNNING, bee, 2), 0)
            return "bury"
        assert (row(hands, task), in_line(hands, task)) == ((Status.PENDING, None, 1), 1)
        return "claim"

    return Scene({"bury": burying(hands, ant), "claim": claiming(hands.memory, bee)}, judge)


# A commit and the burial of the worker that wants it


def commit_and_reclaim(hands: Hands, _: str) -> Scene:
    """It is written once, or it is refused and the task is in line."""
    [task] = hands.enqueue()
    ant = hands.worker("ant")
    [lease] = hands.claim(ant)
    hands.sql("CREATE TABLE note (task bigint NOT NULL)")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        [accepted] = fell(outcomes["commit"])
        buried = fell(outcomes["bury"])
        [(notes,)] = hands.sql("SELECT count(*) FROM note")
        hands.sql("DROP TABLE note")
        if accepted:
            assert (row(hands, task), in_line(hands, task), notes) == ((Status.SUCCEEDED, None, 1), 0, 1)
            return "commit"
        assert buried is not None, "it was refused because of the burial"
        assert (row(hands, task)[0], in_line(hands, task), notes) == (Status.PENDING, 1, 0)
        return "bury"

    writes = ((_note, (task,)),)
    return Scene({"commit": committing(lease, DONE, writes=writes), "bury": burying(hands, ant)}, judge)


def _note(connection: Any, task: int) -> None:
    connection.execute(f"INSERT INTO note (task) VALUES ({task})")


def commit_reclaim_and_claim(hands: Hands, url: str) -> Scene:
    """Three at once: the same, and what the other claims is a new attempt, or nothing."""
    scene = commit_and_reclaim(hands, url)
    bee = hands.worker("bee")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        got = fell(outcomes["claim"]).leases
        if not got:
            return scene.judge(outcomes, hands)
        [accepted] = fell(outcomes["commit"])
        assert not accepted, "who claims it knows that nothing was committed"
        [(notes,)] = hands.sql("SELECT count(*) FROM note")
        hands.sql("DROP TABLE note")
        assert (row(hands, got[0].task), notes) == ((Status.RUNNING, bee, 2), 0)
        return "bury, then claim"

    return Scene({**scene.works, "claim": claiming(hands.memory, bee)}, judge)


# Two spawns


def _two_parents(hands: Hands, max_tasks: int) -> list[Lease]:
    """Two children of one root, running; their lineage has room for so many tasks."""
    ant = hands.worker("ant")
    root = NewTask(
        kind="note", version=1, queue="default", band=band_of(0), key="top", identity=identity("note", "top"),
        payload=b"{}", lineage=uuid.uuid4(), due_at=NOON, created_at=NOON,
        bounds=DEFAULTS.replaced(Limits(max_tasks=max_tasks)),
    )  # fmt: skip
    hands.do(lambda: enqueue_root(root, NOON))
    [top] = hands.claim(ant)
    both = together("top", child("left"), child("right"))
    hands.do(lambda: commits.commit([Commit(top, ON, (), both)], NOON))
    return sorted(hands.claim(ant), key=lambda lease: lease.task)


def spawn_and_spawn_one_cap(hands: Hands, _: str) -> Scene:
    """There is room for one more task, and two ask for one each: one comes to be."""
    left, right = _two_parents(hands, 4)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(fell(outcomes[name])[0]) for name in ("left", "right")] == [True, True]
        [(tasks,)] = hands.sql("SELECT count(*) FROM onceward_task")
        [(counted,)] = hands.sql("SELECT tasks FROM onceward_lineage")
        [(refused,)] = hands.sql("SELECT count(*) FROM onceward_refusal")
        assert (tasks, counted, refused) == (4, 4, 1)
        [(key,)] = hands.sql("SELECT key FROM onceward_task WHERE depth = 2")
        return str(key)

    works = {
        name: committing(lease, DONE, spawns=together(name, child(f"of {name}")))
        for name, lease in (("left", left), ("right", right))
    }
    return Scene(works, judge)


def spawn_and_spawn_one_key(hands: Hands, _: str) -> Scene:
    """Two of one lineage ask for the same work: one task, and the other is told that it is there."""
    left, right = _two_parents(hands, 100)
    return _one_key(left, right, "lineage")


def spawn_and_spawn_one_key_everywhere(hands: Hands, _: str) -> Scene:
    """Two of different lineages ask for the same work, which is to be there once: one task, and a link to it."""
    hands.enqueue(2)
    left, right = hands.claim(hands.worker("ant"))
    return _one_key(left, right, "everywhere")


def _one_key(left: Lease, right: Lease, unique: str) -> Scene:
    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(fell(outcomes[name])[0]) for name in ("left", "right")] == [True, True]
        [(tasks,)] = hands.sql("SELECT count(*) FROM onceward_task WHERE key = 'same'")
        [(links,)] = hands.sql("SELECT count(*) FROM onceward_link")
        assert (tasks, links) == (1, 1)
        [(parent,)] = hands.sql("SELECT parent FROM onceward_task WHERE key = 'same'")
        return "left" if parent == left.task else "right"

    works = {
        name: committing(lease, DONE, spawns=together(name, child("same", unique=unique)))
        for name, lease in (("left", left), ("right", right))
    }
    return Scene(works, judge)


# A task that goes by another key, and a spawn of that


def alias_and_spawn(hands: Hands, _: str) -> Scene:
    """One of a lineage goes by a key that another asks for, and has a child of its own: that work is there once."""
    left, right = _two_parents(hands, 100)
    return _another_key(left, right, "lineage", child("of left"))


def alias_and_spawn_everywhere(hands: Hands, _: str) -> Scene:
    """The same in two lineages, for work that is to be there once."""
    hands.enqueue(2)
    left, right = hands.claim(hands.worker("ant"))
    return _another_key(left, right, "everywhere")


def _another_key(left: Lease, right: Lease, unique: str, *children: Spawn) -> Scene:
    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(fell(outcomes[name])[0]) for name in ("alias", "spawn")] == [True, True]
        made = hands.sql("SELECT id FROM onceward_task WHERE key = 'same'")
        scope = EVERYWHERE if unique == "everywhere" else left.lineage_bytes
        sought = "SELECT task FROM onceward_identity WHERE scope = ? AND hash = ?"
        [(holder,)] = hands.sql(sought, scope, identity("note", "same"))
        links = hands.sql("SELECT parent, child FROM onceward_link")
        assert (holder, links) == ((made[0][0], []) if made else (left.task, [(right.task, left.task)]))
        return "spawn" if made else "alias"

    works = {
        "alias": committing(left, ON, spawns=known_as(together("left", *children), "same", unique=unique)),
        "spawn": committing(right, ON, spawns=together("right", child("same", unique=unique))),
    }
    return Scene(works, judge)


def alias_and_alias(hands: Hands, _: str) -> Scene:
    """Two go by what the other one asks for. Whoever is first has both: one as its own, one as its child."""
    hands.enqueue(2)
    left, right = hands.claim(hands.worker("ant"))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(fell(outcomes[name])[0]) for name in ("left", "right")] == [True, True]
        [(task, parent)] = hands.sql("SELECT id, parent FROM onceward_task WHERE parent IS NOT NULL")
        owners = hands.sql("SELECT DISTINCT task FROM onceward_identity WHERE scope = ? ORDER BY 1", EVERYWHERE)
        assert owners == [(parent,), (task,)]
        other = right.task if parent == left.task else left.task
        assert hands.sql("SELECT parent, child FROM onceward_link") == [(other, parent)]
        return "left" if parent == left.task else "right"

    def work(lease: Lease, alias: str, wanted: str) -> Work:
        spawns = together(str(lease.task), child(wanted, unique="everywhere"))
        return committing(lease, ON, spawns=known_as(spawns, alias, unique="everywhere"))

    return Scene({"left": work(left, "a", "b"), "right": work(right, "b", "a")}, judge)


def reopen_and_spawn_of_an_alias(hands: Hands, _: str) -> Scene:
    """A task that has failed is opened again while the work by its other key is asked for: it is there once."""
    ant = hands.worker("ant")
    hands.enqueue(2)
    left, right = hands.claim(ant)
    spawns = known_as(together("left"), "same", unique="everywhere")
    failed = Finish("only", None, Status.FAILED, "broken")
    hands.do(lambda: commits.commit([Commit(left, failed, (), spawns)], NOON))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert bool(fell(outcomes["spawn"])[0])
        made = hands.sql("SELECT id FROM onceward_task WHERE key = 'same'")
        links = hands.sql("SELECT parent, child FROM onceward_link")
        if made:
            assert isinstance(outcomes["reopen"], IllegalTransition)
            assert (row(hands, left.task)[0], links) == (Status.FAILED, [])
            return "spawn"
        assert fell(outcomes["reopen"]) is None
        assert (row(hands, left.task)[0], links) == (Status.PENDING, [(right.task, left.task)])
        return "reopen"

    reopening = doing(lambda _: task_actions.reopen(left.task, fresh=False, stage=None, forget=(), now=NOON))
    spawning = committing(right, ON, spawns=together("right", child("same", unique="everywhere")))
    return Scene({"reopen": reopening, "spawn": spawning}, judge)


# Two who enqueue the same work


class Page(Payload, kind="page"):
    """Work that is to be there once."""

    number: int


pages = Pipeline(Page, unique="everywhere")


@pages.stage
def only_page(ctx: Context[Page]) -> None:
    """Nothing."""


def enqueue_and_enqueue_crosswise(hands: Hands, url: str) -> Scene:
    """Two enqueue the same two tasks, which are to be there once, in another order: two tasks."""
    app = App(url, [pages], clock=FakeClock(NOON))

    def enqueuing(*numbers: int) -> Work:
        roots = app._rooting.roots([Page(number) for number in numbers], NOON, NO_OPTIONS)
        return doing(lambda _: app._enqueue(roots))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        made = {name: [one.created for one in fell(outcomes[name])] for name in ("ant", "bee")}
        assert sorted(made.values()) == [[False, False], [True, True]]
        assert {one.id for one in outcomes["ant"]} == {one.id for one in outcomes["bee"]}
        return "ant" if made["ant"][0] else "bee"

    return Scene({"ant": enqueuing(1, 2), "bee": enqueuing(2, 1)}, judge)


# A spawn, and the pruning of whoever has the identity that it wants


def spawn_and_prune(hands: Hands, _: str) -> Scene:
    """In one lineage, for work that is to be there once: it is found done, with its task or after that has gone."""
    left, right = _two_parents(hands, 100)
    [(top,)] = hands.sql("SELECT parent FROM onceward_task WHERE id = ?", left.task)
    hands.do(lambda: task_actions.cancel(top, "nobody asks any more", NOON))
    known = (EVERYWHERE, identity("note", "left"), left.task)
    hands.sql("INSERT INTO onceward_identity (scope, hash, task) VALUES (?, ?, ?)", *known)
    hands.commit(left, DONE)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        [accepted] = fell(outcomes["spawn"])
        assert (bool(accepted), fell(outcomes["prune"]).tasks) == (True, 1)
        assert hands.sql("SELECT count(*) FROM onceward_task WHERE key = 'left'") == [(0,)]
        assert hands.sql("SELECT count(*) FROM onceward_identity WHERE scope = ?", EVERYWHERE) == [(0,)]
        [(rule,)] = hands.sql("SELECT rule FROM onceward_refusal")
        assert rule == "done"
        return "spawn" if not hands.sql("SELECT child FROM onceward_link") else "prune"

    spawning = committing(right, DONE, spawns=together("right", child("left", unique="everywhere")))
    return Scene({"spawn": spawning, "prune": doing(lambda _: prune_tasks([left.task], NOON + 1))}, judge)


# Two operators who raise limits


def _raising(lineage: uuid.UUID, limits: Limits, now: int = NOON) -> Work:
    def widen() -> Op[Bounds]:
        return (yield from raise_limits((yield from head_of(lineage)), limits, DEFAULTS, now))

    return doing(lambda _: widen())


def raise_and_raise(hands: Hands, _: str) -> Scene:
    """One raises a limit of a lineage, the other another one: both are raised."""
    lineage = _two_parents(hands, 10)[0].lineage

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        depth, tasks = fell(outcomes["depth"]), fell(outcomes["tasks"])
        assert (depth.max_depth, tasks.max_tasks) == (20, 100)
        assert hands.sql("SELECT max_depth, max_tasks FROM onceward_lineage") == [(20, 100)]
        return "tasks" if depth.max_tasks == 100 else "depth"

    works = {"depth": _raising(lineage, Limits(max_depth=20)), "tasks": _raising(lineage, Limits(max_tasks=100))}
    return Scene(works, judge)


def raise_and_deadline(hands: Hands, _: str) -> Scene:
    """A lineage is found overdue while an operator gives it more time: nothing of it fails after that."""
    lineage = _two_parents(hands, 10)[0].lineage
    over = NOON + DEFAULTS.deadline_ms

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        failed = fell(outcomes["sweep"])
        assert fell(outcomes["raise"]).deadline_ms == 2 * DEFAULTS.deadline_ms
        wanted = (int(Event.LIMITS_RAISED), int(Event.EXPIRED))
        told = hands.sql("SELECT event FROM onceward_attempt WHERE event IN (?, ?) ORDER BY id", *wanted)
        assert told[-1] == (Event.LIMITS_RAISED,), "the last word is the operator's"
        assert hands.sql("SELECT overdue FROM onceward_lineage") == [(0,)]
        [(still_open,)] = hands.sql("SELECT count(*) FROM onceward_task WHERE status < ?", int(Status.SUCCEEDED))
        assert (failed, still_open) in ((3, 0), (0, 3))
        return "sweep" if failed else "raise"

    raising = _raising(lineage, Limits(deadline=2 * DEFAULTS.deadline_ms / 1_000), over)
    return Scene({"sweep": lambda session: expire_lineages(session, over), "raise": raising}, judge)


# Cancelling and committing


def cancel_and_commit(hands: Hands, _: str) -> Scene:
    """Whoever is told "cancelled" can rely on it, and so can whoever is told "committed"."""
    [task] = hands.enqueue()
    [lease] = hands.claim(hands.worker("ant"))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        [accepted] = fell(outcomes["commit"])
        if accepted:
            assert isinstance(outcomes["cancel"], IllegalTransition)
            assert row(hands, task)[0] is Status.SUCCEEDED
            return "commit"
        assert fell(outcomes["cancel"]) is None
        assert row(hands, task)[0] is Status.CANCELLED
        return "cancel"

    cancelling = doing(lambda _: task_actions.cancel(task, "not wanted", NOON))
    return Scene({"commit": committing(lease, DONE), "cancel": cancelling}, judge)


def cancel_and_commit_of_a_stage(hands: Hands, _: str) -> Scene:
    """In the middle of a task both may come to pass, but the commit only before the cancellation."""
    [task] = hands.enqueue()
    [lease] = hands.claim(hands.worker("ant"))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        [accepted] = fell(outcomes["commit"])
        assert fell(outcomes["cancel"]) is None
        assert row(hands, task)[0] is Status.CANCELLED
        [(stages,)] = hands.sql("SELECT count(*) FROM onceward_checkpoint WHERE task = ?", task)
        assert stages == bool(accepted)
        return "commit" if accepted else "cancel"

    cancelling = doing(lambda _: task_actions.cancel(task, "not wanted", NOON))
    return Scene({"commit": committing(lease, ON), "cancel": cancelling}, judge)


# Opening a task again that ended while it waited, and the end of what it waited for


def reopen_and_end_of_a_child(hands: Hands, _: str) -> Scene:
    """A parent was cancelled while it waited for its child. Opened again, it is in line when the child has ended."""
    ant = hands.worker("ant")
    [task] = hands.enqueue()
    [lease] = hands.claim(ant)
    spawns = together("top", child("left"))
    hands.do(lambda: commits.commit([Commit(lease, joining("first", "second"), (), spawns)], NOON))
    return _opened_again(hands, ant, task)


def reopen_and_end_of_a_batch(hands: Hands, _: str) -> Scene:
    """The same for what follows a batch that a stage has opened."""
    ant = hands.worker("ant")
    hands.enqueue()
    [lease] = hands.claim(ant)
    last, first = child("last").following("night"), child("left").added_to("night")
    spawns = msgspec.structs.replace(together("top", last, first), batches=(StageBatch("night"),))
    hands.do(lambda: commits.commit([Commit(lease, DONE, (), spawns)], NOON))
    [(follower,)] = hands.sql("SELECT then_task FROM onceward_batch")
    return _opened_again(hands, ant, follower)


def _opened_again(hands: Hands, worker: int, task: int) -> Scene:
    assert row(hands, task)[0] is Status.WAITING
    hands.do(lambda: task_actions.cancel(task, "not wanted", NOON))
    [awaited] = hands.claim(worker)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [bool(one) for one in fell(outcomes["end"])] == [True]
        assert fell(outcomes["reopen"]) is None
        assert (row(hands, task)[0], in_line(hands, task) > 0) == (Status.PENDING, True)
        woken = hands.sql("SELECT id FROM onceward_attempt WHERE task = ? AND event = ?", task, int(Event.WOKEN))
        return "reopen" if woken else "end"

    reopening = doing(lambda _: task_actions.reopen(task, fresh=False, stage=None, forget=(), now=NOON))
    return Scene({"reopen": reopening, "end": committing(awaited, DONE)}, judge)


# Two workers with new code, for which a task has waited


def code_and_join(hands: Hands, _: str) -> Scene:
    """Both find it. What one of them has woken, and what waits for a child by then, the other leaves alone."""
    ant = hands.worker("ant")
    [task] = hands.enqueue()
    [lease] = hands.claim(ant)
    hands.do(lambda: commits.commit([Commit(lease, ON, (), together("top", child("left")))], NOON))
    hands.claim(ant)
    hands.commit(lease, Park("second", code_wait("old"), NEVER, "does not fit"))

    def wake_and_join(session: Session) -> bool:
        if not session.transact(lambda: task_actions.wake_for_code("note", "new", NOON)):
            return False
        [again] = session.transact(lambda: claims.claim(hands.memory(), ant, 1, NOON)).leases
        committing(again, joining("second", "third"))(session)
        return True

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        has_joined = fell(outcomes["join"])
        assert fell(outcomes["wake"]) == (not has_joined)
        assert row(hands, task)[0] is (Status.WAITING if has_joined else Status.PENDING)
        return "join" if has_joined else "wake"

    waking = doing(lambda _: task_actions.wake_for_code("note", "new", NOON))
    return Scene({"wake": waking, "join": wake_and_join}, judge)


# Two schedulers


class Nightly(Payload, kind="nightly"):
    """The work of a schedule."""


nightly = Pipeline(Nightly)


@nightly.stage
def only(ctx: Context[Nightly]) -> None:
    """Nothing."""


def tick_and_tick(hands: Hands, url: str) -> Scene:
    """A time of a schedule has come, and two see it: one task."""
    app = App(url, [nightly], schedules=[Cron("* * * * *", Nightly())], clock=FakeClock(NOON))
    fire_due(hands.session, app._schedules, NOON)
    [(next_at,)] = hands.sql("SELECT next_at FROM onceward_schedule")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert sorted(fell(outcomes[name]).fired for name in ("ant", "bee")) == [0, 1]
        [(tasks,)] = hands.sql("SELECT count(*) FROM onceward_task")
        [(fired, moved_to)] = hands.sql("SELECT fired, next_at FROM onceward_schedule")
        assert (tasks, fired, moved_to) == (1, 1, next_at + 60_000)
        return "ant" if outcomes["ant"].fired else "bee"

    def look(session: Session) -> Any:
        return fire_due(session, app._schedules, next_at)

    return Scene({"ant": look, "bee": look}, judge)


# Settling a budget, and the expiry of what was set aside


class Ask(Payload, kind="ask"):
    """A question that costs something."""

    number: int


usd = Budget("usd", "0.05")
asking = Pipeline(Ask)


@asking.stage(budget=usd, estimate="0.02")
def only_ask(ctx: Context[Ask]) -> None:
    """Nothing."""


def _drawing(hands: Hands, url: str) -> tuple[int, Work, BudgetRule]:
    """A worker, its claim of a task that draws from a budget which is not open yet, and that budget."""
    with App(url, [asking], clock=FakeClock(NOON)) as app:
        app.enqueue(Ask(1))
        registry = app._registry

    def memory() -> LineMemory:
        sweeps = hands.session.dialect == "postgres"
        return LineMemory(registry.lanes(None), registry.limits_of, sweeps, budgets_of=registry.budgets_of)

    ant = hands.worker("ant")
    return ant, claiming(memory, ant, 1), registry.budgets["usd"]


def settle_and_expiry(hands: Hands, url: str) -> Scene:
    """An attempt charges a cent while its worker is buried and what it had set aside expires: one cent, or both."""
    ant, draw, _ = _drawing(hands, url)
    [lease] = draw(hands.session).leases
    bury = burying(hands, ant)

    def expire(session: Session) -> Any:
        buried = bury(session)
        sweep_budgets(session, NOON)
        return buried

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        [accepted] = fell(outcomes["settle"])
        fell(outcomes["expire"])
        sweep_budgets(hands.session, NOON)
        [(reserved, spent, above)] = hands.sql("SELECT reserved, spent, overcharged FROM onceward_budget")
        assert (reserved, spent, above) == (0, CENT if accepted else 2 * CENT, 0)
        assert hands.sql("SELECT * FROM onceward_reservation") == []
        return "settle" if accepted else "expire"

    bill = Bill((Charge("usd", CENT),), frees=True)
    return Scene({"settle": committing(lease, DONE, bill=bill), "expire": expire}, judge)


# Taking a place in a gate, and sweeping out what a dead worker has left there


def claim_and_sweep(hands: Hands, _: str) -> Scene:
    """A task whose worker is dead is inside a gate anew while places of the dead are swept out: it keeps its own."""
    [task] = hands.enqueue(gates="shop*1")

    def memory() -> LineMemory:
        return LineMemory(("default:note",), lambda _: GateLimits(concurrency=1), hands.session.dialect == "postgres")

    ant, bee = hands.worker("ant"), hands.worker("bee")
    hands.do(lambda: claims.claim(memory(), ant, 1, NOON, slots=1))
    burying(hands, ant)(hands.session)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        [lease] = fell(outcomes["claim"]).leases
        places = hands.sql("SELECT task, token FROM onceward_slot WHERE gate = 'shop'")
        assert [(inside, bytes(token)) for inside, token in places] == [(task, lease.token)]
        return "sweep" if fell(outcomes["sweep"]) else "claim"

    return Scene({"claim": claiming(memory, bee, 1), "sweep": doing(lambda _: sweep_slots())}, judge)


# Two commits that tell the same gates


def _two_each(hands: Hands) -> list[Lease]:
    """Four tasks that run, and have passed a gate; there is another one."""
    hands.enqueue(4, gates="mail*1")
    hands.sql("INSERT INTO onceward_gate (name) VALUES ('shop')")

    def memory() -> LineMemory:
        return LineMemory(("default:note",), lambda _: GateLimits(), hands.session.dialect == "postgres")

    return sorted(claiming(memory, hands.worker("ant"))(hands.session).leases, key=lambda lease: lease.task)


def _telling(one: Lease, other: Lease, well: SourceReport, ill: SourceReport) -> Work:
    both = [Commit(one, DONE, reports=(well,)), Commit(other, DONE, reports=(ill,))]
    return doing(lambda _: commits.commit(both, NOON + 5_000))


def _failures(hands: Hands) -> dict[str, int]:
    return dict(hands.sql("SELECT name, failures FROM onceward_gate"))


def tell_and_tell_crosswise(hands: Hands, _: str) -> Scene:
    """For one commit the first source is well and the second is not, for the other it is the other way round."""
    leases = _two_each(hands)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [list(map(bool, fell(outcomes[name]))) for name in ("ant", "bee")] == [[True, True]] * 2
        assert _failures(hands) == {"mail": 1, "shop": 1}
        [(streak,)] = hands.sql("SELECT streak FROM onceward_gate WHERE name = 'mail'")
        return "bee" if streak else "ant"

    mail, shop = SourceReport("mail", (True,)), SourceReport("shop", (True,))
    no_mail, no_shop = SourceReport("mail", (False,), error="no"), SourceReport("shop", (False,), error="no")
    works = {"ant": _telling(*leases[:2], shop, no_mail), "bee": _telling(*leases[2:], mail, no_shop)}
    return Scene(works, judge)


def tell_and_count_lookups(hands: Hands, _: str) -> Scene:
    """One commit has asked the cache about the first source and says that the second is well; so has the other, the
    other way round."""
    leases = _two_each(hands)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert [list(map(bool, fell(outcomes[name]))) for name in ("ant", "bee")] == [[True, True]] * 2
        assert hands.sql("SELECT name, hits FROM onceward_gate ORDER BY name") == [("mail", 1), ("shop", 1)]
        [(first,)] = hands.sql("SELECT task FROM onceward_attempt WHERE event = ? ORDER BY id LIMIT 1", FINISHED)
        return "ant" if first == leases[0].task else "bee"

    mail, shop = SourceReport("mail", (True,)), SourceReport("shop", (True,))
    mail_cached, shop_cached = SourceReport("mail", (), hits=1), SourceReport("shop", (), hits=1)
    works = {"ant": _telling(*leases[:2], shop, mail_cached), "bee": _telling(*leases[2:], mail, shop_cached)}
    return Scene(works, judge)


# Closing a gate, and forgetting those that nobody uses


def disable_and_prune(hands: Hands, _: str) -> Scene:
    """An operator disables an instance of a source that nobody has used for long, while such are pruned: it is."""
    hands.sql("INSERT INTO onceward_gate (name) VALUES ('web/old')")

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert fell(outcomes["disable"]) is None
        assert hands.sql("SELECT name, enabled FROM onceward_gate") == [("web/old", 0)]
        return "prune" if fell(outcomes["prune"]).gates else "disable"

    works = {"disable": doing(lambda _: disable(["web/old"])), "prune": doing(lambda _: prune_gates(NOON))}
    return Scene(works, judge)


# What an operator makes of a budget, and what the code does


LOWERED = 3 * CENT
lowering = doing(lambda _: set_limit("usd", "", LOWERED, "ann", NOON))


def limit_and_first_draw(hands: Hands, url: str) -> Scene:
    """An operator lowers a budget while somebody draws from it for the first time: the operator's limit holds."""
    _, draw, declared = _drawing(hands, url)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert (fell(outcomes["operator"]), len(fell(outcomes["draw"]).leases)) == (0, 1)
        [(ceiling, highest)] = hands.sql("SELECT ceiling, highest FROM onceward_budget")
        assert ceiling == LOWERED
        return "draw" if highest == declared.ceiling else "operator"

    return Scene({"operator": lowering, "draw": draw}, judge)


class Look(Payload, kind="look"):
    """Another question of the same sort."""


each = Budget("each", "0.05", scope="pipeline")
first_asking, looking = Pipeline(Ask), Pipeline(Look)


@first_asking.stage(budget=each, estimate="0.02")
def first_ask(ctx: Context[Ask]) -> None:
    """Nothing."""


@looking.stage(budget=each, estimate="0.02")
def only_look(ctx: Context[Look]) -> None:
    """Nothing."""


def _drawing_again(hands: Hands, url: str) -> tuple[int, Callable[[], LineMemory], Lease]:
    """A worker, its reader, and the lease of a task that has drawn from a budget for its pipeline. Another one stands
    in line, and one of another pipeline, for which that budget is not open yet."""
    with App(url, [first_asking, looking], clock=FakeClock(NOON)) as app:
        app.enqueue(Ask(1))
        registry = app._registry

        def memory() -> LineMemory:
            sweeps = hands.session.dialect == "postgres"
            return LineMemory(registry.lanes(None), registry.limits_of, sweeps, budgets_of=registry.budgets_of)

        ant = hands.worker("ant")
        [lease] = claiming(memory, ant, 1)(hands.session).leases
        app.enqueue(Ask(2))
        app.enqueue(Look())
    return ant, memory, lease


def _limited(outcomes: Mapping[str, Any], hands: Hands) -> None:
    fell(outcomes["operator"])
    assert {ceiling for (ceiling,) in hands.sql("SELECT ceiling FROM onceward_budget")} == {4 * CENT}


limiting_each = doing(lambda _: set_limit("each", "*", 4 * CENT, "ann", NOON))


def limit_and_draw_for_another(hands: Hands, url: str) -> Scene:
    """An operator lowers a budget for everybody while somebody draws from it for two, one of whom is new to it."""
    ant, memory, _ = _drawing_again(hands, url)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert len(fell(outcomes["draw"]).leases) == 2
        _limited(outcomes, hands)
        [(highest,)] = hands.sql("SELECT highest FROM onceward_budget WHERE scope = 'look'")
        return "draw" if highest == 5 * CENT else "operator"

    return Scene({"operator": limiting_each, "draw": claiming(memory, ant)}, judge)


def limit_and_draw_after_settling(hands: Hands, url: str) -> Scene:
    """The same, where who draws has just settled: it takes what it can have without waiting for long."""
    ant, memory, lease = _drawing_again(hands, url)

    def settle_and_claim() -> Op[claims.ClaimResult]:
        yield from commits.commit([Commit(lease, DONE, bill=Bill((Charge("each", CENT),), frees=True))], NOON)
        return (yield from claims.claim(memory(), ant, 10, NOON, slots=10, has_settled=True))

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        leases = fell(outcomes["draw"]).leases
        assert "ask" in {one.kind for one in leases}
        leases += claiming(memory, ant)(hands.session).leases
        assert sorted(one.kind for one in leases) == ["ask", "look"]
        _limited(outcomes, hands)
        [(highest,)] = hands.sql("SELECT highest FROM onceward_budget WHERE scope = 'look'")
        return "draw" if highest == 5 * CENT else "operator"

    return Scene({"operator": limiting_each, "draw": doing(lambda _: settle_and_claim())}, judge)


def limit_and_declaration(hands: Hands, url: str) -> Scene:
    """An operator lowers a budget while a worker comes that has another limit in its code: the operator's holds."""
    _, draw, declared = _drawing(hands, url)
    draw(hands.session)
    newer = msgspec.structs.replace(declared, ceiling=9 * CENT)

    def judge(outcomes: Mapping[str, Any], hands: Hands) -> str:
        assert (fell(outcomes["operator"]), fell(outcomes["code"])) == (0, None)
        [(ceiling, highest)] = hands.sql("SELECT ceiling, highest FROM onceward_budget")
        assert ceiling == LOWERED
        return "code" if highest == newer.ceiling else "operator"

    return Scene({"operator": lowering, "code": doing(lambda _: declare([newer], NOON))}, judge)


SCENES: Sequence[Callable[[Hands, str], Scene]] = (
    claim_and_claim,
    claim_and_reclaim,
    commit_and_reclaim,
    spawn_and_spawn_one_cap,
    spawn_and_spawn_one_key,
    spawn_and_spawn_one_key_everywhere,
    alias_and_spawn,
    alias_and_spawn_everywhere,
    alias_and_alias,
    reopen_and_spawn_of_an_alias,
    enqueue_and_enqueue_crosswise,
    spawn_and_prune,
    raise_and_raise,
    raise_and_deadline,
    cancel_and_commit,
    cancel_and_commit_of_a_stage,
    reopen_and_end_of_a_child,
    reopen_and_end_of_a_batch,
    code_and_join,
    tick_and_tick,
    settle_and_expiry,
    claim_and_sweep,
    tell_and_tell_crosswise,
    tell_and_count_lookups,
    disable_and_prune,
    limit_and_first_draw,
    limit_and_draw_for_another,
    limit_and_draw_after_settling,
    limit_and_declaration,
)
