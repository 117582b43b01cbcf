"""Spawns of several tasks in one transaction: each is decided as if it had come alone, in the order they were asked."""

from __future__ import annotations

import uuid

from onceward import Limits, Status
from onceward.model.lineage import Bounds, Rule, Spawn
from onceward.model.payload import identity
from onceward.model.task import Finish, Lease, NewTask, band_of
from onceward.store import pruning
from onceward.store.asking import Asked, Decision
from onceward.store.roots import enqueue_root
from onceward.store.rows import as_uuid
from onceward.store.spawning import spawn
from onceward.store.verify import verify
from onceward.worker.spawner import key_hash
from tests.store.children import DEFAULTS, child, commit, joining
from tests.store.conftest import Hands

DONE = Finish("last", b"1", Status.SUCCEEDED, None)


def root(hands: Hands, worker: int, key: str, limits: Limits | None = None) -> Lease:
    """A running root, with limits of its lineage."""
    bounds = DEFAULTS.replaced(limits or Limits())
    task = NewTask(
        kind="note", version=1, queue="default", band=band_of(0), key=key, identity=identity("note", key),
        payload=b"{}", lineage=uuid.uuid4(), due_at=hands.now, created_at=hands.now, bounds=bounds,
    )  # fmt: skip
    hands.do(lambda: enqueue_root(task, hands.now))
    [lease] = hands.claim(worker)
    return lease


def ask(hands: Hands, *asked: tuple[Lease, Spawn], defaults: Bounds = DEFAULTS) -> list[Decision]:
    """All of it in one transaction."""
    wanted = [Asked(lease, "first", key_hash(str(lease.task)), defaults, one) for lease, one in asked]
    return hands.do(lambda: spawn(wanted, hands.now)).decisions


def rules(decisions: list[Decision]) -> list[Rule | None]:
    return [None if one.refused is None else one.refused.rule for one in decisions]


def assert_verified(hands: Hands) -> None:
    report = verify(hands.session, hands.now)
    assert [breach.sentence for check in report.checks for breach in check.breaches] == []


def test_whoever_is_refused_for_want_of_room_keeps_nobody_else_out(hands: Hands) -> None:
    ant = hands.worker()
    full, free = root(hands, ant, "full", Limits(max_tasks=1)), root(hands, ant, "free")
    company = child("company", unique="everywhere")
    first, second = ask(hands, (full, company), (free, company))
    assert (first.task, rules([first])) == (None, [Rule.LIMIT])
    assert second.is_new
    assert_verified(hands)


def test_a_full_family_keeps_no_other_family_of_its_lineage_out(hands: Hands) -> None:
    ant = hands.worker()
    top = root(hands, ant, "top")
    ask(hands, (top, child("left")), (top, child("right")))
    left, right = hands.claim(ant)
    hands.sql("UPDATE onceward_task SET limits = ? WHERE id = ?", b"[10,0,172800000,10000]", left.task)
    first, second = ask(hands, (left, child("same")), (right, child("same")))
    assert rules([first, second]) == [Rule.LIMIT, None]
    assert second.is_new
    assert_verified(hands)


def test_a_child_stays_its_parents_own_when_a_stranger_asks_at_the_same_time(hands: Hands) -> None:
    ant = hands.worker()
    top = root(hands, ant, "top")
    ask(hands, (top, child("left")), (top, child("right")))
    left, right = hands.claim(ant)
    [mine] = ask(hands, (left, child("same")))
    stranger, own = ask(hands, (right, child("same")), (left, child("same")))
    assert stranger.refused is not None
    assert (stranger.refused.rule, stranger.refused.existing) == (Rule.DUPLICATE, mine.task)
    assert (own.task, own.is_new, own.refused) == (mine.task, False, None)
    assert hands.sql("SELECT parent, child FROM onceward_link") == [(right.task, mine.task)]
    assert_verified(hands)


def test_work_that_a_lineage_has_done_is_done_whatever_others_begin_at_the_same_time(hands: Hands) -> None:
    ant = hands.worker()
    one, other = root(hands, ant, "one"), root(hands, ant, "other")
    company = child("company", unique="everywhere")
    ask(hands, (one, company), (one, child("left")))
    did, left = hands.claim(ant)
    hands.commit(did, DONE)
    began, again = ask(hands, (other, company), (left, company))
    assert began.is_new
    assert rules([again]) == [Rule.DONE]
    assert_verified(hands)


def test_many_children_that_are_alike_are_what_few_are(hands: Hands) -> None:
    ant = hands.worker()
    top = root(hands, ant, "top", Limits(max_tasks=40))
    decisions = ask(hands, *((top, child(f"many {n}", due_at=hands.now - 5)) for n in range(30)), (top, child("one")))
    ids = [decision.task for decision in decisions]
    rows = hands.sql(
        "SELECT id, kind, key, parent, depth, due_at, created_at, limits IS NULL FROM onceward_task"
        " WHERE depth = 1 ORDER BY id"
    )
    keys = [*(f"many {n}" for n in range(30)), "one"]
    assert [tuple(row) for row in rows] == [
        (task, "note", key, top.task, 1, hands.now, hands.now, False) for task, key in zip(ids, keys, strict=True)
    ]
    [told] = hands.sql("SELECT task, fence, status, worker, at, note FROM onceward_attempt WHERE event = 17")
    named = ", ".join(map(str, ids[:20]))
    note = f"31 tasks at depth 1 of lineage {top.lineage}: {named} and 11 more"
    assert tuple(told) == (top.task, 1, int(Status.RUNNING), ant, hands.now, note)
    assert len(hands.claim(ant)) == 31
    assert_verified(hands)


def test_a_lineage_goes_on_counting_what_was_pruned(hands: Hands) -> None:
    ant = hands.worker()
    top = root(hands, ant, "top", Limits(max_tasks=4))
    commit(hands, top, "top", joining("first", "last"), child("middle"))
    [middle] = hands.claim(ant)
    commit(hands, middle, "middle", DONE, child("a"), child("b", max_tasks=2))
    [top] = [lease for lease in hands.claim(ant) if lease.task == top.task or not hands.commit(lease, DONE)]
    hands.later(1_000)
    assert pruning.prune(hands.session, hands.now, hands.now).tasks == 2
    [(lineage, tasks, pruned)] = hands.sql("SELECT id, tasks, pruned FROM onceward_lineage")
    assert (as_uuid(lineage), tasks, pruned) == (top.lineage, 4, 2), "the narrower scope of b is gone with it"
    assert rules(ask(hands, (top, child("c")))) == [Rule.LIMIT], "a limit is about all there ever were"
    assert_verified(hands)
    hands.commit(top, DONE)
    hands.later(1_000)
    pruning.prune(hands.session, hands.now, hands.now)
    assert_verified(hands)
