"""Work that spawns work: which children come to be, which are refused and why, and that nothing is counted twice."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Any

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
    NoLineage,
    Payload,
    Pipeline,
    Retry,
    Rule,
    Spawned,
    Status,
    StopList,
    Waiting,
)
from onceward.authoring.current_stage import is_worker
from onceward.testing import Harness, run_stage
from tests.worker.conftest import NOTES, Start, insert_note, notes, words


class Page(Payload, kind="page"):
    name: str
    links: tuple[str, ...] = ()

    def key(self) -> str:
        return self.name


class Image(Payload, kind="image"):
    name: str

    def key(self) -> str:
        return self.name


Follow = Callable[[Context[Page]], Any]


def site(follow: Follow, *more: Follow, **options: Any) -> Pipeline[Page]:
    """Pages that are followed in some way."""
    pages = Pipeline(Page, **options)
    pages.stage(follow)
    for stage in more:
        pages.stage(stage)
    return pages


def images(**options: Any) -> Pipeline[Image]:
    """Images, which lead nowhere."""
    found = Pipeline(Image, **options)

    @found.stage
    def load(ctx: Context[Image]) -> str:
        if ctx.payload.name == "broken":
            raise Failed("no such image")
        return f"loaded {ctx.payload.name}"

    return found


def refusals(harness: Harness) -> list[tuple[int, str, str, int | None]]:
    """Who was refused a child, by which rule, why, and whom it met."""
    return harness.app.read(
        lambda connection: [
            tuple(row)
            for row in connection.execute("SELECT parent, rule, reason, existing FROM onceward_refusal ORDER BY id")
        ]
    )


def keys(harness: Harness) -> dict[str, int]:
    """How many tasks there are of each key."""
    rows = harness.app.read(
        lambda connection: [
            tuple(row) for row in connection.execute("SELECT key, count(*) FROM onceward_task GROUP BY key")
        ]
    )
    return dict(rows)


def lineage_row(harness: Harness) -> tuple[Any, ...]:
    """What is counted of the one lineage there is."""
    [row] = harness.app.read(
        lambda connection: [
            tuple(row) for row in connection.execute("SELECT tasks, max_tasks, max_depth FROM onceward_lineage")
        ]
    )
    return row


def test_children_come_to_be_with_their_stage_and_know_where_they_come_from(start: Start) -> None:
    answers: list[Spawned] = []

    def follow(ctx: Context[Page]) -> None:
        answers.extend(ctx.spawn(Page(link)) for link in ctx.payload.links)

    harness = start(site(follow))
    root = harness.enqueue(
        Page(
            "home",
            (
                "a",
                "b",
            ),
        )
    )
    harness.drain()
    assert [bool(answer) for answer in answers] == [True, True]
    top, *children = sorted(harness.app.tasks.list(), key=lambda task: task.id)
    assert [(child.payload.name, child.parent, child.depth) for child in children] == [
        ("a", root.id, 1),
        ("b", root.id, 1),
    ]
    assert {child.lineage for child in children} == {top.lineage}
    assert {task.status for task in (top, *children)} == {Status.SUCCEEDED}
    assert words(harness, top) == ["finished", "spawned"]
    assert words(harness, children[0]) == ["finished"]
    assert lineage_row(harness) == (3, 10_000, 10)


def test_a_stage_that_fails_leaves_no_children_and_a_retry_leaves_them_once(start: Start) -> None:
    tries: list[int] = []

    def follow(ctx: Context[Page]) -> None:
        if not ctx.payload.links:
            return
        ctx.spawn(Page("child"))
        tries.append(ctx.task.attempt)
        if len(tries) < 3:
            raise OSError("the line is cut")

    harness = start(site(follow))
    harness.enqueue(Page("home", ("child",)))
    harness.drain()
    assert tries == [1, 2, 3]
    assert keys(harness) == {"home": 1, "child": 1}
    assert lineage_row(harness)[0] == 2


def test_a_child_asked_for_again_is_the_same_child(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.links:
            ctx.spawn(Page("child"))
            ctx.checkpoint("half")
            ctx.spawn(Page("child"))
            if ctx.task.attempt == 1:
                raise OSError("the line is cut")

    def again(ctx: Context[Page]) -> None:
        if ctx.payload.links:
            ctx.spawn(Page("child"))

    harness = start(site(follow, again))
    root = harness.enqueue(Page("home", ("child",)))
    harness.drain()
    assert keys(harness) == {"home": 1, "child": 1}
    assert refusals(harness) == []
    harness.app.tasks.retry(root.id, fresh=True)
    harness.drain()
    assert keys(harness) == {"home": 1, "child": 1}
    assert refusals(harness) == []


def test_effects_and_children_of_a_stage_are_kept_or_dropped_together(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        ctx.write(insert_note, ctx.task.id, "followed" if not ctx.payload.links else "")
        if ctx.payload.links:
            ctx.spawn(Page("child"))

    harness = start(site(follow, retry=Retry(retries=0)), migrations=[NOTES])
    root = harness.enqueue(Page("home", ("child",)))
    harness.drain()
    assert harness.task(root).status is Status.FAILED
    assert keys(harness) == {"home": 1}
    other = harness.enqueue(Page("away"))
    harness.drain()
    assert notes(harness.app) == [(other.id, "followed")]


@pytest.mark.parametrize(
    ("verdict", "kept"), [(Failed("gone"), True), (Waiting(until="never"), True), (OSError(), False)]
)
def test_a_verdict_keeps_the_children_and_an_error_drops_them(start: Start, verdict: BaseException, kept: bool) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.links:
            ctx.spawn(Page("child"))
            raise verdict

    harness = start(site(follow, retry=Retry(retries=0)))
    harness.enqueue(Page("home", ("child",)))
    harness.drain()
    assert keys(harness) == ({"home": 1, "child": 1} if kept else {"home": 1})


# Rules


def test_a_chain_ends_at_the_largest_depth(start: Start) -> None:
    said: list[Spawned] = []

    def follow(ctx: Context[Page]) -> None:
        said.append(ctx.spawn(Page(ctx.payload.name + "x")))

    harness = start(site(follow), config=Config(max_depth=4))
    harness.enqueue(Page("x"))
    harness.drain()
    assert sorted(task.depth for task in harness.app.tasks.list()) == [0, 1, 2, 3, 4]
    assert [bool(answer) for answer in said] == [True, True, True, True, False]
    assert (said[-1].rule, said[-1].reason) == (
        Rule.DEPTH,
        "it would have depth 5, and the lineage's max_depth is 4",
    )
    assert [(rule, reason) for _, rule, reason, _ in refusals(harness)] == [("depth", said[-1].reason)]


def test_no_task_is_among_its_own_ancestors(start: Start) -> None:
    """S0's direct loop and circular dependency: both end at the first repeat."""

    def follow(ctx: Context[Page]) -> None:
        following = {"a": "b", "b": "c", "c": "a", "self": "self"}[ctx.payload.name]
        ctx.spawn(Page(following))

    harness = start(site(follow))
    circle, alone = harness.enqueue(Page("a")), harness.enqueue(Page("self"))
    harness.drain()
    assert keys(harness) == {"a": 1, "b": 1, "c": 1, "self": 1}
    by_rule = {rule: (parent, reason) for parent, rule, reason, _ in refusals(harness) if parent != alone.id}
    assert by_rule["cycle"][1] == f"its ancestor, task {circle.id}, is the same work (page 'a')"
    assert [reason for parent, _, reason, _ in refusals(harness) if parent == alone.id] == [
        "the spawning task itself is the same work (page 'self')"
    ]


@pytest.mark.parametrize(("cycle", "spawned"), [("identity", 1), ("key", 0)])
def test_a_pipeline_may_compare_keys_alone(start: Start, cycle: str, spawned: int) -> None:
    def follow(ctx: Context[Page]) -> None:
        ctx.spawn(Image(ctx.payload.name))

    harness = start(site(follow), images(cycle=cycle))
    harness.enqueue(Page("logo"))
    harness.drain()
    assert len(harness.app.tasks.list(kind="image")) == spawned
    assert [rule for _, rule, _, _ in refusals(harness)] == ["cycle"] * (1 - spawned)


def test_work_of_a_lineage_is_done_once_though_several_tasks_ask_for_it(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        for link in ctx.payload.links:
            if link == "logo":
                ctx.spawn(Page(link), after="1m")  # it is still under way when the second one asks for it
            else:
                ctx.spawn(Page(link, ("logo",)))

    harness = start(site(follow))
    harness.enqueue(Page("home", ("a", "b")))
    harness.drain()
    assert keys(harness) == {"home": 1, "a": 1, "b": 1, "logo": 1}
    [(_, rule, reason, existing)] = refusals(harness)
    [logo] = [task for task in harness.app.tasks.list() if task.key == "logo"]
    assert (rule, existing) == ("duplicate", logo.id)
    assert reason == f"page 'logo' is under way in this lineage: task {logo.id}"


def test_what_has_ended_in_a_lineage_is_not_done_again(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home" or ctx.payload.name == "later":
            ctx.spawn(Image("broken"))

    def go_on(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("later"))

    pages = site(follow)
    pages.stage(join=True)(go_on)
    harness = start(pages, images())
    harness.enqueue(Page("home"))
    harness.drain()
    [(_, rule, reason, existing)] = refusals(harness)
    [image] = harness.app.tasks.list(kind="image")
    assert (rule, existing) == ("done", image.id)
    assert reason == f"image 'broken' was done in this lineage: task {image.id}, failed"


def test_a_cancelled_task_does_not_count(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        for link in ctx.payload.links:
            ctx.spawn(Page(link), after="1h" if link == "slow" else None)

    def wait(ctx: Context[Page]) -> None:
        if ctx.payload.links == ("slow",):
            if ctx.signal("go") is None:
                raise Waiting(until="go")
            ctx.spawn(
                Page(
                    "other",
                    (
                        "slow",
                        "more",
                    ),
                )
            )

    harness = start(site(follow, wait))
    root = harness.enqueue(Page("home", ("slow",)))
    harness.drain(wait_for_due=False)
    [slow] = [task for task in harness.app.tasks.list() if task.key == "slow"]
    harness.app.tasks.cancel(slow.id)
    harness.app.tasks.signal(root.id, "go")
    harness.drain()
    assert keys(harness)["slow"] == 2
    assert refusals(harness) == []


def test_a_cancelled_task_is_not_opened_again_beside_the_one_that_took_its_place(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        for link in ctx.payload.links:
            ctx.spawn(Page(link), after="1h")

    def wait(ctx: Context[Page]) -> None:
        if ctx.payload.links == ("slow",) and ctx.payload.name == "home":
            if ctx.signal("go") is None:
                raise Waiting(until="go")
            ctx.spawn(Page("other", ("slow",)))

    harness = start(site(follow, wait))
    root = harness.enqueue(Page("home", ("slow",)))
    harness.drain(wait_for_due=False)
    [slow] = [task for task in harness.app.tasks.list() if task.key == "slow"]
    harness.app.tasks.cancel(slow.id)
    harness.app.tasks.signal(root.id, "go")
    harness.drain(wait_for_due=False)
    [other] = [task for task in harness.app.tasks.list() if task.key == "slow" and task.id != slow.id]
    with pytest.raises(IllegalTransition, match=f"task {other.id} is at the same work now"):
        harness.app.tasks.retry(slow.id)
    harness.drain()
    harness.app.tasks.retry(slow.id)
    harness.drain()
    assert {harness.task(task).status for task in (slow, other)} == {Status.SUCCEEDED}


def test_a_lineage_bomb_stops_at_exactly_its_limit(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        for number in range(10):
            ctx.spawn(Page(f"{ctx.payload.name}.{number}"))

    harness = start(site(follow), config=Config(max_tasks=57))
    harness.enqueue(Page("0"))
    harness.drain()
    assert sum(harness.app.stats.counts().values()) == 57
    assert lineage_row(harness)[:2] == (57, 57)
    assert {(rule, reason) for _, rule, reason, _ in refusals(harness)} == {
        ("limit", "its lineage has no room: max_tasks is 57")
    }


def test_a_task_has_no_more_children_than_it_may(start: Start) -> None:
    answers: list[bool] = []

    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            answers.extend(bool(ctx.spawn(Page(f"a{number}"))) for number in range(5))

    def more(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            for number in range(5):
                ctx.spawn(Page(f"b{number}"))

    harness = start(site(follow, more), config=Config(max_children=7))
    root = harness.enqueue(Page("home"))
    harness.drain()
    assert sum(harness.app.stats.counts().values()) == 8
    assert [reason for _, _, reason, _ in refusals(harness)] == [
        "the spawning task has 7 children, and max_children is 7"
    ] * 3
    assert words(harness, root).count("refused") == 3


def test_at_its_limit_a_task_may_still_ask_for_the_children_that_it_has(start: Start) -> None:
    answers: list[list[bool]] = []

    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            more = "abc" if ctx.task.attempt > 1 else "ab"
            answers.append([bool(ctx.spawn(Page(name))) for name in more])
            ctx.checkpoint(more)
            if ctx.task.attempt == 1:
                raise ValueError("once more")

    def ask_again(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            answers.append([bool(ctx.spawn(Page(name))) for name in "abcd"])

    pages = site(follow, retry=Retry(base="1s"))
    pages.stage(join=True)(ask_again)
    harness = start(pages)
    harness.app.enqueue(Page("home"), limits=Limits(max_children=3))
    harness.drain()
    assert answers == [[True, True], [True, True, True], [True, True, True, False]]
    assert keys(harness) == {"home": 1, "a": 1, "b": 1, "c": 1}
    assert [rule for _, rule, _, _ in refusals(harness)] == ["limit"]


def test_what_is_refused_already_takes_no_room_from_the_next(start: Start) -> None:
    answers: list[bool] = []

    def follow(ctx: Context[Page]) -> None:
        answers.extend(bool(ctx.spawn(Page(name))) for name in ctx.payload.links)

    harness = start(site(follow), stop_list=StopList(names=["casino"]))
    harness.app.enqueue(Page("home", ("casino", "home", "a")), limits=Limits(max_children=1))
    harness.drain()
    assert (answers, keys(harness)) == ([False, False, True], {"home": 1, "a": 1})


def test_after_its_deadline_a_lineage_grows_no_more(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.links:
            if ctx.task.deferrals == 0:
                ctx.spawn(Page("early"))
                raise Waiting(after="50m")
            harness.advance("10m")
            ctx.spawn(Page("late"))

    harness = start(site(follow))
    harness.app.enqueue(Page("home", ("…",)), limits=Limits(deadline="1h"))
    harness.drain()
    assert keys(harness) == {"home": 1, "early": 1}
    assert [(rule, reason) for _, rule, reason, _ in refusals(harness)] == [
        ("limit", "the deadline of its lineage, 1h, is over")
    ]


def test_what_is_on_the_stop_list_is_not_made(start: Start) -> None:
    answers: list[Spawned] = []

    def follow(ctx: Context[Page]) -> None:
        answers.extend(ctx.spawn(Page(link)) for link in ctx.payload.links)

    harness = start(site(follow), stop_list=StopList(domains=["bad.example"]))
    harness.enqueue(
        Page(
            "home",
            (
                "https://bad.example/x",
                "https://good.example/x",
            ),
        )
    )
    refused = harness.app.enqueue(Page("https://www.bad.example/"))
    harness.drain()
    assert not refused
    assert "bad.example" in (refused.reason or "")
    assert [answer.rule for answer in answers] == [Rule.STOPPED, None]
    assert keys(harness) == {"home": 1, "https://good.example/x": 1}
    assert [rule for _, rule, _, _ in refusals(harness)] == ["stopped"]


class Offer(Payload, kind="offer"):
    number: int
    title: str

    def key(self) -> str:
        return str(self.number)


def test_the_stop_list_looks_at_the_title_of_roots_as_at_that_of_children(start: Start) -> None:
    offers = Pipeline(Offer)
    answers: list[Spawned] = []

    @offers.stage
    def look(ctx: Context[Offer]) -> None:
        answers.append(ctx.spawn(Offer(2, "A casino")))

    harness = start(offers, stop_list=StopList(names=["A casino"], keywords=["unpaid"]))
    good, bad, worse = harness.app.enqueue_many([Offer(1, "Cook"), Offer(3, "a  CASINO"), Offer(4, "Unpaid cook")])
    with harness.app.batch("night") as batch:
        assert not batch.add(Offer(5, "Unpaid cook"))
    with pytest.raises(ConfigError, match="the keyword 'unpaid' in its title is on the stop list"):
        harness.app.batch("day", then=Offer(6, "Unpaid cook"))
    harness.drain()

    assert bool(good)
    assert (bool(bad), bad.reason) == (False, "its title 'A casino' is on the stop list")
    assert (bool(worse), worse.reason) == (False, "the keyword 'unpaid' in its title is on the stop list")
    assert [(answer.rule, answer.reason) for answer in answers] == [(Rule.STOPPED, bad.reason)]
    assert [task.key for task in harness.app.tasks.list()] == ["1"]


def test_no_more_than_a_hundred_refusals_of_a_task_are_kept_and_all_are_counted(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        for _ in range(150):
            ctx.spawn(Page("home"))

    harness = start(site(follow))
    harness.enqueue(Page("home"))
    harness.drain()
    assert len(refusals(harness)) == 100
    [(counted,)] = harness.app.read(
        lambda connection: [tuple(row) for row in connection.execute("SELECT refusals FROM onceward_task")]
    )
    assert counted == 150


def test_a_refusal_can_be_made_an_error_which_is_not_retried(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        ctx.spawn(Page("home"))

    harness = start(site(follow, refused={"cycle": "raise"}))
    root = harness.enqueue(Page("home"))
    harness.drain()
    task = harness.task(root)
    assert (task.status, task.failures) == (Status.FAILED, 0)
    assert "page 'home' was not spawned: the spawning task itself is the same work" in (task.reason or "")


def test_an_operator_can_be_asked_about_what_is_too_deep_or_stopped(start: Start) -> None:
    answers: list[bool] = []

    def follow(ctx: Context[Page]) -> None:
        answers.extend(bool(ctx.spawn(Page(link))) for link in ctx.payload.links)

    pages = site(follow, refused={"depth": "park", "stopped": "park"})

    @pages.stage(join=True)
    def gather(ctx: Context[Page]) -> list[str]:
        return [child.status for child in ctx.children]

    harness = start(pages, config=Config(max_depth=0), stop_list=StopList(names=["bad"]))
    root = harness.enqueue(Page("home", ("deep", "bad", "home")))
    harness.drain()
    assert answers == [True, True, False], "nobody is asked about a circle"
    waiting = {task.key: task for task in harness.app.tasks.list(status="waiting") if task.id != root.id}
    assert {key: task.waiting_for for key, task in waiting.items()} == {
        "deep": "signal:approved",
        "bad": "signal:approved",
    }
    assert waiting["deep"].reason == "waits for approval: it would have depth 1, and the lineage's max_depth is 0"
    assert words(harness, waiting["deep"]) == ["parked"]
    assert harness.task(root).status is Status.WAITING
    harness.app.tasks.signal(waiting["deep"].id, "approved")
    harness.app.tasks.cancel(waiting["bad"].id)
    harness.drain()
    assert harness.task(root).results["gather"] == ["succeeded", "cancelled"]
    assert [rule for _, rule, _, _ in refusals(harness)] == ["cycle"]


# Limits


def test_limits_are_set_at_the_root_and_inherited(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        ctx.spawn(Page(ctx.payload.name + "x"))

    harness = start(site(follow))
    harness.app.enqueue(Page("x"), limits=Limits(max_depth=2, max_tasks=50))
    harness.enqueue(Page("y"))
    harness.drain()
    assert max(task.depth for task in harness.app.tasks.list(limit=100) if task.payload.name.startswith("xx")) == 2
    assert max(task.depth for task in harness.app.tasks.list(limit=100) if task.payload.name.startswith("y")) == 10


def test_a_child_narrows_its_limits_for_all_that_come_from_it(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("narrow"), limits=Limits(max_tasks=4))
            ctx.spawn(Page("wide"))
        elif len(ctx.payload.name) < 8:
            for letter in "ab":
                ctx.spawn(Page(ctx.payload.name + letter))

    harness = start(site(follow))
    harness.enqueue(Page("home"))
    harness.drain()
    names = [task.payload.name for task in harness.app.tasks.list(limit=200)]
    assert len([name for name in names if name.startswith("narrow")]) == 4
    assert len([name for name in names if name.startswith("wide")]) == 31
    narrow = next(task.id for task in harness.app.tasks.list(limit=200) if task.key == "narrow")
    reason = f"its branch, which begins with task {narrow}, has no room: max_tasks is 4"
    assert {told for _, _, told, _ in refusals(harness)} == {reason}


def test_the_depth_and_width_of_a_branch_hold_for_all_that_come_from_it(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("narrow"), limits=Limits(max_depth=3, max_children=1))
        else:
            for letter in "ab":
                ctx.spawn(Page(ctx.payload.name + letter))

    harness = start(site(follow))
    harness.enqueue(Page("home"))
    harness.drain()
    assert keys(harness) == {"home": 1, "narrow": 1, "narrowa": 1, "narrowaa": 1}
    assert [rule for _, rule, _, _ in refusals(harness)] == ["limit", "limit", "depth", "depth"]


def test_only_the_root_widens_limits(start: Start) -> None:
    said: list[str] = []

    def follow(ctx: Context[Page]) -> None:
        for limits in (
            Limits(max_depth=11),
            Limits(max_tasks=20_000),
            Limits(max_children=2_000),
            Limits(deadline="49h"),
        ):
            with pytest.raises(ConfigError) as error:
                ctx.spawn(Page("child"), limits=limits)
            said.append(str(error.value))

    harness = start(site(follow))
    harness.enqueue(Page("home"))
    harness.drain()
    assert [sentence.rpartition(": ")[2] for sentence in said] == [
        "max_depth=11 is more than 10",
        "max_tasks=20000 is more than 10000",
        "max_children=2000 is more than 1000",
        "deadline=2d1h is more than 2d",
    ]
    assert keys(harness) == {"home": 1}


@pytest.mark.parametrize(
    "limits",
    [
        {"max_depth": -1},
        {"max_depth": 101},
        {"max_tasks": 0},
        {"max_children": -5},
        {"max_tasks": 1.5},
        {"deadline": "0s"},
    ],
)
def test_absurd_limits_are_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Limits(**limits)


# Everywhere


def test_work_that_is_unique_everywhere_is_linked_across_lineages(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        ctx.spawn(Image("logo"), after="1h")

    def gather(ctx: Context[Page]) -> str:
        [image] = ctx.children
        return f"{image.status}: {image.result(str)}"

    pages = site(follow)
    pages.stage(join=True)(gather)
    harness = start(pages, images(unique="everywhere"))
    roots = [harness.enqueue(Page(name)) for name in "abc"]
    harness.drain()
    assert len(harness.app.tasks.list(kind="image")) == 1
    assert [harness.task(root).results["gather"] for root in roots] == ["succeeded: loaded logo"] * 3
    assert refusals(harness) == []


def test_a_root_that_is_unique_everywhere_is_enqueued_once_at_a_time(start: Start) -> None:
    harness = start(images(unique="everywhere", fresh_for="1h"))
    first = harness.app.enqueue(Image("logo"))
    again = harness.app.enqueue(Image("logo"))
    assert (first.created, again.created, again.existing, again.id) == (True, False, first.id, first.id)
    assert bool(again)
    harness.drain()
    assert harness.app.enqueue(Image("logo")).existing == first.id, "it is fresh"
    harness.clock.advance("2h")
    later = harness.app.enqueue(Image("logo"))
    assert later.created
    assert later.id != first.id


def test_work_that_need_not_be_unique_may_be_there_twice_but_not_in_a_circle(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            for _ in range(3):
                ctx.spawn(Page("child"))
        ctx.spawn(Page("home"))

    harness = start(site(follow, unique="no"))
    harness.enqueue(Page("home"))
    harness.drain()
    assert keys(harness) == {"home": 1, "child": 3}
    assert {rule for _, rule, _, _ in refusals(harness)} == {"cycle"}


# Context


def test_enqueue_inside_a_stage_is_a_spawn_wherever_it_is_called(start: Start) -> None:
    def library(name: str) -> None:
        harness.app.enqueue(Image(name))

    def follow(ctx: Context[Page]) -> None:
        library("plain")
        thread = threading.Thread(target=ctx.wrap(library), args=("thread",))
        thread.start()
        thread.join()

    async def follow_async(ctx: Context[Page]) -> None:
        library("loop")
        await asyncio.gather(
            asyncio.create_task(harness.app.aenqueue(Image("task"))), asyncio.to_thread(library, "to thread")
        )

    harness = start(site(follow, follow_async), images())
    root = harness.enqueue(Page("home"))
    harness.drain()
    found = harness.app.tasks.list(kind="image")
    assert {task.key for task in found} == {"plain", "thread", "loop", "task", "to thread"}
    assert {task.parent for task in found} == {root.id}


def test_a_task_that_is_spawned_has_no_id_before_its_stage_commits(start: Start) -> None:
    said: list[str] = []

    def follow(ctx: Context[Page]) -> None:
        asked = harness.app.enqueue(Image("logo"))
        assert asked
        with pytest.raises(ConfigError, match="no id yet"):
            asked.id  # noqa: B018
        with pytest.raises(ConfigError, match="takes no connection"):
            harness.app.enqueue(Image("other"), conn=object())
        said.append("done")

    harness = start(site(follow), images())
    harness.enqueue(Page("home"))
    harness.drain()
    assert said == ["done"]
    assert len(harness.app.tasks.list(kind="image")) == 1


def test_a_worker_process_makes_no_roots_by_accident(start: Start) -> None:
    harness = start(images())
    with is_worker():
        with pytest.raises(NoLineage, match=r"ctx\.wrap"):
            harness.app.enqueue(Image("a"))
        assert harness.app.enqueue(Image("b"), root=True).created
    assert harness.app.enqueue(Image("c")).created


def test_a_stage_may_begin_a_lineage_of_its_own(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        harness.app.enqueue(Image("far"), root=True)

    harness = start(site(follow), images())
    root = harness.enqueue(Page("home"))
    harness.drain()
    [image] = harness.app.tasks.list(kind="image")
    assert (image.parent, image.depth) == (None, 0)
    assert image.lineage != harness.task(root).lineage


def test_an_alias_is_another_key_of_the_same_work(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("moved"))
        elif ctx.payload.name == "moved":
            ctx.alias("new address")
        elif ctx.payload.name == "other":
            ctx.spawn(Page("new address"))

    def go_on(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("other"))

    pages = site(follow)
    pages.stage(join=True)(go_on)
    harness = start(pages)
    harness.enqueue(Page("home"))
    harness.drain()
    assert keys(harness) == {"home": 1, "moved": 1, "other": 1}
    assert [rule for _, rule, _, _ in refusals(harness)] == ["done"]


def test_a_child_that_goes_by_another_key_has_an_outcome_under_that_too(start: Start) -> None:
    seen: list[tuple[str, str | None]] = []

    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("moved"))
        else:
            ctx.alias("new address")

    def go_on(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("new address"))

    def tell(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            outcomes = [ctx.outcome(Page(name)) for name in ("moved", "new address")]
            seen.extend((one.status, one.reason) for one in outcomes)
            assert len(ctx.children) == 1

    pages = site(follow, retry=Retry(retries=0))
    pages.stage(join=True)(go_on)
    pages.stage(join=True)(tell)
    harness = start(pages)
    home = harness.enqueue(Page("home"))
    harness.drain()
    assert harness.task(home).status is Status.SUCCEEDED, harness.task(home).reason
    [moved] = [task for task in harness.app.tasks.list() if task.key == "moved"]
    met = f"page 'new address' was done in this lineage: task {moved.id}, succeeded"
    assert seen == [("succeeded", None), ("refused", met)]


def test_an_alias_is_taken_over_from_a_task_that_was_cancelled(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            ctx.spawn(Page("new address"), after="1h")
            ctx.checkpoint("asked")
            [new] = [task for task in harness.app.tasks.list() if task.key == "new address"]
            harness.app.tasks.cancel(new.id)
            ctx.spawn(Page("moved"))
        elif ctx.payload.name == "moved":
            ctx.alias("new address")
            ctx.spawn(Page("other"))
        elif ctx.payload.name == "other":
            ctx.spawn(Page("new address"))

    harness = start(site(follow))
    harness.enqueue(Page("home"))
    harness.drain()
    assert keys(harness) == {"home": 1, "moved": 1, "new address": 1, "other": 1}
    assert [rule for _, rule, _, _ in refusals(harness)] == ["cycle"]


def test_a_stage_alone_shows_what_it_would_spawn() -> None:
    def follow(ctx: Context[Page]) -> None:
        for link in ctx.payload.links:
            ctx.spawn(Page(link))

    pages = site(follow)
    ran = run_stage(
        pages.stages[0],
        Page(
            "home",
            (
                "a",
                "b",
            ),
        ),
    )
    assert ran.spawned == [Page("a"), Page("b")]


def test_unknown_kinds_are_refused_when_they_are_asked_for(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        ctx.spawn(Image("logo"))

    harness = start(site(follow, retry=Retry(retries=0)))
    root = harness.enqueue(Page("home"))
    harness.drain()
    assert "no pipeline handles kind 'image'" in (harness.task(root).reason or "")


def test_an_app_on_another_database_keeps_its_stop_list() -> None:
    app = App("sqlite:///:memory:", [images()], stop_list=StopList(names=["logo"]))
    assert not app.on("sqlite:///:memory:").enqueue(Image("logo"))


# Forgetting


def test_what_the_guard_must_know_is_kept_as_long_as_anything_of_the_lineage_is_there(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        for link in ctx.payload.links:
            ctx.spawn(Page(link, ("a", "b") if link == "hub" else ()))

    def wait(ctx: Context[Page]) -> None:
        if ctx.payload.name == "home":
            if ctx.signal("go") is None:
                raise Waiting(until="go")
            ctx.spawn(Page("other", ("a",)))

    harness = start(site(follow, wait), config=Config(deadline="100d"))
    root = harness.enqueue(Page("home", ("hub",)))
    harness.drain()
    harness.clock.advance("40d")
    assert harness.app.tasks.prune().tasks == 2
    harness.app.tasks.signal(root.id, "go")
    harness.drain()
    assert keys(harness) == {"home": 1, "hub": 1, "other": 1}
    assert [rule for _, rule, _, _ in refusals(harness)] == ["done"]


def left_of_lineages(harness: Harness) -> list[int]:
    """How many rows are left of all that the guard has kept."""

    def count(connection: Connection, table: str) -> int:
        [(rows,)] = connection.execute(f"SELECT count(*) FROM onceward_{table}").fetchall()
        return int(rows)

    tables = ("lineage", "identity", "alias", "link", "refusal", "failure", "join")
    return [harness.app.read(count, table) for table in tables]


def test_of_a_lineage_that_is_over_and_pruned_nothing_is_left(start: Start) -> None:
    def follow(ctx: Context[Page]) -> None:
        for link in ctx.payload.links:
            ctx.spawn(Page(link, ("logo",) if link in "ab" else ()), limits=Limits(max_tasks=5))
        ctx.alias(f"also {ctx.payload.name}")
        if ctx.payload.name == "broken":
            raise OSError("broken")

    harness = start(site(follow, unique="everywhere", retry=Retry(retries=0)))
    harness.enqueue(Page("home", ("a", "b", "broken")))
    harness.drain()
    assert sum(left_of_lineages(harness)) > 0
    harness.clock.advance("40d")
    harness.app.tasks.prune()
    assert left_of_lineages(harness) == [0] * 7


class Keyless(Payload, kind="keyless"):
    name: str


@pytest.mark.parametrize("cycle", ["identity", "key"])
def test_the_sentence_of_a_refusal_holds_the_key_also_of_a_payload_without_one(start: Start, cycle: Any) -> None:
    again = Pipeline(Keyless, cycle=cycle)

    @again.stage
    def follow(ctx: Context[Keyless]) -> None:
        ctx.spawn(Keyless("x" * 500 if ctx.payload.name == "home" else "home"))
        ctx.spawn(Keyless(ctx.payload.name))

    harness = start(again)
    harness.enqueue(Keyless("home"))
    harness.drain()
    reasons = [reason for _, _, reason, _ in refusals(harness)]
    assert len(reasons) == 3
    assert sum("""'{"name":"home"}'""" in reason for reason in reasons) == 2
    assert sum("xxx…'" in reason and len(reason) < 350 for reason in reasons) == 1


def test_a_lineage_has_five_lines_of_refusals_a_minute_and_a_count_of_the_others(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def follow(ctx: Context[Page]) -> None:
        for link in ctx.payload.links:
            ctx.spawn(Page(link, (ctx.payload.name, link) if link.isdigit() else ()))

    harness = start(site(follow))
    harness.enqueue(Page("home", tuple(map(str, range(12)))))
    harness.enqueue(Page("other", ("other",)))
    harness.drain()
    lines = [one.getMessage() for one in caplog.records if one.getMessage().startswith("spawn refused")]
    assert len(refusals(harness)) == 12 * 2 + 1
    assert len(lines) == 5 + 1
    assert all("key=" in line and "lineage=" in line for line in lines)
    harness.clock.advance("1m")
    harness.app.tasks.retry(refusals(harness)[-1][0], fresh=True)
    harness.drain()
    later = [one.getMessage() for one in caplog.records if one.getMessage().startswith("spawn refused")][len(lines) :]
    assert ["not_shown_before=14" in line for line in later] == [True]


def test_a_spawn_is_a_line_at_debug_level_with_depth_and_lineage(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    def follow(ctx: Context[Page]) -> None:
        for link in ctx.payload.links:
            ctx.spawn(Page(link))

    caplog.set_level(logging.DEBUG, "onceward.spawning")
    harness = start(site(follow))
    home = harness.enqueue(Page("home", ("a", "b")))
    harness.drain()
    [line] = [one for one in caplog.records if one.getMessage().startswith("spawned")]
    assert line.levelno == logging.DEBUG
    lineage = harness.task(home).lineage
    assert f"task={home.id} stage='follow' depth=1 lineage='{lineage}' count=2" in line.getMessage()
