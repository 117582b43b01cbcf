"""The tidy tree: a leaf takes a row, a parent the row of its first child, and no box lies on another."""

from __future__ import annotations

import itertools
import random
import re

from onceward.web.tree_layout import LINE, Box, Spacing, edge_path, laid_out


def leaf(column: int, width: int = 100, height: int = 21) -> Box:
    return Box(width, height, column)


def test_a_leaf_takes_a_row_and_a_parent_the_row_of_its_first_child() -> None:
    first, second, other = leaf(2), leaf(2), leaf(1)
    parent = Box(80, 21, 1, [first, second])
    root = Box(120, 21, 0, [parent, other])
    layout = laid_out([root])
    assert root.y == parent.y == first.y
    assert second.y == first.y + 21 + Spacing().between_rows
    assert other.y == second.y + 21 + Spacing().between_rows + Spacing().after_branch
    assert layout.boxes == [root, parent, first, second, other]


def test_columns_are_as_wide_as_their_widest_box() -> None:
    root = Box(120, 21, 0, [leaf(1, 80), leaf(1, 200), Box(50, 21, 1, [leaf(2)])])
    layout = laid_out([root])
    assert layout.columns == {0: 12, 1: 12 + 120 + 26, 2: 12 + 120 + 26 + 200 + 26}
    assert layout.width == layout.columns[2] + 100 + 12


def test_an_overhanging_box_widens_the_tree_but_not_its_column() -> None:
    wide = Box(900, 21, 1, may_overhang=True)
    layout = laid_out([Box(100, 21, 0, [leaf(1, 80), wide])])
    assert layout.width == layout.columns[1] + 900 + 12
    assert 2 not in layout.columns


def test_a_high_parent_keeps_what_follows_away() -> None:
    parent, follower = Box(100, 40, 1, [leaf(2)]), leaf(1)
    laid_out([Box(100, 21, 0, [parent, follower])])
    assert follower.y >= parent.y + 40


def test_no_box_lies_on_another_in_trees_of_any_shape() -> None:
    dice = random.Random(7)
    for _ in range(50):
        root = Box(100, 40, 0)
        boxes = [root]
        for _ in range(dice.randrange(1, 120)):
            above = dice.choice(boxes)
            box = Box(dice.randrange(40, 260), dice.choice((21, 40, 47)), above.column + 1)
            above.children.append(box)
            boxes.append(box)
        placed = laid_out([root]).boxes
        assert len(placed) == len(boxes)
        for column in {box.column for box in placed}:
            column_boxes = sorted((box for box in placed if box.column == column), key=lambda box: box.y)
            for upper, lower in itertools.pairwise(column_boxes):
                assert upper.y + upper.height <= lower.y


def test_a_tree_as_deep_as_a_lineage_may_be_needs_no_recursion() -> None:
    root = box = Box(10, 21, 0)
    for depth in range(1, 5_000):
        box.children.append(Box(10, 21, depth))
        box = box.children[0]
    assert len({box.y for box in laid_out([root]).boxes}) == 1


def test_an_edge_ends_at_the_first_line_of_both_boxes() -> None:
    upper, lower = leaf(0), leaf(1)
    laid_out([Box(100, 21, 0, [leaf(1), lower])])
    upper.x, upper.y = 0, 0
    numbers = [float(number) for number in re.findall(r"[-\d.]+", edge_path(upper, lower))]
    assert numbers[:2] == [100, LINE]
    assert numbers[-1] == lower.x
    assert f"{lower.y + LINE}" in edge_path(upper, lower)
    lower.y = 0
    assert edge_path(upper, lower) == f"M100 {LINE}H{lower.x}"
