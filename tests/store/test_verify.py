"""Verify: silent about a database that only the engine has written, and it finds every promise that a hand has broken.

Each rule is broken alone, on a task of its own, and must be reported with that task's id.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pytest

from onceward.model.budget import BudgetRule
from onceward.model.lineage import Bounds, Limits
from onceward.model.source import GateLimits
from onceward.model.status import Event, Status
from onceward.model.task import (
    CURSOR_PART,
    LARGEST_INLINE,
    NEVER,
    Advance,
    Commit,
    Crash,
    Defer,
    Finish,
    HandOver,
    Keep,
    Lease,
    NewTask,
    Park,
    Part,
    Release,
    Report,
    TryAgain,
)
from onceward.store.attempts import claims, commits, workers
from onceward.store.attempts.expiry import expire_batches
from onceward.store.lineage import pause_lineage, raise_limits, trees
from onceward.store.lineage.batches import NewBatch, open_batch
from onceward.store.lines import enqueue
from onceward.store.lines.memory import LineMemory
from onceward.store.operations import task_actions
from onceward.store.operations.importing import OldTask, import_tasks
from onceward.store.verify.task_rules import RULES, History, Logged, TaskFacts, forgotten, moves
from onceward.store.verify.verify import Check, verify
from tests.store.children import ASKS, child, commit, joining, known_as, together
from tests.store.conftest import Hands

SUCCEEDED, FAILED, FILTERED = Status.SUCCEEDED, Status.FAILED, Status.FILTERED
LARGE = b'"' + b"x" * LARGEST_INLINE + b'"'
DONE = Finish("last", b"1", SUCCEEDED, None)
BOUNDS = Bounds(10, 1_000, 172_800_000, 10_000)


@pytest.fixture
def lived(hands: Hands) -> Hands:
    """A database in which everything has happened that can happen to a task."""
    live(hands)
    return hands


def live(hands: Hands) -> None:
    """Tasks that take every way through the table, and some that are still on it."""
    ant = hands.worker()

    def leased(**how: Any) -> Lease:
        hands.enqueue(**how)
        [lease] = hands.claim(ant)
        return lease

    def again(lease: Lease) -> Lease:
        [lease] = hands.claim(ant)
        return lease

    # Straight through, with large values, parts and progress on the way.
    lease = leased(payload=LARGE)
    hands.commit(lease, Keep("first", (Part("first", "once/pay", b"1"),)))
    hands.commit(lease, Keep("first", (Part("first", CURSOR_PART, b"7"),)))
    hands.commit(lease, Report("first", 1, 2, "half way"))
    hands.commit(lease, Advance("first", LARGE, "last"))
    hands.commit(lease, DONE)

    # Errors, a poll and a hand-over before it succeeds; without a result.
    lease = leased()
    hands.commit(lease, TryAgain("first", hands.now + 5, "no luck"))
    hands.later(10)
    lease = again(lease)
    hands.commit(lease, Defer("first", hands.now + 5, "not yet"))
    hands.later(10)
    lease = again(lease)
    hands.commit(lease, HandOver("first", b"1", "last", "heavy"))
    lease = again(lease)
    hands.commit(lease, TryAgain("last", hands.now, "no luck"))
    hands.commit(again(lease), Finish("last", None, SUCCEEDED, None))

    # Ended early, and opened again: keeping what was done, from a stage, afresh.
    lease = leased()
    task = lease.task
    hands.commit_all([(lease, Advance("first", b"1", "middle")), (leased(), Finish("first", None, FILTERED, "no"))])
    hands.commit(lease, Advance("middle", b"1", "last"))
    hands.commit(lease, Finish("last", None, FAILED, "broken"))
    hands.do(lambda: task_actions.reopen(task, fresh=False, stage=None, forget=[], now=hands.now))
    hands.commit(again(lease), DONE)
    hands.do(lambda: task_actions.reopen(task, fresh=False, stage="middle", forget=["middle", "last"], now=hands.now))
    lease = again(lease)
    hands.commit(lease, Advance("middle", b"2", "last"))
    hands.commit(lease, DONE)
    hands.do(lambda: task_actions.reopen(task, fresh=True, stage=None, forget=[], now=hands.now))
    lease = again(lease)
    hands.commit(lease, Advance("first", b"3", "middle"))
    hands.commit(lease, Release())
    hands.commit(again(lease), Advance("middle", b"3", "last"))

    # Waits that end by a signal, by time, by other code, by a signal that was faster, and one that does not end.
    lease = leased()
    hands.commit(lease, Park("first", "signal:go", NEVER, "waits"))
    hands.do(lambda: task_actions.signal(lease.task, "go", b"1", hands.now))
    lease = again(lease)
    hands.commit(lease, Park("first", "signal:go", hands.now + 5, "waits"))
    hands.later(10)
    lease = again(lease)
    hands.do(lambda: task_actions.signal(lease.task, "go", b"2", hands.now))
    hands.commit(lease, Park("first", "signal:go", NEVER, "waits"))
    lease = again(lease)
    hands.commit(lease, Park("first", "code:1", NEVER, "does not fit"))
    hands.do(lambda: task_actions.wake_for_code("note", "2", hands.now))
    hands.commit(again(lease), DONE)
    hands.commit(leased(), Park("first", "signal:never", NEVER, "waits"))

    # Cancelled before, while and after running; the late commits are refused.
    [task] = hands.enqueue()
    hands.do(lambda: task_actions.cancel(task, "not wanted", hands.now))
    lease = leased()
    hands.do(lambda: task_actions.cancel(lease.task, "not wanted", hands.now))
    assert hands.commit(lease, DONE) is False
    assert hands.commit(lease, Advance("first", b"1", "last")) is False

    # A family: a child asked for twice, one with a limit of its own, one refused; the parent waits, and goes on.
    lease = leased(key="top")
    asked = (child("a"), child("a"), child("b", max_tasks=5), child("top"))
    commit(hands, lease, "top", joining("first", "last"), *asked)
    for one in hands.claim(ant):
        hands.commit(one, DONE)
    hands.commit(again(lease), DONE)
    commit(hands, leased(key="still waiting"), "still waiting", joining("first", "last"), child("c"))
    again(lease)

    # Children that wait for approval, one by each rule; some are approved, one of them is not.
    lease = leased(key="asking")
    commit(hands, lease, "asking", Advance("first", b"1", "middle"), child("done"))
    hands.commit(again(lease), DONE)
    asked = (child("asking", **ASKS), child("bad", stopped="it is bad", **ASKS), child("sister", "quiet"))
    commit(hands, lease, "asking", Advance("middle", b"1", "last"), *asked, child("brother"))
    brother = again(lease)
    commit(hands, brother, "brother", DONE, child("sister", "quiet", **ASKS), child("done", **ASKS))
    hands.commit(lease, DONE)
    few = msgspec.structs.replace(BOUNDS, max_tasks=2, max_depth=0)
    lease = leased(key="full")
    spawns = together("full", child("a", "quiet", **ASKS), child("b", "quiet", **ASKS), defaults=few)
    hands.do(lambda: commits.commit([Commit(lease, DONE, (), spawns)], hands.now))
    for number, (task,) in enumerate(hands.sql("SELECT id FROM onceward_task WHERE waiting_for = 'signal:approved'")):
        if number:
            hands.do(partial(task_actions.signal, task, "approved", b"true", hands.now))
    for one in hands.claim(ant):
        hands.commit(one, DONE)

    # A family of which a part is paused, then all of it, then nothing, and then again a part.
    lease = leased(key="family")
    commit(hands, lease, "family", Advance("first", b"1", "last"), child("son", "quiet"), child("aunt"))
    [aunt] = hands.claim(ant)
    commit(hands, aunt, "aunt", Advance("first", b"1", "last"), child("niece", "quiet"))
    part, whole = (hands.do(partial(trees.head_of, task)) for task in (aunt.task, lease.task))
    for operation in (pause_lineage.pause, pause_lineage.resume, pause_lineage.pause):
        hands.do(partial(operation, part, hands.now))
    for operation in (pause_lineage.pause, pause_lineage.resume):
        hands.do(partial(operation, whole, hands.now))
    hands.commit(aunt, Release())
    [aunt] = hands.claim(ant)
    hands.do(partial(pause_lineage.pause, part, hands.now))
    commit(hands, aunt, "aunt", DONE, child("nephew", "quiet"))
    son = hands.do(lambda: trees.head_of(quiet_child(hands, lease.task)))
    hands.do(partial(pause_lineage.pause, son, hands.now))

    # Batches: one that ends in time, one that does not, and one that is open.
    for name, deadline_ms in (("soon", 1_000), ("too late", 10), ("open", None)):
        new = NewBatch(name, quiet(hands), deadline_ms, 9)
        hands.do(partial(open_batch, new, [quiet(hands)], hands.now))
        if name == "soon":
            hands.kinds.add("quiet")
            hands.commit(hands.claim(ant, 1)[0], DONE)
            hands.kinds.remove("quiet")
    hands.later(10)
    expire_batches(hands.session, hands.now)

    # Workers that die: bystanders, suspects in company, one alone until it is quarantined, one that overran its time.
    hands.enqueue(5)
    bee = hands.worker("bee")
    held = [lease.task for lease in hands.claim(bee, 4)]
    hands.bury(bee, frozenset(held[:3]))
    cat = hands.worker("cat")
    overdue = hands.claim(cat, 1)[0].task
    hands.bury(cat, frozenset({overdue}), overdue=frozenset({overdue}))
    [culprit] = hands.enqueue(priority=2)
    for name in ("dog", "eel", "fox"):
        worker = hands.worker(name)
        while culprit not in (held := [lease.task for lease in hands.claim(worker, 1)]):
            assert held
        hands.bury(worker, frozenset({culprit}))
    hands.later(2_000)
    for lease in hands.claim(ant, 3):
        hands.commit(lease, Crash("first", "its process died", Status.PENDING))
        hands.commit(lease, DONE)  # refused: it is not running any more
    gnu = hands.worker("gnu")
    hands.do(lambda: workers.stop(gnu, "stopped", hands.now))
    hands.enqueue(2)
    hands.enqueue(2, after_ms=60_000)
    for lease in hands.claim(ant, 2):
        hands.commit(lease, TryAgain("first", hands.now + 5, "no luck"))
    hands.claim(ant, 2)

    # A lineage that was paused, resumed and given wider limits, and is paused again.
    [task] = hands.enqueue()
    head = hands.do(lambda: trees.head_of(task))
    hands.do(lambda: pause_lineage.pause(head, hands.now))
    hands.do(lambda: pause_lineage.resume(head, hands.now))
    hands.do(lambda: raise_limits.raise_limits(head, Limits(max_depth=20), BOUNDS, hands.now))
    hands.do(lambda: pause_lineage.pause(head, hands.now))

    # Before a gate, and behind one at which something was set aside.
    governed(hands)
    paid_for(hands)

    # Items of another system, one open and one that had ended there.
    old = [
        OldTask(
            NewTask("note", 1, "default", 2, None, mark, LARGE, uuid.uuid4(), hands.now, hands.now - 5_000),
            mark, status, ended_at, None, f"was {status.word}",
        )
        for mark, status, ended_at in ((b"1" * 16, Status.PENDING, None), (b"2" * 16, SUCCEEDED, hands.now))
    ]  # fmt: skip
    hands.do(lambda: import_tasks(b"import" + bytes(10), old, hands.now))


def test_a_database_that_only_the_engine_has_written_passes(lived: Hands) -> None:
    report = verify(lived.session, lived.now)
    assert [breach.sentence for check in report.checks for breach in check.breaches] == []
    assert report.ok
    assert report.at == lived.now
    seen = {event for (event,) in lived.sql("SELECT DISTINCT event FROM onceward_attempt")}
    assert seen == set(Event), "the history above leaves nothing out"
    statuses = {status for (status,) in lived.sql("SELECT DISTINCT status FROM onceward_task")}
    assert statuses == set(Status) - {Status.SKIPPED}
    for check in report.checks:
        assert check.checked, check.name
        assert check.meaning.endswith("."), check.name
    assert report.tasks == lived.sql("SELECT count(*) FROM onceward_task")[0][0]
    assert report.events == lived.sql("SELECT count(*) FROM onceward_attempt")[0][0]


def test_an_empty_database_passes(hands: Hands) -> None:
    report = verify(hands.session, hands.now)
    assert report.ok
    assert report.tasks == report.events == 0
    whole = {"leftovers", "pauses", "lineages", "joins", "batches", "gates", "budgets", "integrity"}
    assert {check.name for check in report.checks} == {rule.__name__ for rule in RULES} | whole


def test_it_looks_at_one_moment_and_lets_others_write(lived: Hands, open_session: Callable[[], Any]) -> None:
    before = verify(lived.session, lived.now).tasks
    other = Hands(open_session())
    with lived.session.reading():
        lived.sql("SELECT count(*) FROM onceward_task")
        other.enqueue(3)
        assert lived.sql("SELECT count(*) FROM onceward_task") == [(before,)]
    assert verify(lived.session, lived.now).tasks == before + 3
    assert not lived.session.in_transaction()


@dataclass(frozen=True)
class Case:
    """A way to break one rule: what the task has been through, what the hand does, what must be said."""

    rule: str
    task: Callable[[Hands], int]
    wound: str
    says: str


def pending(hands: Hands) -> int:
    return hands.enqueue(kind="quiet")[0]


def running(hands: Hands) -> int:
    task = hands.enqueue(priority=2)[0]
    [lease] = hands.claim(hands.worker("solo"), 1)
    assert lease.task == task
    return task


def _running(hands: Hands) -> Lease:
    task = hands.enqueue(priority=2, payload=LARGE + b" ")[0]
    [lease] = hands.claim(hands.worker("solo"), 1)
    assert lease.task == task
    return lease


def done(hands: Hands) -> int:
    lease = _running(hands)
    hands.commit(lease, Advance("first", LARGE, "last"))
    hands.commit(lease, DONE)
    return lease.task


def half_done(hands: Hands) -> int:
    lease = _running(hands)
    hands.commit(lease, Advance("first", b"1", "last"))
    hands.commit(lease, Keep("last", (Part("last", CURSOR_PART, b"1"),)))
    return lease.task


def failed(hands: Hands) -> int:
    lease = _running(hands)
    hands.commit(lease, Finish("first", None, FAILED, "broken"))
    return lease.task


def retrying(hands: Hands) -> int:
    lease = _running(hands)
    hands.commit(lease, TryAgain("first", hands.now + 60_000, "no luck"))
    return lease.task


def waiting(hands: Hands) -> int:
    lease = _running(hands)
    hands.commit(lease, Park("first", "signal:go", NEVER, "waits"))
    return lease.task


def mother(hands: Hands) -> int:
    """A task that waits for two children."""
    lease = _running(hands)
    some = (child(f"{lease.task} first", "quiet"), child(f"{lease.task} second", "quiet"))
    commit(hands, lease, "0", joining("first", "last"), *some)
    return lease.task


def second_child(hands: Hands) -> int:
    [(task,)] = hands.sql("SELECT max(id) FROM onceward_task WHERE parent = ?", mother(hands))
    return int(task)


def aliased(hands: Hands) -> int:
    """A task that has got another key, in its lineage and everywhere."""
    lease = _running(hands)
    spawns = known_as(together("0"), f"also {lease.task}", kind="quiet", unique="everywhere")
    hands.do(lambda: commits.commit([Commit(lease, Advance("first", b"1", "last"), (), spawns)], hands.now))
    return lease.task


def narrowed(hands: Hands) -> int:
    """A child with a narrower limit of its own."""
    lease = _running(hands)
    commit(hands, lease, "0", Advance("first", b"1", "last"), child("narrow", "quiet", max_tasks=5))
    [(task,)] = hands.sql("SELECT max(id) FROM onceward_task WHERE parent = ?", lease.task)
    return int(task)


def quiet(hands: Hands) -> NewTask:
    """A task that nobody claims."""
    return NewTask(
        kind="quiet", version=1, queue="default", band=2, key=None, identity=b"quiet" * 4, payload=b"{}",
        lineage=uuid.uuid4(), due_at=hands.now, created_at=hands.now,
    )  # fmt: skip


def in_batch(hands: Hands) -> int:
    """A task of a batch, which is open."""
    new = NewBatch(uuid.uuid4().hex, quiet(hands))
    return hands.do(lambda: open_batch(new, [quiet(hands)], hands.now)).tasks[0]


def of_ended_batch(hands: Hands) -> int:
    """A task of a batch that has ended."""
    task = in_batch(hands)
    hands.do(lambda: task_actions.cancel(task, "not wanted", hands.now))
    return task


def quiet_child(hands: Hands, parent: int) -> int:
    """The youngest child of a task that nobody claims."""
    [(task,)] = hands.sql("SELECT max(id) FROM onceward_task WHERE parent = ? AND kind = 'quiet'", parent)
    return int(task)


def in_a_circle(hands: Hands) -> int:
    """A child that is the work of its parent, and waits for approval."""
    lease = _running(hands)
    commit(hands, lease, "0", Advance("first", b"1", "last"), child("0", **ASKS))
    [(task,)] = hands.sql("SELECT id FROM onceward_task WHERE parent = ?", lease.task)
    return int(task)


def beyond(hands: Hands) -> int:
    """A task with two children, one more than there is room for."""
    lease = _running(hands)
    few = msgspec.structs.replace(BOUNDS, max_tasks=2)
    spawns = together("0", child("a", "quiet", **ASKS), child("b", "quiet", **ASKS), defaults=few)
    hands.do(lambda: commits.commit([Commit(lease, Advance("first", b"1", "last"), (), spawns)], hands.now))
    return lease.task


def repeated(hands: Hands, **options: Any) -> int:
    """A child that does what another of its lineage is at, and waits for approval of that."""
    lease = _running(hands)
    brother = child(f"{lease.task} brother", "brother")
    commit(hands, lease, "0", Advance("first", b"1", "last"), brother, child("work", "quiet"))
    mine = Hands(hands.session)
    mine.now, mine.kinds = hands.now, {"brother"}
    [second] = mine.claim(mine.worker("its own"))
    commit(hands, second, brother.key or "", Advance("first", b"1", "last"), child("work", "quiet", **options or ASKS))
    return quiet_child(hands, second.task)


def not_unique(hands: Hands) -> int:
    """A child that does what another of its lineage is at, because its pipeline no longer minds."""
    return repeated(hands, unique="no")


def paused(hands: Hands) -> int:
    """A root that is paused while it runs."""
    task = running(hands)
    head = hands.do(lambda: trees.head_of(task))
    hands.do(lambda: pause_lineage.pause(head, hands.now))
    return task


def paused_child(hands: Hands) -> int:
    """A child whose parent is paused."""
    task = mother(hands)
    head = hands.do(lambda: trees.head_of(task))
    hands.do(lambda: pause_lineage.pause(head, hands.now))
    return quiet_child(hands, task)


def governed(hands: Hands, instance: str | None = None) -> int:
    """A task that stands before a gate of its own."""
    [(number,)] = hands.sql("SELECT count(*) FROM onceward_task")
    gate = f"web/{instance or number}"
    place = (uuid.uuid4(), hands.now, hands.now)
    new = NewTask(instance or "note", 1, "default", 2, None, bytes(16), b"{}", *place, gates=gate)
    [task] = hands.do(lambda: enqueue.enqueue([new], hands.now))
    return task


def inside(hands: Hands) -> int:
    """A task that has passed a gate, and runs."""
    task = governed(hands, "inside")
    ant = hands.worker()
    memory = LineMemory(("default:inside",), lambda _: GateLimits(concurrency=5), hands.session.dialect == "postgres")
    [lease] = hands.do(lambda: claims.claim(memory, ant, 1, hands.now, slots=1)).leases
    assert lease.task == task
    return task


def paid_for(hands: Hands) -> int:
    """A task that runs, for which something is set aside of a budget of its own."""
    [(number,)] = hands.sql("SELECT count(*) FROM onceward_task")
    name = f"purse{number}"
    rule = BudgetRule(name, "usd", "total", "app", 1_000)
    place = (uuid.uuid4(), hands.now, hands.now)
    new = NewTask(name, 1, "default", 2, None, bytes(16), b"{}", *place, gates=f"${name}", estimate=10)
    [task] = hands.do(lambda: enqueue.enqueue([new], hands.now))
    memory = LineMemory((f"default:{name}",), lambda _: GateLimits(), hands.session.dialect == "postgres")
    memory.budgets_of = lambda _kind, _stage: (rule,)
    ant = hands.worker()
    [lease] = hands.do(lambda: claims.claim(memory, ant, 1, hands.now, slots=1)).leases
    assert lease.task == task
    return task


TURN = "{} WHERE lane = (SELECT lane FROM onceward_ready WHERE task = ?)"
BATCH = "UPDATE onceward_batch SET {} WHERE id = (SELECT batch FROM onceward_task WHERE id = ?)"
TASK = "UPDATE onceward_task SET {} WHERE id = ?"
LOG = "UPDATE onceward_attempt SET {} WHERE task = ? AND event = {}"
CASES = [
    Case("claims", done, TASK.format("fence = 2"), "carries fence 2, but its claims were given: 1"),
    Case("claims", pending, TASK.format("fence = 1"), "carries fence 1, but its claims were given: none"),
    Case(
        "claims",
        done,
        "INSERT INTO onceward_claim (token, worker, at, tasks, fences) "
        "SELECT token, worker, at, tasks, fences FROM onceward_claim "
        "WHERE seq = (SELECT max(seq) FROM onceward_claim) AND ? > 0",
        "fence 1 was given out 2 times",
    ),
    Case(
        "fences",
        retrying,
        "INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at) "
        "SELECT task, run, 0, 13, 2, stage, worker, at FROM onceward_attempt WHERE task = ?",
        "“signalled” was accepted from claim 0 after claim 1 had written",
    ),
    Case(
        "stages",
        half_done,
        "INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at) "
        "SELECT task, run, fence, event, status, stage, worker, at FROM onceward_attempt WHERE task = ? AND event = 1",
        "stage first committed twice in run 1",
    ),
    Case(
        "stages",
        done,
        "UPDATE onceward_attempt SET stage = 'first' WHERE task = ? AND event = 3",
        "stage first committed twice in run 1",
    ),
    Case(
        "moves",
        done,
        "INSERT INTO onceward_attempt (task, run, fence, event, status, stage, worker, at) "
        "SELECT task, run, fence, event, 7, stage, worker, at FROM onceward_attempt WHERE task = ? AND event = 3",
        "“finished” made it failed while it was succeeded",
    ),
    Case("moves", done, TASK.format("status = 7, reason = 'x'"), "is failed, but its log leaves it succeeded"),
    Case("moves", done, "DELETE FROM onceward_attempt WHERE task = ? AND event = 3", "but its log leaves it running"),
    Case("moves", failed, TASK.format("run = 2"), "is in run 2, but its log leaves it in run 1"),
    Case("moves", failed, "UPDATE onceward_attempt SET event = 99 WHERE task = ?", "event 99 says"),
    Case("moves", failed, "UPDATE onceward_attempt SET fence = 3 WHERE task = ?", "from claim 0 to claim 3"),
    Case("leases", running, TASK.format("token = NULL"), "is running without a lease"),
    Case("leases", running, TASK.format("worker = NULL"), "is running without a lease"),
    Case("leases", running, TASK.format("token = payload"), "under a lease (fence 1) that no claim gave out"),
    Case("leases", pending, TASK.format("token = payload"), "is pending and still carries a lease"),
    Case("times", done, TASK.format("ended_at = NULL"), "is succeeded without a time of its end"),
    Case("times", done, TASK.format("ended_at = 1"), "ms before it was created"),
    Case("times", failed, TASK.format("reason = NULL"), "is failed without a reason"),
    Case("times", pending, TASK.format("ended_at = due_at"), "is pending and has a time of its end"),
    Case("times", done, TASK.format("started_at = NULL"), "was claimed 1 times and never started"),
    Case("places", pending, "DELETE FROM onceward_ready WHERE task = ?", "is pending and stands in no line"),
    Case("places", retrying, "DELETE FROM onceward_due WHERE task = ?", "is retryable and stands in no line"),
    Case("places", pending, TASK.format("queue = 'other'"), "stands only in default:quiet"),
    Case("places", waiting, TASK.format("due_at = 1"), "waits until a time, but stands in no line"),
    Case("waits", waiting, TASK.format("waiting_for = NULL"), "is waiting and waits for nothing"),
    Case("waits", pending, TASK.format("waiting_for = 'signal:go'"), "is pending and waits for signal:go"),
    Case(
        "checkpoints",
        half_done,
        "DELETE FROM onceward_checkpoint WHERE task = ? AND stage = 'first'",
        "stage first has committed, but its result is not stored",
    ),
    Case(
        "checkpoints",
        half_done,
        "UPDATE onceward_checkpoint SET stage = 'other' WHERE task = ? AND part = ''",
        "a result of stage other is stored that no commit wrote",
    ),
    Case(
        "checkpoints",
        half_done,
        "UPDATE onceward_checkpoint SET stage = 'first' WHERE task = ? AND part = 'cursor'",
        "a cursor of stage first is stored that no commit wrote",
    ),
    Case("checkpoints", half_done, TASK.format("touched = 0"), "a claim would not hand them out"),
    Case("counters", retrying, TASK.format("failures = 0"), "says 0 failures, its log has 1"),
    Case("counters", done, TASK.format("deferrals = 1"), "says 1 deferrals, its log has 0"),
    Case("counters", done, TASK.format("signals = 1"), "says 1 signals, its log has 0"),
    Case(
        "workers",
        running,
        "UPDATE onceward_worker SET stopped_at = 1 WHERE id = (SELECT worker FROM onceward_task WHERE id = ?)",
        "which has stopped",
    ),
    Case(
        "workers",
        running,
        "DELETE FROM onceward_worker WHERE id = (SELECT worker FROM onceward_task WHERE id = ?)",
        "which has no row",
    ),
    Case("descent", second_child, TASK.format("depth = 2"), "has depth 2 and 1 ancestors"),
    Case("descent", second_child, TASK.format("ancestry = NULL"), "has depth 1 and 0 ancestors"),
    Case(
        "descent",
        second_child,
        TASK.format("identity = (SELECT p.identity FROM onceward_task p WHERE p.id = onceward_task.parent)"),
        "has an ancestor that is the same work",
    ),
    Case(
        "descent",
        second_child,
        "UPDATE onceward_task SET depth = 3 WHERE id = (SELECT parent FROM onceward_task WHERE id = ?)",
        "has depth 1, and its parent depth 3",
    ),
    Case(
        "descent",
        second_child,
        TASK.format("lineage = (SELECT o.lineage FROM onceward_task o ORDER BY o.id LIMIT 1)"),
        "is of another lineage than its parent",
    ),
    Case(
        "descent",
        second_child,
        TASK.format("ancestry = (SELECT o.ancestry FROM onceward_task o WHERE o.depth = 1 ORDER BY o.id LIMIT 1)"),
        "has other ancestors than its parent",
    ),
    Case(
        "descent",
        second_child,
        "DELETE FROM onceward_task WHERE id = (SELECT parent FROM onceward_task WHERE id = ?)",
        "that is not there",
    ),
    Case(
        "descent",
        second_child,
        "DELETE FROM onceward_lineage WHERE id = (SELECT lineage FROM onceward_task WHERE id = ?)",
        "its lineage has no row: it could not spawn",
    ),
    Case("children", mother, TASK.format("children = 3"), "says 3 children, there are 2"),
    Case("children", mother, TASK.format("children = 0"), "says 0 children, there are 2"),
    Case(
        "lineages",
        mother,
        "UPDATE onceward_lineage SET tasks = 2 WHERE root = ?",
        "says 2 tasks, there are or were 3",
    ),
    Case(
        "lineages",
        mother,
        "UPDATE onceward_lineage SET max_tasks = 2 WHERE root = ?",
        "has 3 tasks, and its max_tasks is 2",
    ),
    Case(
        "lineages",
        narrowed,
        "UPDATE onceward_lineage SET tasks = 2 WHERE root = ?",
        "says 2 tasks, there are or were 1",
    ),
    Case(
        "lineages",
        second_child,
        TASK.format(
            "identity = (SELECT o.identity FROM onceward_task o"
            " WHERE o.parent = onceward_task.parent AND o.id < onceward_task.id)"
        ),
        "and both are open in one lineage",
    ),
    Case(
        "lineages",
        beyond,
        "UPDATE onceward_lineage SET max_tasks = 1 WHERE root = ?",
        "has 3 tasks, and its max_tasks is 1",
    ),
    Case("lineages", repeated, LOG.format("note = 'limit: no room'", 6), "and both are open in one lineage"),
    Case("lineages", not_unique, LOG.format("note = 'by task 1'", 17), "and both are open in one lineage"),
    Case("lineages", aliased, "DELETE FROM onceward_identity WHERE task = ?", "identity of an alias: no task has it"),
    Case("lineages", aliased, "UPDATE onceward_identity SET task = 0 WHERE task = ?", "an alias: task 0 has it"),
    Case("descent", in_a_circle, LOG.format("note = 'limit: no room'", 6), "has an ancestor that is the same work"),
    Case("pauses", paused_child, TASK.format("paused = 0"), "is open and not paused, but its ancestor"),
    Case("pauses", second_child, TASK.format("paused = 1"), "neither it nor an ancestor was paused"),
    Case("pauses", running, TASK.format("paused = 1"), "is paused, and its log says otherwise"),
    Case("pauses", paused, TASK.format("paused = 0"), "is not paused, and its log says otherwise"),
    Case("pauses", paused, TASK.format("fence = 2"), "was paused at claim 1, and claim 2 took it all the same"),
    Case("joins", mother, "DELETE FROM onceward_join WHERE parent = ?", "none of them is open"),
    Case("joins", mother, "UPDATE onceward_task SET status = 4 WHERE parent = ?", "which has ended"),
    Case("joins", mother, "DELETE FROM onceward_task WHERE parent = ?", "which has ended"),
    Case("joins", mother, "UPDATE onceward_task SET awaited = 0 WHERE parent = ?", "its end would not wake it"),
    Case("joins", mother, TASK.format("waiting_for = 'signal:go'"), "but does not wait for children"),
    Case("batches", in_batch, BATCH.format("open = 2, total = 2"), "counts 2 open tasks, and there are 1"),
    Case("batches", in_batch, BATCH.format("total = 2"), "counts 2 tasks, but 1 open ones and 0 that have ended"),
    Case("batches", in_batch, TASK.format("status = 4"), "counts 1 open tasks, and there are 0"),
    Case("batches", in_batch, BATCH.format("open = 0, failed = 1"), "none of its tasks is: it would never end"),
    Case("batches", in_batch, BATCH.format("ended_at = 1"), "is open and has a time of its end"),
    Case("batches", in_batch, BATCH.format("then_task = 1"), "is followed by a task too early"),
    Case("batches", of_ended_batch, BATCH.format("open = 1, total = 2"), "has ended, and counts 1 open tasks"),
    Case("batches", of_ended_batch, BATCH.format("ended_at = NULL"), "has ended without a time of its end"),
    Case("batches", of_ended_batch, BATCH.format("then_task = NULL"), "was not followed by its task"),
    Case(
        "budgets",
        paid_for,
        "DELETE FROM onceward_budget WHERE name = (SELECT budget FROM onceward_reservation WHERE task = ?)",
        "which is not there",
    ),
    Case("gates", governed, TURN.format("DELETE FROM onceward_turn"), "and it has no turn"),
    Case(
        "gates",
        governed,
        TURN.format(f"UPDATE onceward_turn SET next_at = {NEVER}"),
        "is open: no claim would ever look at it",
    ),
    Case(
        "gates",
        inside,
        "DELETE FROM onceward_task WHERE id = ?",
        "has a place in web/inside, but there is no such task",
    ),
    Case("leftovers", failed, "DELETE FROM onceward_task WHERE id = ?", "there is a log of task"),
    Case("leftovers", done, "DELETE FROM onceward_task WHERE id = ?", "there is a checkpoint of task"),
    Case(
        "integrity",
        waiting,
        "DELETE FROM onceward_blob WHERE hash = (SELECT payload_blob FROM onceward_task WHERE id = ?)",
        "the payload of task",
    ),
    Case(
        "integrity",
        done,
        "DELETE FROM onceward_blob WHERE hash IN (SELECT value_blob FROM onceward_checkpoint WHERE task = ?)",
        "a stored value of task",
    ),
]


def wound(hands: Hands, text: str, task: int) -> None:
    """Do what the database would not allow."""
    if hands.session.dialect == "sqlite":
        hands.sql(text, task)
        return
    hands.sql("BEGIN")
    hands.sql("SET LOCAL session_replication_role = replica")
    hands.sql(text, task)
    hands.sql("COMMIT")


@pytest.mark.untroubled("it breaks rows on a connection that it has set up for that")
def test_every_broken_promise_is_found_and_names_its_task(hands: Hands, subtests: pytest.Subtests) -> None:
    if hands.session.dialect == "sqlite":
        hands.sql("PRAGMA foreign_keys = off")
    assert {case.rule for case in CASES} == {check.name for check in verify(hands.session, hands.now).checks}
    for case in CASES:
        with subtests.test(f"{case.rule}: {case.says}"):
            task = case.task(hands)
            before = verify(hands.session, hands.now).check(case.rule)
            assert told(before, task) == []
            wound(hands, case.wound, task)
            after = verify(hands.session, hands.now).check(case.rule)
            assert any(case.says in sentence for sentence in told(after, task)), told(after, task)
            assert after.broken > before.broken


def told(check: Check, task: int) -> list[str]:
    """What a check says of one task."""
    return [breach.sentence for breach in check.breaches if breach.tasks == (task,)]


def test_a_forgotten_stage_may_commit_again_and_a_kept_one_may_not(hands: Hands) -> None:
    ant = hands.worker()
    [task] = hands.enqueue()
    [lease] = hands.claim(ant)
    hands.commit(lease, Advance("first", b"1", "middle"))
    hands.commit(lease, Advance("middle", b"1", "last"))
    hands.commit(lease, Finish("last", None, FAILED, "broken"))
    hands.do(lambda: task_actions.reopen(task, fresh=False, stage="middle", forget=["middle", "last"], now=hands.now))
    [lease] = hands.claim(ant)
    hands.commit(lease, Advance("middle", b"1", "last"))
    assert verify(hands.session, hands.now).ok
    hands.commit(lease, Advance("first", b"1", "last"))  # the engine trusts its runner; verify does not
    assert told(verify(hands.session, hands.now).check("stages"), task) == [
        f"task {task}: stage first committed twice in run 1"
    ]


def test_breaches_beyond_the_first_hundred_are_counted(hands: Hands) -> None:
    hands.enqueue(150, lineage=uuid.uuid4())
    hands.sql("DELETE FROM onceward_ready")
    check = verify(hands.session, hands.now).check("places")
    assert (check.broken, len(check.breaches), check.checked) == (150, 100, 150)


# The rules alone, over histories that no engine would write.

FACTS = TaskFacts(
    id=1, kind="note", queue="default", status=int(Status.PENDING), run=1, fence=0, token=None, worker=None,
    worker_row=None, worker_stopped_at=None, failures=0, deferrals=0, signals=0, touched=0, created_at=0,
    started_at=None, ended_at=None, waiting_for=None, due_at=0, reason_length=0,
)  # fmt: skip


def replayed(*log: tuple[int, Event, Status], status: Status, fence: int) -> list[str]:
    """What `moves` says of a log of (fence, event, status)."""
    rows = [Logged(1, at_fence, int(event), int(then), "first", None) for at_fence, event, then in log]
    return list(moves(History(FACTS._replace(status=int(status), fence=fence), [], rows, [], [])))


def test_nothing_but_a_reopening_follows_an_end() -> None:
    end = (1, Event.FINISHED, SUCCEEDED)
    assert replayed(end, status=SUCCEEDED, fence=1) == []
    assert replayed(end, (1, Event.LOST, Status.RUNNING), status=SUCCEEDED, fence=1) == []
    assert replayed(end, (1, Event.REOPENED, Status.PENDING), status=Status.RUNNING, fence=2) == []
    for event, then in (
        (Event.FINISHED, FAILED),
        (Event.STAGE_COMMITTED, Status.RUNNING),
        (Event.CANCELLED, Status.CANCELLED),
        (Event.WOKEN, Status.PENDING),
    ):
        assert any("while it was succeeded" in told for told in replayed(end, (1, event, then), status=then, fence=1))
    assert replayed(end, (1, Event.SIGNALLED, Status.RUNNING), status=Status.RUNNING, fence=1)


def test_a_claim_takes_only_what_may_run() -> None:
    parked = (1, Event.PARKED, Status.WAITING)
    assert replayed(parked, status=Status.WAITING, fence=1) == []
    for fence in (2, 3):
        assert replayed(parked, status=Status.RUNNING, fence=fence), "nobody may claim what waits"
    assert replayed(parked, (2, Event.FINISHED, SUCCEEDED), status=SUCCEEDED, fence=2) == [
        "task 1: claim 2 took it while it was waiting"
    ]


def test_a_lease_that_has_ended_writes_nothing_more() -> None:
    released = (1, Event.RELEASED, Status.PENDING)
    assert replayed(released, (1, Event.STAGE_COMMITTED, Status.RUNNING), status=Status.RUNNING, fence=1) == [
        "task 1: “stage committed” made it running while it was pending"
    ]


def test_what_a_reopening_forgets_is_what_it_names_or_what_followed() -> None:
    done = ["first", "middle", "last"]
    assert forgotten(done, "keeping finished stages") == []
    assert forgotten(done, None) == []
    assert forgotten(done, "from stage middle") == ["middle", "last"]
    assert forgotten(done, "from stage never seen") == []
    assert forgotten(done, "from stage new, forgetting new, last") == ["last"]


@pytest.mark.parametrize("column", ["tasks", "fences"])
def test_a_claim_that_cannot_be_read_is_a_breach_and_no_error(hands: Hands, column: str) -> None:
    if hands.session.dialect == "postgres":
        pytest.skip("an array cannot be malformed")
    hands.enqueue()
    hands.claim(hands.worker("ant"))
    hands.sql(f"UPDATE onceward_claim SET {column} = '[1, '")
    [breach] = verify(hands.session, hands.now).check("integrity").breaches
    assert "cannot be read" in breach.sentence
