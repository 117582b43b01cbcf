"""Spawns of several tasks in one transaction where nothing is in the way: all are decided at a stroke, and what comes
of it is what comes of them one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceward import Limits
from onceward.model.lineage import EVERYWHERE, Family, Rule, Spawn
from onceward.model.payload import identity
from onceward.model.task import Advance, Commit, Lease
from onceward.store.attempts import commits
from onceward.store.lineage.joins import read_families
from onceward.store.lineage.spawn_guard import take_identities
from tests.store.children import child, together
from tests.store.conftest import Hands
from tests.store.test_spawning_together import ask, assert_verified, root, rules

ON = Advance("first", b"1", "last")

Asks = tuple[Lease, list[Spawn]]


def go_on(hands: Hands, *asks: Asks, writes: tuple[Any, ...] = ()) -> list[commits.CommitAnswer]:
    """What tasks hear that go on to their last stage, after all have asked in one transaction; the first one writes."""
    wanted = [
        Commit(lease, ON, writes if place == 0 else (), together(str(lease.task), *children))
        for place, (lease, children) in enumerate(asks)
    ]
    return hands.do(lambda: commits.commit(wanted, hands.now))


def stored(hands: Hands, *asks: Asks) -> list[Family]:
    """What the database says of the children of tasks."""
    families = hands.do(lambda: read_families([lease.task for lease, _ in asks]))
    return [families[lease.task] for lease, _ in asks]


def several(name: str, count: int = 12) -> list[Spawn]:
    return [child(f"{name} {number}") for number in range(count)]


def test_what_tasks_hear_of_their_children_at_once_is_what_is_stored(hands: Hands) -> None:
    ant = hands.worker()
    asks = [(root(hands, ant, name), several(name)) for name in ("one", "other")]
    heard = go_on(hands, *asks)
    assert heard == stored(hands, *asks)
    assert [len(family.children) for family in heard if isinstance(family, Family)] == [12, 12]


def test_a_task_that_has_asked_before_hears_of_all_its_children(hands: Hands) -> None:
    ant = hands.worker()
    before, never = root(hands, ant, "before"), root(hands, ant, "never")
    ask(hands, (before, child("first")))
    asks = [(before, several("before")), (never, several("never"))]
    heard = go_on(hands, *asks)
    assert heard == stored(hands, *asks)
    assert [len(family.children) for family in heard if isinstance(family, Family)] == [13, 12]


def test_a_task_that_was_linked_before_hears_of_that_too(hands: Hands) -> None:
    ant = hands.worker()
    holder, linked = root(hands, ant, "holder"), root(hands, ant, "linked")
    company = child("company", unique="everywhere")
    [held] = ask(hands, (holder, company))
    ask(hands, (linked, company))
    asks = [(linked, several("linked"))]
    heard = go_on(hands, *asks)
    assert heard == stored(hands, *asks)
    assert next(one.task for family in heard if isinstance(family, Family) for one in family.children) == held.task


def test_a_task_hears_of_refusals_though_others_ask_beside_it(hands: Hands) -> None:
    ant = hands.worker()
    tight, free = root(hands, ant, "tight", Limits(max_tasks=3)), root(hands, ant, "free")
    asks = [(tight, several("tight", 4)), (free, several("free"))]
    heard = go_on(hands, *asks)
    assert heard == stored(hands, *asks)
    told = [one.rule for family in heard if isinstance(family, Family) for one in family.children]
    assert told == [None, None, "limit", "limit"] + [None] * 12


def test_who_writes_rows_of_its_own_hears_of_its_children_too(hands: Hands) -> None:
    ant = hands.worker()
    asks = [(root(hands, ant, name), several(name)) for name in ("writes", "does not")]
    heard = go_on(hands, *asks, writes=((lambda connection: None, ()),))
    assert heard == stored(hands, *asks)


def limited_to_tasks(tasks: int) -> Limits:
    return Limits(max_tasks=1 + tasks)


def limited_to_children(children: int) -> Limits:
    return Limits(max_children=children)


@pytest.mark.parametrize("limit", [limited_to_tasks, limited_to_children])
@pytest.mark.parametrize("too_few", [0, 1])
def test_as_many_as_there_is_room_for_are_let_in_to_the_last(
    hands: Hands, limit: Callable[[int], Limits], too_few: int
) -> None:
    ant = hands.worker()
    tight, free = root(hands, ant, "tight", limit(20 - too_few)), root(hands, ant, "free")
    asked = [(lease, child(f"{lease.task} {number}")) for number in range(10) for lease in (tight, free)] + [
        (tight, child(f"more {number}")) for number in range(10)
    ]
    decisions = ask(hands, *asked)
    assert rules(decisions) == [None] * (30 - too_few) + [Rule.LIMIT] * too_few
    made = [decision.task for decision in decisions if decision.task is not None]
    assert made == sorted(made), "they are numbered as they were asked for"
    assert hands.sql("SELECT tasks FROM onceward_lineage ORDER BY tasks") == [(11,), (21 - too_few,)]
    assert_verified(hands)


def test_children_of_several_tasks_take_turns_in_line_as_they_were_asked_for(hands: Hands) -> None:
    ant = hands.worker()
    one, other = root(hands, ant, "one"), root(hands, ant, "other")
    decisions = ask(hands, *[(one, two) for two in several("one", 9)], *[(other, two) for two in several("other", 9)])
    made = [decision.task for decision in decisions]
    in_turn = [task for pair in zip(made[:9], made[9:], strict=True) for task in pair]
    assert [lease.task for lease in hands.claim(ant)] == in_turn


def test_children_of_several_sorts_keep_their_numbers_and_what_is_their_own(hands: Hands) -> None:
    ant = hands.worker()
    top = root(hands, ant, "top")
    wanted = [
        child(f"{number}", kind="note" if number % 2 else "memo", due_at=hands.now + 7 if number % 3 == 0 else 0)
        for number in range(60)
    ]
    decisions = ask(hands, *((top, one) for one in wanted))
    rows = hands.sql("SELECT id, kind, key, due_at FROM onceward_task WHERE depth = 1 ORDER BY id")
    assert [tuple(row) for row in rows] == [
        (decision.task, one.sort.kind, one.key, one.sort.due_at or hands.now)
        for decision, one in zip(decisions, wanted, strict=True)
    ]
    assert_verified(hands)


@pytest.mark.parametrize("count", [0, 1, 2, 150])
def test_the_holder_of_an_identity_keeps_it_and_is_named(hands: Hands, count: int) -> None:
    wanted = {(EVERYWHERE, identity("note", str(number))): 1_000 + number for number in range(count)}
    assert hands.do(lambda: take_identities(wanted)) == {}
    more = {(EVERYWHERE, identity("note", str(number))): 2_000 + number for number in range(0, 2 * count, 2)}
    met = hands.do(lambda: take_identities(more))
    assert met == {one: task for one, task in wanted.items() if one in more}
    assert hands.do(lambda: take_identities(more)) == met, "those that were free are ours, those of others are theirs"
