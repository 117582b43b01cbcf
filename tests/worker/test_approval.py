"""Children about which an operator is asked: made although a rule refuses them, they wait, and go on when approved."""

from __future__ import annotations

import re
from typing import Any

import pytest

from onceward import Config, Context, IllegalTransition, Limits, Payload, Pipeline, Rule, Status, StopList, Task
from onceward.model.lineage import Refused, parked_note, rules_in
from onceward.store.lineage.insert_children import REFUSALS_KEPT
from onceward.testing import Harness
from tests.worker.conftest import Start, words

ASK = {rule.value: "park" for rule in Rule if rule is not Rule.BUDGET}  # a spent budget is raised, not approved


class Page(Payload, kind="page"):
    """A page, and what it leads to: at first, in the next stage, and when all of that has ended."""

    name: str
    links: tuple[Page, ...] = ()
    again: tuple[Page, ...] = ()
    late: tuple[Page, ...] = ()

    def key(self) -> str:
        return self.name


def pages(refused: dict[str, Any], limits: Limits | None = None, **options: Any) -> Pipeline[Page]:
    """Pages that follow their links, and in the end wait for all that came of it."""
    page = Pipeline(Page, refused=refused, **options)

    @page.stage
    def follow(ctx: Context[Page]) -> None:
        for link in ctx.payload.links:
            ctx.spawn(link, limits=limits if link.name == "narrow" else None)

    @page.stage
    def follow_again(ctx: Context[Page]) -> None:
        for link in ctx.payload.again:
            ctx.spawn(link)

    @page.stage(join=True)
    def gather(ctx: Context[Page]) -> list[str]:
        for link in ctx.payload.late:
            ctx.spawn(link)
        return sorted(f"{child.key} {child.status}" for child in ctx.children)

    return page


def asked(harness: Harness) -> list[Task]:
    """The tasks that wait for approval, the oldest first."""
    waiting = harness.app.tasks.list(status="waiting", limit=1_000)
    return sorted((task for task in waiting if task.waiting_for == "signal:approved"), key=lambda task: task.id)


def approve(harness: Harness, task: Task) -> None:
    harness.app.tasks.signal(task.id, "approved")
    harness.drain()


def rows(harness: Harness, sql: str) -> list[Any]:
    return harness.app.read(lambda connection: [tuple(row) for row in connection.execute(sql)])


def refusals(harness: Harness) -> list[tuple[str, str]]:
    """The rules by which children were refused, and why."""
    return rows(harness, "SELECT rule, reason FROM onceward_refusal ORDER BY id")


HOME = {
    Rule.DEPTH: Page("home", (Page("deep"),)),
    Rule.STOPPED: Page("home", (Page("bad"),)),
    Rule.CYCLE: Page("home", (Page("home"),)),
    Rule.DUPLICATE: Page("home", (Page("a", (Page("b"),)), Page("b"))),
    Rule.DONE: Page("home", (Page("b"),), late=(Page("a", (Page("b"),)),)),
    Rule.LIMIT: Page("home", (Page("a"), Page("b"))),
}
CONFIG = {
    Rule.DEPTH: Config(max_depth=0),
    Rule.LIMIT: Config(max_tasks=2),
}
REASONS = {
    Rule.DEPTH: "it would have depth 1, and the lineage's max_depth is 0",
    Rule.STOPPED: "its key 'bad' is on the stop list",
    Rule.CYCLE: "the spawning task itself is the same work (page 'home')",
    Rule.DUPLICATE: "page 'b' is under way in this lineage: task 3",
    Rule.DONE: "page 'b' was done in this lineage: task 2, succeeded",
    Rule.LIMIT: "its lineage has no room: max_tasks is 2",
}


@pytest.fixture(params=list(map(Rule, ASK)))
def rule(request: pytest.FixtureRequest) -> Rule:
    """Each of the rules."""
    found: Rule = request.param
    return found


@pytest.fixture
def parked(start: Start, rule: Rule) -> tuple[Harness, Task]:
    """A child that one rule alone refuses, and that waits for approval."""
    stop_list = StopList(names=["bad"])
    harness = start(pages({rule.value: "park"}), config=CONFIG.get(rule, Config()), stop_list=stop_list)
    harness.enqueue(HOME[rule])
    harness.drain()
    [task] = asked(harness)
    return harness, task


def test_about_every_rule_an_operator_may_be_asked(parked: tuple[Harness, Task], rule: Rule) -> None:
    harness, task = parked
    first = harness.app.tasks.list(limit=100)[-1]
    numbers = {"task 2": f"task {first.id + 1}", "task 3": f"task {first.id + 2}"}
    reason = re.sub(r"task [23]", lambda match: numbers[match[0]], REASONS[rule])
    assert task.reason == f"waits for approval: {reason}"
    assert words(harness, task) == ["parked"]
    assert refusals(harness) == []
    parent = harness.app.tasks.get(task.parent or 0)
    assert (parent.status, parent.waiting_for) == (Status.WAITING, "children"), "it has not ended"
    approve(harness, task)
    assert harness.task(task).status is Status.SUCCEEDED
    assert {one.status for one in harness.app.tasks.list(limit=100)} == {Status.SUCCEEDED}
    assert f"{task.key} succeeded" in harness.task(parent).results["gather"]


def test_what_an_operator_does_not_want_is_cancelled(parked: tuple[Harness, Task]) -> None:
    harness, task = parked
    harness.app.tasks.cancel(task.id)
    harness.drain()
    others = [one for one in harness.app.tasks.list(limit=100) if one.id != task.id]
    assert {one.status for one in others} == {Status.SUCCEEDED}
    assert f"{task.key} cancelled" in harness.task(task.parent or 0).results["gather"]


@pytest.mark.parametrize("unique", ["lineage", "everywhere", "no"])
def test_who_asks_again_gets_the_same_child(start: Start, unique: Any) -> None:
    """In the same stage, in another one, and in another run; whether it has ended meanwhile or not."""
    harness = start(pages({"cycle": "park", "done": "park"}, unique=unique))
    home = Page("home")
    root = harness.enqueue(Page("home", (home, home), (home,)))
    harness.drain()
    [task] = asked(harness)
    harness.app.tasks.retry(root.id, fresh=True)
    harness.drain()
    assert [one.id for one in asked(harness)] == [task.id]
    approve(harness, task)
    harness.app.tasks.retry(root.id, fresh=True)
    harness.drain()
    assert asked(harness) == []
    assert len(harness.app.tasks.list()) == 2
    assert harness.task(root).status is Status.SUCCEEDED


def test_an_operator_is_asked_again_about_what_was_cancelled(start: Start) -> None:
    harness = start(pages(ASK))
    root = harness.enqueue(HOME[Rule.CYCLE])
    harness.drain()
    [task] = asked(harness)
    harness.app.tasks.cancel(task.id)
    harness.drain()
    harness.app.tasks.retry(root.id, fresh=True)
    harness.drain()
    [other] = asked(harness)
    assert other.id != task.id


def test_the_holder_of_a_work_keeps_it(start: Start) -> None:
    """A child that repeats work never stands for it: others meet the first one, whatever has become of the second."""
    harness = start(pages({"duplicate": "park"}))
    harness.enqueue(HOME[Rule.DUPLICATE])
    harness.drain()
    [task] = asked(harness)
    first = next(one for one in harness.app.tasks.list() if one.key == "b" and one.id != task.id)
    held = {row[0] for row in rows(harness, "SELECT task FROM onceward_identity")}
    assert first.id in held
    assert task.id not in held
    harness.app.tasks.retry(first.id)
    with pytest.raises(IllegalTransition, match=f"task {first.id} is at the same work"):
        harness.app.tasks.retry(task.id)
    harness.drain()
    approve(harness, task)
    assert harness.task(first).status is harness.task(task).status is Status.SUCCEEDED


def test_a_circle_that_was_approved_may_come_round_once_more(start: Start) -> None:
    harness = start(pages(ASK))
    root = harness.enqueue(Page("home", (Page("away", (Page("home", (Page("away"),)),)),)))
    harness.drain()
    for key, depth in (("home", 2), ("away", 3)):
        [task] = asked(harness)
        assert (task.key, task.depth) == (key, depth)
        approve(harness, task)
    assert asked(harness) == []
    assert harness.task(root).status is Status.SUCCEEDED


def test_work_under_way_in_another_lineage_is_linked_and_no_operator_is_asked(start: Start) -> None:
    harness = start(pages(ASK, unique="everywhere"), stop_list=StopList(names=["slow"]))
    # Task "b" of this lineage waits below "slow", about which somebody is asked.
    harness.enqueue(Page("one", (Page("b", (Page("slow"),)),)))
    harness.drain()
    [slow] = asked(harness)
    other = harness.enqueue(Page("two", (Page("b"),)))
    harness.drain()
    assert asked(harness) == [slow]
    assert harness.task(other).waiting_for == "children"
    approve(harness, slow)
    assert harness.task(other).results["gather"] == ["b succeeded"]


# Several rules


def test_a_rule_that_refuses_refuses_also_what_others_would_ask_about(start: Start) -> None:
    refused = {rule: policy for rule, policy in ASK.items() if rule != "limit"}
    harness = start(pages(refused), config=Config(max_tasks=1))
    harness.enqueue(Page("home", (Page("home"), Page("new"))))
    harness.drain()
    assert asked(harness) == []
    assert refusals(harness) == [("limit", "its lineage has no room: max_tasks is 1")] * 2


def test_an_operator_hears_of_every_rule(start: Start) -> None:
    harness = start(pages(ASK), config=Config(max_tasks=1, max_depth=0), stop_list=StopList(names=["bad"]))
    harness.app.enqueue(Page("home", (Page("bad"),)))
    harness.drain()
    [task] = asked(harness)
    assert task.reason == (
        "waits for approval: its key 'bad' is on the stop list; "
        "it would have depth 1, and the lineage's max_depth is 0; its lineage has no room: max_tasks is 1"
    )
    note = harness.app.tasks.get(task.id).history[-1].note or ""
    assert rules_in(note) == {Rule.STOPPED, Rule.DEPTH, Rule.LIMIT}


def test_only_what_stands_before_the_reasons_is_a_rule() -> None:
    note = parked_note([Refused(Rule.DEPTH, "too deep, limit: 5, cycle: none"), Refused(Rule.DONE, "it was done")])
    assert rules_in(note) == {Rule.DEPTH, Rule.DONE}
    for other in ("batch:a, limit: 5", "signal:limit", "children: 3 have not ended", ""):
        assert rules_in(other) == frozenset()


# Limits


def test_what_is_too_much_is_counted_where_it_belongs(start: Start) -> None:
    harness = start(pages({"limit": "park"}), config=Config(max_tasks=3))
    root = harness.enqueue(Page("home", (Page("a"), Page("b"), Page("c"), Page("d", (Page("e"),)))))
    harness.drain()
    assert [task.key for task in asked(harness)] == ["c", "d"]
    counted = "SELECT tasks, max_tasks FROM onceward_lineage"
    assert rows(harness, counted) == [(5, 3)]
    assert rows(harness, f"SELECT children, refusals FROM onceward_task WHERE id = {root.id}") == [(4, 0)]
    approve(harness, asked(harness)[1])
    assert [task.key for task in asked(harness)] == ["c", "e"], "there is still no room"
    harness.app.lineages.raise_limits(root.id, Limits(max_tasks=8))
    for task in asked(harness):
        harness.app.tasks.cancel(task.id)
    harness.drain()
    harness.app.tasks.retry(root.id, fresh=True)
    harness.drain()
    assert asked(harness) == []
    assert rows(harness, counted) == [(7, 8)]


class Plain(Payload, kind="plain"):
    """Asks for pages and for its own kind, of which nobody may be too many."""

    name: str
    plain: int = 0
    pages: int = 0

    def key(self) -> str:
        return self.name

    @staticmethod
    def pipeline() -> Pipeline[Plain]:
        pipeline = Pipeline(Plain)

        @pipeline.stage
        def follow(ctx: Context[Plain]) -> None:
            for number in range(max(ctx.payload.plain, ctx.payload.pages)):
                if number < ctx.payload.pages:
                    ctx.spawn(Page(f"page {number}"))
                if number < ctx.payload.plain:
                    ctx.spawn(Plain(f"plain {number}"))

        return pipeline


def test_a_limit_stays_exact_for_those_who_may_not_ask(start: Start) -> None:
    harness = start(pages({"limit": "park"}), Plain.pipeline(), config=Config(max_tasks=10))
    harness.enqueue(Plain("home", plain=20, pages=4))
    harness.drain()
    kinds = dict(rows(harness, "SELECT kind, count(*) FROM onceward_task GROUP BY kind"))
    assert kinds == {"plain": 6, "page": 4}, "ten of them fit"
    assert asked(harness) == []
    harness.enqueue(Plain("other", plain=4, pages=20))
    harness.drain()
    assert len(asked(harness)) == 15
    assert rows(harness, "SELECT tasks FROM onceward_lineage ORDER BY root") == [(10,), (25,)]


@pytest.mark.parametrize("limits", [{"max_tasks": 2}, {"max_children": 1}])
def test_a_bomb_stays_bounded(start: Start, limits: dict[str, int]) -> None:
    """Each parent may have a hundred that wait, and they have no children before somebody approves of them."""
    links = tuple(Page(f"page {number}", (Page(f"below {number}"),)) for number in range(80))
    more = tuple(Page(f"more {number}") for number in range(80))
    harness = start(pages({"limit": "park"}), config=Config(**limits))
    root = harness.enqueue(Page("home", links, more))
    harness.drain()
    mine = [task for task in asked(harness) if task.parent == root.id]
    assert len(mine) == REFUSALS_KEPT
    assert {rule for rule, _ in refusals(harness)} == {"limit"}
    [(children, refused)] = rows(harness, f"SELECT children, refusals FROM onceward_task WHERE id = {root.id}")
    assert (children, refused) == (1 + REFUSALS_KEPT, 160 - 1 - REFUSALS_KEPT)
    assert not any(
        task.depth == 2 and task.parent in {one.id for one in mine} for task in harness.app.tasks.list(limit=500)
    )


def test_what_was_too_much_may_be_pruned(start: Start) -> None:
    """Verified at the end: nobody can tell any more whether what is gone was too much."""
    harness = start(pages({"limit": "park"}), config=Config(max_tasks=2))
    root = harness.enqueue(Page("home", (Page("a"), Page("b"), Page("c"))))
    harness.drain()
    harness.app.tasks.cancel(asked(harness)[0].id)
    harness.app.tasks.cancel(root.id)
    harness.clock.advance("1h")
    harness.app.tasks.prune("1m")
    assert rows(harness, "SELECT tasks, max_tasks, pruned FROM onceward_lineage") == [(4, 2, 3)]
    assert [task.key for task in asked(harness)] == ["c"]


def test_after_the_deadline_of_a_lineage_no_operator_is_asked(start: Start) -> None:
    page = pages(ASK)
    follow = page.stages[0].function
    page.stages[0].function = lambda ctx: (harness.advance("1h"), follow(ctx))
    harness = start(page)
    harness.app.enqueue(Page("home", (Page("home"), Page("new"))), limits=Limits(deadline="1h"))
    harness.drain()
    assert asked(harness) == []
    assert refusals(harness) == [("limit", "the deadline of its lineage, 1h, is over")] * 2


def test_a_batch_that_is_full_says_so(start: Start) -> None:
    harness = start(pages({}))
    with harness.app.batch("night", limits=Limits(max_tasks=4)) as batch:
        batch.add(Page("first", (Page("a"), Page("b"))))
        batch.add(Page("second", (Page("c"), Page("d"))))
    with harness.app.batch("alone", limits=Limits(max_tasks=2)) as batch:
        batch.add(Page("third", (Page("e"), Page("f"))))
    harness.drain()
    assert sorted(refusals(harness)) == [
        ("limit", "its batch has no room: max_tasks is 2"),
        *[("limit", "its batch has no room: max_tasks is 4")] * 2,
    ]


def test_a_narrower_branch_says_where_it_begins(start: Start) -> None:
    harness = start(pages({}, Limits(max_tasks=2)))
    harness.enqueue(Page("home", (Page("narrow", (Page("a", (Page("b"),)), Page("c"))),)))
    harness.drain()
    [begins] = [task.id for task in harness.app.tasks.list() if task.key == "narrow"]
    reason = f"its branch, which begins with task {begins}, has no room: max_tasks is 2"
    assert refusals(harness) == [("limit", reason)] * 2


def test_a_batch_counts_those_that_wait_for_approval(start: Start) -> None:
    harness = start(pages({"limit": "park"}))
    with harness.app.batch("night", limits=Limits(max_tasks=2)) as batch:
        batch.add(Page("home", (Page("a"), Page("b"), Page("c"))))
    harness.drain()
    status = harness.app.batches.get("night")
    assert (status.total, status.open) == (4, 3)
    first, second = asked(harness)
    assert first.reason == "waits for approval: its batch has no room: max_tasks is 2"
    harness.app.tasks.cancel(first.id)
    approve(harness, second)
    status = harness.app.batches.get("night")
    assert (status.total, status.open, status.succeeded, status.cancelled) == (4, 0, 3, 1)


# Pipelines that change their mind


@pytest.mark.parametrize(("before", "after"), [("lineage", "no"), ("no", "lineage")])
def test_uniqueness_may_change_while_tasks_are_open(start: Start, before: Any, after: Any) -> None:
    """Verified at the end: what is open twice was allowed to be."""
    stop_list = StopList(names=["slow"])
    harness = start(pages({"stopped": "park"}, unique=before), stop_list=stop_list)
    slow = Page("slow")
    root = harness.enqueue(Page("home", (slow, Page("a", again=(slow,)))))
    harness.drain()
    again = start(pages({"stopped": "park"}, unique=after), stop_list=stop_list, after=harness)
    again.app.tasks.retry(next(task.id for task in again.app.tasks.list() if task.key == "a"), fresh=True)
    again.drain()
    assert again.task(root).status is Status.WAITING
    assert {task.key for task in asked(again)} == {"slow"}
    assert len(asked(again)) >= 2
