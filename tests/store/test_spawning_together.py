"""Spawns of several tasks in one transaction: each is decided as if it had come alone, in the order they were asked."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from onceward import Limits, Status
from onceward.authoring.child_builder import key_hash
from onceward.model.lineage import Bounds, Rule, Spawn, Spawns
from onceward.model.payload import identity
from onceward.model.task import Advance, Commit, Finish, Lease, Move, NewTask, band_of
from onceward.store.attempts import commits
from onceward.store.lineage.spawn_guard import spawn
from onceward.store.lineage.spawn_requests import Decision, SpawnRequest
from onceward.store.lineage.unique_roots import enqueue_root
from onceward.store.op import Op
from onceward.store.operations import pruning
from onceward.store.rows import as_uuid
from onceward.store.verify.verify import verify
from tests.store.children import DEFAULTS, child, commit, joining, known_as, together
from tests.store.conftest import Hands

DONE = Finish("last", b"1", Status.SUCCEEDED, None)
ON = Advance("first", b"1", "second")


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
    wanted = [SpawnRequest(lease, "first", key_hash(str(lease.task)), defaults, one) for lease, one in asked]
    return hands.do(lambda: spawn(wanted, hands.now)).decisions


def rules(decisions: list[Decision]) -> list[Rule | None]:
    return [None if one.refused is None else one.refused.rule for one in decisions]


def assert_verified(hands: Hands) -> None:
    report = verify(hands.session, hands.now)
    assert [breach.sentence for check in report.checks for breach in check.breaches] == []


def test_a_child_refused_for_want_of_room_keeps_no_other_out(hands: Hands) -> None:
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


def hand_in(hands: Hands, *handed_in: tuple[Lease, Spawns], move: Move = ON) -> None:
    """The stages of several tasks in one transaction."""
    stages = [Commit(lease, move, (), spawns) for lease, spawns in handed_in]
    assert all(hands.do(lambda: commits.commit(stages, hands.now)))


def two_children(hands: Hands) -> tuple[Lease, Lease, Lease]:
    """A running root and its two children."""
    ant = hands.worker()
    top = root(hands, ant, "top")
    ask(hands, (top, child("left")), (top, child("right")))
    left, right = sorted(hands.claim(ant), key=lambda lease: lease.task)
    return top, left, right


def got(hands: Hands) -> list[tuple[object, ...]]:
    """Who goes by which other keys, and where it has got them."""
    return [tuple(row) for row in hands.sql("SELECT task, key, here, everywhere FROM onceward_alias ORDER BY 1, 2")]


def test_an_alias_is_met_by_a_child_that_another_task_asks_for_in_the_same_transaction(hands: Hands) -> None:
    _, left, right = two_children(hands)
    hand_in(
        hands,
        (right, together("right", child("same"), child("other"))),
        (left, known_as(together("left", child("of left")), "same")),
    )
    assert hands.sql("SELECT key FROM onceward_task WHERE depth = 2 ORDER BY key") == [("of left",), ("other",)]
    assert hands.sql("SELECT parent, rule, existing FROM onceward_refusal") == [(right.task, "duplicate", left.task)]
    assert hands.sql("SELECT parent, child FROM onceward_link") == [(right.task, left.task)]
    assert got(hands) == [(left.task, "same", 1, 0)]
    assert_verified(hands)


def test_so_it_is_in_another_lineage(hands: Hands) -> None:
    ant = hands.worker()
    left, right = root(hands, ant, "left"), root(hands, ant, "right")
    hand_in(
        hands,
        (right, together("right", child("same", unique="everywhere"))),
        (left, known_as(together("left"), "same", unique="everywhere")),
    )
    assert hands.sql("SELECT parent, child FROM onceward_link") == [(right.task, left.task)]
    assert hands.sql("SELECT count(*) FROM onceward_task") == [(2,)]
    assert_verified(hands)


def test_of_two_that_come_to_go_by_one_key_together_the_first_has_it(hands: Hands) -> None:
    _, left, right = two_children(hands)
    both = [(lease, known_as(together("", child(f"of {lease.task}")), "same")) for lease in (right, left)]
    hand_in(hands, *both)
    first = hands.sql("SELECT task FROM onceward_identity WHERE hash = ?", identity("note", "same"))
    assert got(hands) == [(task, "same", int([(task,)] == first), 0) for task in (left.task, right.task)]
    hand_in(hands, *both, move=Advance("second", b"1", "third"))
    assert got(hands) == [(task, "same", int([(task,)] == first), 0) for task in (left.task, right.task)]
    assert_verified(hands)


def test_an_alias_is_kept_though_all_children_that_come_with_it_are_refused(hands: Hands) -> None:
    _, left, _ = two_children(hands)
    hand_in(hands, (left, known_as(together("left", child("top"), child("same")), "same")))
    assert hands.sql("SELECT rule, ancestor FROM onceward_refusal ORDER BY id") == [
        ("cycle", hands.sql("SELECT min(id) FROM onceward_task")[0][0]),
        ("cycle", left.task),
    ]
    assert got(hands) == [(left.task, "same", 1, 0)]


def test_an_ancestor_goes_by_what_its_stage_says_in_the_same_transaction(hands: Hands) -> None:
    top, left, right = two_children(hands)
    hand_in(hands, (left, together("left", child("same", unique="no"))), (top, known_as(together("top"), "same")))
    assert hands.sql("SELECT rule, ancestor FROM onceward_refusal") == [("cycle", top.task)]
    hand_in(hands, (right, together("right", child("same", unique="no"))))
    assert hands.sql("SELECT rule, ancestor FROM onceward_refusal") == [("cycle", top.task)] * 2
    assert_verified(hands)


def test_who_has_no_aliases_in_its_lineage_is_asked_nothing_about_them(hands: Hands) -> None:
    _, left, right = two_children(hands)
    far = root(hands, hands.worker("bee"), "far")
    hand_in(hands, (far, known_as(together("far"), "same", unique="everywhere")))
    asked = [SpawnRequest(left, "first", key_hash("left"), DEFAULTS, child("of left"))]
    assert "aliases_of" not in statements(hands, lambda: spawn(asked, hands.now))
    hand_in(hands, (right, known_as(together("right"), "new")))
    again = [SpawnRequest(left, "first", key_hash("left"), DEFAULTS, child("another"))]
    assert "aliases_of" in statements(hands, lambda: spawn(again, hands.now))


def statements(hands: Hands, operation: Callable[[], Op[object]]) -> list[str]:
    """The names of what an operation asks the database."""
    names: list[str] = []

    def watched() -> Op[object]:
        inner = operation()
        try:
            wanted = next(inner)
            while True:
                names.append(wanted.name)
                wanted = inner.send((yield wanted))
        except StopIteration as ended:
            return ended.value

    hands.do(watched)
    return names
