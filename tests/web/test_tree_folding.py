"""What of a lineage is shown: what a person unfolded in any case, then trouble and money, as long as there is room."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest

from onceward.model.status import Status
from onceward.views.branches import Drawn, DrawnTask, LineageTree, TreeTask
from onceward.web import tree_drawing, tree_folding
from onceward.web.tree_folding import FIRST_ALIKE, MOST_ALIKE, MOST_ROWS, ROOM, Folding, chosen, spots_of

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)


class Grower:
    """Makes trees of tasks, with the sums of their branches."""

    def __init__(self) -> None:
        self.tasks: dict[int, TreeTask] = {}

    def task(
        self,
        parent: TreeTask | None = None,
        kind: str = "page",
        status: Status = Status.SUCCEEDED,
        cost: int = 0,
        parked: bool = False,
        refusals: int = 0,
    ) -> TreeTask:
        depth = 0 if parent is None else parent.depth + 1
        one = TreeTask(
            len(self.tasks) + 1, None if parent is None else parent.id, depth, kind, status, False, parked, refusals,
            0, 1_000, cost, 1, int(not status.is_terminal), int(status is Status.FAILED), int(parked), refusals,
        )  # fmt: skip
        self.tasks[one.id] = one
        if parent is not None:
            parent.children.append(one)
        above = parent
        while above is not None:
            above.tasks, above.open, above.failed = above.tasks + 1, above.open + one.open, above.failed + one.failed
            above.cost, above.parked = above.cost + cost, above.parked + one.parked
            above.refused += refusals
            above = None if above.parent is None else self.tasks[above.parent]
        return one

    @property
    def tree(self) -> LineageTree:
        roots = tuple(task for task in self.tasks.values() if task.parent is None)
        deepest = max(task.depth for task in self.tasks.values())
        return LineageTree(
            uuid.UUID(int=1), True, roots, self.tasks, {}, 0, len(self.tasks), 10_000, 4, 1_000, deepest, NOON, NOON,
            (), {}, None,
        )  # fmt: skip


@pytest.mark.parametrize("text", ["", "12", "12.55", "12.55_34_-7", "-1_-2"])
def test_a_folding_is_written_as_it_was_read(text: str) -> None:
    assert Folding.parsed(text).text == text


@pytest.mark.parametrize("text", ["x", "12.x", "--7", "1.2.3", "\u0663", "_", "9" * 40, "<script>", "-"])
def test_what_means_nothing_in_an_address_is_passed_over(text: str) -> None:
    assert Folding.parsed(text) == Folding.parsed("")


def test_unfolding_and_folding_take_each_other_back() -> None:
    folding = Folding.parsed("12").folding(12)
    assert folding.text == "-12"
    assert folding.unfolding(12, 55).text == "12.55"


def test_up_to_eight_like_children_are_shown_one_by_one() -> None:
    grower = Grower()
    root = grower.task()
    for _ in range(MOST_ALIKE):
        grower.task(root)
    [spot] = chosen(grower.tree, Folding())
    assert len(spot.children) == MOST_ALIKE
    assert spot.groups == []


def test_of_more_like_children_those_with_something_to_see_are_shown() -> None:
    grower = Grower()
    root = grower.task()
    for place in range(150):
        grower.task(
            root, status=Status.FAILED if place == 77 else Status.FILTERED, cost=place == 99, parked=place == 140
        )
    [spot] = chosen(grower.tree, Folding())
    shown = [child.task.id - 2 for child in spot.children]
    assert len(shown) == FIRST_ALIKE
    assert {77, 99, 140} <= set(shown)
    assert shown == sorted(shown)
    [group] = spot.groups
    assert len(group.tasks) == 150 - FIRST_ALIKE
    assert tree_drawing.more_words(group) == "+ 145 more page tasks: all filtered"


def test_unfolding_a_group_shows_a_portion_more_and_then_more() -> None:
    grower = Grower()
    root = grower.task()
    for _ in range(400):
        grower.task(root)
    folding, sizes = Folding(), []
    while True:
        [spot] = chosen(grower.tree, folding)
        sizes.append(len(spot.children))
        if not spot.groups:
            break
        folding = folding.unfolding(1, spot.groups[0].next_portion)
    assert sizes == [5, 55, 255, 400]


def test_kinds_are_grouped_each_for_itself() -> None:
    grower = Grower()
    root = grower.task(kind="site")
    for _ in range(20):
        grower.task(root, "page")
        grower.task(root, "image")
    grower.task(root, "report")
    [spot] = chosen(grower.tree, Folding())
    assert {(group.kind, len(group.tasks)) for group in spot.groups} == {("page", 15), ("image", 15)}


def test_ten_thousand_tasks_take_no_more_room_than_a_page() -> None:
    grower = Grower()
    root = grower.task()
    for _ in range(100):
        middle = grower.task(root)
        for _ in range(99):
            grower.task(middle)
    shown = spots_of(chosen(grower.tree, Folding()))
    assert 1 < len(shown) <= ROOM + MOST_ALIKE


def test_however_much_is_unfolded_a_tree_has_an_end() -> None:
    grower = Grower()
    root = grower.task()
    middles = [grower.task(root) for _ in range(40)]
    for middle in middles:
        for _ in range(250):
            grower.task(middle)
    folding = Folding({task.id: 1_255 for task in [root, *middles]})
    assert len(spots_of(chosen(grower.tree, folding))) <= MOST_ROWS


def test_a_folded_task_stays_folded_and_an_unfolded_one_open() -> None:
    grower = Grower()
    root = grower.task()
    one, other = grower.task(root), grower.task(root)
    for above in (one, other):
        for _ in range(3):
            grower.task(above)
    [spot] = chosen(grower.tree, Folding(folded=frozenset({one.id})), room=1)
    first, second = spot.children
    assert not first.is_open
    assert first.can_unfold
    assert not second.is_open
    [spot] = chosen(grower.tree, Folding({other.id: 0}), room=1)
    assert [child.is_open for child in spot.children] == [False, True]


def test_what_waits_for_a_person_is_unfolded_before_the_rest() -> None:
    grower = Grower()
    root = grower.task()
    branches = [grower.task(root) for _ in range(6)]
    for branch in branches:
        deeper = grower.task(branch)
        for _ in range(8):
            grower.task(deeper, cost=5, parked=branch is branches[4])
    [spot] = chosen(grower.tree, Folding(), room=14)
    shown = {one.task.id for one in spots_of([spot])}
    assert {child.id for child in branches[4].children[0].children} <= shown


def test_boxes_say_what_they_hold_and_lines_are_thicker_where_more_was_spent() -> None:
    grower = Grower()
    root = grower.task(kind="site")
    dear, cheap = grower.task(root), grower.task(root, status=Status.FAILED)
    grower.task(dear, "question", cost=900_000_000)
    grower.task(cheap, "question", cost=1_000_000, refusals=1)
    tree = grower.tree
    roots = chosen(tree, Folding())
    drawn = Drawn(
        {task: DrawnTask(f"https://a.example/{task}" * 9, None, 1, 0, None, None) for task in tree.tasks}, {}, {}
    )
    drawing = tree_drawing.drawing(tree, roots, drawn, "cost", dear.id)
    by_id = {node.what.task.id: node for node in drawing.nodes if isinstance(node.what, tree_folding.Spot)}
    assert by_id[root.id].figure == "0.9010"
    assert "5 tasks" in by_id[root.id].below
    assert "node--here" in by_id[dear.id].classes
    assert "node--failed" in by_id[cheap.id].classes
    assert all(len(node.key) * tree_drawing.LETTER < node.body for node in drawing.nodes)
    assert max(line.width for line in drawing.lines) == tree_drawing.THICK
    assert [node.sort for node in drawing.nodes].count("refused") == 1


def test_what_lies_beyond_max_depth_stands_behind_a_line() -> None:
    grower = Grower()
    task = grower.task()
    for _ in range(4):
        task = grower.task(task)
    tree = grower.tree
    drawn = Drawn({}, {}, {})
    assert tree_drawing.drawing(tree, chosen(tree, Folding()), drawn, "cost", None).limit_at is None
    beyond = grower.task(task, status=Status.WAITING, parked=True)
    tree = grower.tree
    drawing = tree_drawing.drawing(tree, chosen(tree, Folding()), drawn, "cost", None)
    [node] = [node for node in drawing.nodes if "node--parked" in node.classes]
    assert isinstance(node.what, tree_folding.Spot)
    assert node.what.task is beyond
    assert drawing.limit_at is not None
    assert drawing.limit_at < node.box.x
    assert drawing.columns[-1].word == "beyond max_depth 4"


@pytest.mark.parametrize(
    ("key", "spoken"),
    [
        ("https://a.example/b", "a.example/b"),
        ('{"url":"https://a.example","n":3}', "a.example 3"),
        ('["a",null]', "a null"),
        ('{"cut at a thousand', '{"cut at a thousand'),
        ("a\u202eb\x1b[31m", "a\\u202eb\\x1b[31m"),
    ],
)
def test_keys_are_spoken_in_few_words_and_do_no_harm(key: str, spoken: str) -> None:
    assert tree_drawing.spoken_key(key) == spoken
