"""Tasks that go by several keys: an alias is met, linked to, given up, taken back and pruned like a task's own key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceward import Connection, Context, Failed, IllegalTransition, Limits, Retry, Status, Waiting
from onceward.testing import Harness
from tests.worker.conftest import Start
from tests.worker.test_spawning import Follow, Image, Page, images, keys, left_of_lineages, refusals, site

EVERYWHERE: dict[str, Any] = {"unique": "everywhere", "retry": Retry(retries=0)}


def moved(then: Callable[[Context[Page]], None] = lambda _: None, **names: str) -> Follow:
    """Pages that have moved: each goes by where it is now, and what follows begins after that is known."""

    def move(ctx: Context[Page]) -> None:
        if (name := names.get(ctx.payload.name)) is not None:
            ctx.alias(name)
            ctx.checkpoint("moved")
        then(ctx)

    return move


def waiting(ctx: Context[Page]) -> None:
    """Wait to be told to go on."""
    if ctx.payload.name != "home" and ctx.signal("go") is None:
        raise Waiting(until="go")


def rules(harness: Harness) -> list[str]:
    """By which rules children were refused."""
    return [rule for _, rule, _, _ in refusals(harness)]


def sound(harness: Harness) -> bool:
    """Whether nothing is wrong in the database."""
    return harness.app.verify().ok


# Everywhere


def test_a_root_is_linked_to_the_open_task_that_goes_by_its_key(start: Start) -> None:
    harness = start(site(moved(waiting, old="new"), **EVERYWHERE))
    old = harness.enqueue(Page("old"))
    harness.drain()

    new = harness.enqueue(Page("new"))

    assert (bool(new), new.created, new.existing) == (True, False, old.id)
    assert keys(harness) == {"old": 1}
    assert sound(harness)


def test_a_root_of_a_batch_is_linked_to_it_as_well(start: Start) -> None:
    harness = start(site(moved(waiting, old="new"), **EVERYWHERE))
    harness.enqueue(Page("old"))
    harness.drain()
    with harness.app.batch("night") as batch:
        batch.add(Page("new"))
        batch.add(Page("other"))
    assert keys(harness) == {"old": 1, "other": 1}


def test_open_work_of_an_older_system_is_folded_into_it(start: Start) -> None:
    harness = start(site(moved(waiting, old="new"), **EVERYWHERE))
    harness.enqueue(Page("old"))
    harness.drain()
    done = harness.app.tasks.import_items([{"id": 1, "name": "new"}, {"id": 2, "name": "other"}], kind="page")
    assert done.problems == ()
    assert keys(harness) == {"old": 1, "other": 1}


def test_a_child_is_linked_to_it_joined_and_found_by_what_was_asked_for(start: Start) -> None:
    seen: list[Any] = []

    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            assert ctx.spawn(Page("new"))

    def tell(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            new = ctx.outcome(Page("new"))
            seen.append((new.task, new.key, new.status, [(child.task, child.key) for child in ctx.children]))
            assert ctx.outcome(Page("old")).task == new.task, "by its own key as well"

    pages = site(moved(waiting, old="new"), follow, **EVERYWHERE)
    pages.stage(join=True)(tell)
    harness = start(pages)
    old = harness.enqueue(Page("old"))
    harness.drain()
    home = harness.enqueue(Page("home"))
    harness.drain()
    assert harness.task(home).status is Status.WAITING
    assert harness.task(home).waiting_for == "children"

    harness.app.tasks.signal(old.id, "go", True)
    harness.drain()

    assert harness.task(home).status is Status.SUCCEEDED, harness.task(home).reason
    assert seen == [(old.id, "new", "succeeded", [(old.id, "new")])]
    assert (keys(harness), rules(harness)) == ({"old": 1, "home": 1}, [])
    assert sound(harness)


def test_one_that_was_asked_for_by_two_of_its_keys_is_one_child_with_two_outcomes(start: Start) -> None:
    seen: list[Any] = []

    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("old"))
            ctx.spawn(Page("new"))

    def tell(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            seen.append([ctx.outcome(Page(name)).task for name in ("old", "new")])
            seen.append([child.key for child in ctx.children])

    pages = site(moved(waiting, old="new"), follow, tell, **EVERYWHERE)
    harness = start(pages)
    old = harness.enqueue(Page("old"))
    harness.drain()
    harness.enqueue(Page("home"))
    harness.drain()
    assert seen == [[old.id, old.id], ["old"]]


@pytest.mark.parametrize(("fresh_for", "is_linked"), [(None, False), ("1h", True)])
def test_one_that_has_succeeded_keeps_its_other_key_as_long_as_it_is_fresh(
    start: Start, fresh_for: str | None, is_linked: bool
) -> None:
    harness = start(site(moved(old="new"), fresh_for=fresh_for, **EVERYWHERE))
    old = harness.enqueue(Page("old"))
    harness.drain()
    assert harness.enqueue(Page("new")).existing == (old.id if is_linked else None)
    harness.drain()
    harness.advance("2h")
    assert harness.enqueue(Page("new")).created
    assert sound(harness)


def test_an_alias_that_is_given_with_the_last_stage_counts_as_well(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        ctx.alias("new")

    harness = start(site(follow, fresh_for="1h", **EVERYWHERE))
    old = harness.enqueue(Page("old"))
    harness.drain()
    assert harness.enqueue(Page("new")).existing == old.id


def test_one_that_was_cancelled_or_has_failed_gives_its_other_key_up(start: Start) -> None:
    def fail(ctx: Context[Page]) -> None:
        if ctx.payload.name == "failing":
            raise Failed("broken")
        waiting(ctx)

    harness = start(site(moved(fail, failing="a", cancelled="b"), fresh_for="1h", **EVERYWHERE))
    harness.enqueue(Page("failing"))
    cancelled = harness.enqueue(Page("cancelled"))
    harness.drain()
    harness.app.tasks.cancel(cancelled.id)
    assert [harness.enqueue(Page(name)).created for name in "ab"] == [True, True]
    assert [harness.enqueue(Page(name)).created for name in "ab"] == [False, False]
    assert sound(harness)


def test_the_holder_of_a_key_keeps_it_from_tasks_that_take_it_as_an_alias(start: Start) -> None:
    harness = start(site(moved(waiting, old="new"), **EVERYWHERE))
    new, old = harness.enqueue(Page("new")), harness.enqueue(Page("old"))
    harness.drain()
    assert harness.enqueue(Page("new")).existing == new.id

    harness.app.tasks.cancel(old.id)
    harness.app.tasks.retry(old.id)  # it never had that key: nobody stands in its way

    harness.drain()
    assert harness.task(old).status is Status.WAITING
    assert harness.enqueue(Page("new")).existing == new.id
    assert sound(harness)


def test_a_key_of_a_task_that_is_long_over_is_taken_over_by_an_alias(start: Start) -> None:
    harness = start(site(moved(waiting, old="new"), **EVERYWHERE))
    new = harness.enqueue(Page("new"))
    harness.drain()
    harness.app.tasks.cancel(new.id)
    old = harness.enqueue(Page("old"))
    harness.drain()
    assert harness.enqueue(Page("new")).existing == old.id
    with pytest.raises(IllegalTransition, match=f"task {old.id} is at the same work now"):
        harness.app.tasks.retry(new.id)
    assert sound(harness)


# Opening again


def test_a_task_that_is_opened_again_takes_its_other_key_back(start: Start) -> None:
    harness = start(site(moved(waiting, old="new"), **EVERYWHERE))
    old = harness.enqueue(Page("old"))
    harness.drain()
    harness.app.tasks.cancel(old.id)
    new = harness.enqueue(Page("new"))
    harness.drain()
    with pytest.raises(IllegalTransition, match=f"task {new.id} is at the same work now"):
        harness.app.tasks.retry(old.id)
    assert harness.task(old).status is Status.CANCELLED

    harness.app.tasks.cancel(new.id)
    harness.app.tasks.retry(old.id)

    assert harness.enqueue(Page("new")).existing == old.id
    with pytest.raises(IllegalTransition, match=f"task {old.id} is at the same work now"):
        harness.app.tasks.retry(new.id)
    assert sound(harness)


def test_a_task_takes_its_key_back_also_where_no_holder_is_left(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("old"))
            ctx.checkpoint("asked")
        raise Waiting(until="go")

    harness = start(site(moved(follow, old="new"), **EVERYWHERE))
    harness.app.enqueue(Page("home"), limits=Limits(deadline="100d"))
    harness.drain()
    [old] = [task for task in harness.app.tasks.list() if task.key == "old"]
    harness.app.tasks.cancel(old.id)
    new = harness.enqueue(Page("new"))
    harness.app.tasks.cancel(new.id)
    harness.advance("40d")
    assert harness.app.tasks.prune().tasks == 1, "who has asked for the old one may still ask for it"

    harness.app.tasks.retry(old.id)

    assert harness.enqueue(Page("new")).existing == old.id
    assert sound(harness)


# Circles


def test_a_child_by_another_key_of_the_task_that_asks_is_a_circle(start: Start) -> None:
    answers: list[bool] = []

    def follow(ctx: Context[Page]) -> None:
        ctx.alias("new")
        answers.append(bool(ctx.spawn(Page("new"))))
        ctx.checkpoint("asked")
        answers.append(bool(ctx.spawn(Page("new"))))

    def later(ctx: Context[Page]) -> None:
        ctx.spawn(Page("new"))
        assert ctx.outcome(Page("new")).rule == "cycle"

    harness = start(site(follow, later, unique="no", retry=Retry(retries=0)))
    home = harness.enqueue(Page("home"))
    harness.drain()
    assert harness.task(home).status is Status.SUCCEEDED, harness.task(home).reason
    assert answers == [False, False], "what its stage has said is known at once"
    assert keys(harness) == {"home": 1}
    why = "the spawning task itself is the same work (page 'new')"
    assert [(rule, reason) for _, rule, reason, _ in refusals(harness)] == [("cycle", why)] * 3


@pytest.mark.parametrize("unique", ["lineage", "everywhere", "no"])
def test_so_is_one_by_another_key_of_an_ancestor(start: Start, unique: Any) -> None:
    def follow(ctx: Context[Page]) -> None:
        ctx.spawn(Page({"home": "child", "child": "grandchild"}.get(ctx.payload.name, "new")))

    harness = start(site(moved(follow, home="new"), unique=unique))
    home = harness.enqueue(Page("home"))
    harness.drain()
    assert keys(harness) == {"home": 1, "child": 1, "grandchild": 1}
    [(_, rule, reason, _)] = refusals(harness)
    assert rule == "cycle"
    assert reason == f"its ancestor, task {home.id}, is the same work (page 'new')"


def test_it_is_one_too_if_the_ancestor_came_to_go_by_that_key_later(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("child"))

    def go_by(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.alias("new")
        elif ctx.signal("go") is None:
            raise Waiting(until="go")

    def follow_on(ctx: Context[Page]) -> None:
        if ctx.payload.name == "child":
            ctx.spawn(Page("new"))

    harness = start(site(follow, go_by, follow_on, unique="no"))
    harness.enqueue(Page("home"))
    harness.drain()
    [child] = [task for task in harness.app.tasks.list() if task.key == "child"]
    harness.app.tasks.signal(child.id, "go", True)
    harness.drain()
    assert (keys(harness), rules(harness)) == ({"home": 1, "child": 1}, ["cycle"])


def test_by_key_a_circle_goes_through_other_kinds(start: Start) -> None:
    answers: list[bool] = []

    def follow(ctx: Context[Page]) -> None:
        ctx.alias("new")
        answers.append(bool(ctx.spawn(Image("new"))))

    def later(ctx: Context[Page]) -> None:
        ctx.spawn(Image("new"))
        ctx.spawn(Image("other"))

    harness = start(site(follow, later, cycle="key"), images(cycle="key"))
    harness.enqueue(Page("home"))
    harness.drain()
    assert answers == [False]
    assert keys(harness) == {"home": 1, "other": 1}
    assert [(rule, reason) for _, rule, reason, _ in refusals(harness)] == [
        ("cycle", "the spawning task itself has the same key 'new'")
    ] * 2


def test_an_alias_is_of_its_own_kind(start: Start) -> None:
    harness = start(site(moved(lambda ctx: ctx.spawn(Image("new")) and None, home="new")), images())
    harness.enqueue(Page("home"))
    harness.drain()
    assert keys(harness) == {"home": 1, "new": 1}


def test_an_ancestor_that_was_pruned_is_remembered_by_its_other_key(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("child"))
        else:
            waiting(ctx)
            ctx.spawn(Page("new"))

    harness = start(site(moved(follow, home="new"), unique="no"))
    harness.app.enqueue(Page("home"), limits=Limits(deadline="100d"))
    harness.drain()
    harness.advance("40d")
    assert harness.app.tasks.prune().tasks == 1
    [child] = harness.app.tasks.list()
    harness.app.tasks.signal(child.id, "go", True)
    harness.drain()
    assert (keys(harness), rules(harness)) == ({"child": 1}, ["cycle"])
    harness.advance("40d")
    harness.app.tasks.prune()
    assert left_of_lineages(harness) == [0] * 7


# What is written, and found


def test_its_own_key_is_no_other_key(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        ctx.alias(ctx.payload.name)

    harness = start(site(follow, **EVERYWHERE))
    harness.enqueue(Page("home"))
    harness.drain()
    assert aliases(harness) == []


def test_a_task_is_found_by_its_other_keys(start: Start) -> None:
    harness = start(site(moved(old="new"), unique="no"))
    old = harness.enqueue(Page("old"))
    new = harness.enqueue(Page("new"))
    harness.drain()
    assert [task.id for task in harness.app.tasks.find(Page("new")).tasks] == [new.id, old.id]
    assert [task.id for task in harness.app.tasks.find(Page("new"), harness.task(old).lineage).tasks] == [old.id]


def test_what_it_had_everywhere_is_dropped_with_it(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("child"))
        else:
            waiting(ctx)

    harness = start(site(moved(follow, home="new"), fresh_for="100d", **EVERYWHERE))
    harness.app.enqueue(Page("home"), limits=Limits(deadline="100d"))
    harness.drain()
    harness.advance("40d")
    assert harness.app.tasks.prune().tasks == 1, "its child is open, and its lineage is left"
    assert harness.enqueue(Page("new")).created
    assert sound(harness)


def aliases(harness: Harness) -> list[tuple[Any, ...]]:
    """What is stored of other keys."""

    def read(connection: Connection) -> list[tuple[Any, ...]]:
        rows = connection.execute("SELECT task, key, here, everywhere FROM onceward_alias ORDER BY 1, 2")
        return [tuple(row) for row in rows]

    return harness.app.read(read)


@pytest.mark.parametrize(("unique", "places"), [("lineage", (1, 0)), ("everywhere", (1, 1)), ("no", (0, 0))])
def test_an_alias_stands_where_the_own_key_stands(start: Start, unique: Any, places: tuple[int, int]) -> None:
    harness = start(site(moved(waiting, old="new"), unique=unique))
    old = harness.enqueue(Page("old"))
    harness.drain()
    assert aliases(harness) == [(old.id, "new", *places)]
