"""Places the boxes of a tree: one pass down the rows, one over the columns. A leaf takes a row of its own, a parent the
row of its first child."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LINE = 10.5
"""From the top of a box to the middle of its first line, where edges end."""
ELBOW = 14
"""How far before a box its edge turns."""
CURVE = 5


@dataclass(slots=True, eq=False)
class Box:
    """A box of the tree: how large it is, in which column, and what hangs from it."""

    width: int
    height: int
    column: int
    children: list[Box] = field(default_factory=list)
    what: Any = None
    """What it stands for; the layout does not look at it."""
    may_overhang: bool = False
    """Whether it may reach into the columns behind its own, where its row is empty."""
    x: int = 0
    y: int = 0


class Edge(NamedTuple):
    """A line from a box to one that hangs from it."""

    parent: Box
    child: Box
    path: str
    """As an SVG path draws it."""


class Layout(NamedTuple):
    """A tree with a place for every box."""

    boxes: list[Box]
    """Each after its parent, from top to bottom."""
    edges: list[Edge]
    """From bottom to top, so that the lines at the top lie above the others."""
    columns: dict[int, int]
    """Where each column begins."""
    width: int
    height: int


class Spacing(NamedTuple):
    """The distances of a layout, in pixels."""

    top: int = 46
    left: int = 12
    between_columns: int = 26
    between_rows: int = 4
    after_branch: int = 16
    """Below a branch of the second column, so that branches stand apart."""


def laid_out(roots: Sequence[Box], spacing: Spacing = Spacing()) -> Layout:  # noqa: B008 - it never changes
    """Give every box its place."""
    boxes = list(_down(roots))
    columns, right = _columns(boxes, spacing)
    bottom = _rows(roots, spacing)
    for box in boxes:
        box.x = columns[box.column]
    right = max([right, *(box.x + box.width for box in boxes)])
    edges = [Edge(box, child, edge_path(box, child)) for box in boxes for child in box.children]
    return Layout(boxes, edges[::-1], columns, right + spacing.left, bottom + spacing.left)


def _down(roots: Iterable[Box]) -> Iterator[Box]:
    waiting = list(reversed(list(roots)))
    while waiting:
        box = waiting.pop()
        yield box
        waiting.extend(reversed(box.children))


def _columns(boxes: Iterable[Box], spacing: Spacing) -> tuple[dict[int, int], int]:
    widest: dict[int, int] = {}
    for box in boxes:
        if not box.may_overhang:
            widest[box.column] = max(widest.get(box.column, 0), box.width)
        else:
            widest.setdefault(box.column, 0)
    starts: dict[int, int] = {}
    x = spacing.left
    for column in range(min(widest, default=0), max(widest, default=0) + 1):
        starts[column] = x
        x += widest.get(column, 0) + spacing.between_columns
    return starts, x - spacing.between_columns


def _rows(roots: Sequence[Box], spacing: Spacing) -> int:
    """Place the boxes from top to bottom, without recursion; returns where the last one ends."""
    cursor = spacing.top
    entered: list[tuple[Box, int]] = []
    waiting: list[tuple[Box, bool]] = [(root, False) for root in reversed(roots)]
    while waiting:
        box, is_left = waiting.pop()
        if is_left:
            _, began = entered.pop()
            cursor = max(cursor, began + box.height + spacing.between_rows)
            if box.column == 1 and box.children:
                cursor += spacing.after_branch
            continue
        box.y = cursor
        entered.append((box, cursor))
        waiting.append((box, True))
        waiting.extend((child, False) for child in reversed(box.children))
    return cursor


def edge_path(parent: Box, child: Box) -> str:
    """Draw the line between two boxes: to the right, down, and to the right again, with round corners."""
    from_x, from_y = parent.x + parent.width, parent.y + LINE
    to_x, to_y = child.x, child.y + LINE
    if to_y == from_y:
        return f"M{from_x} {from_y}H{to_x}"
    turn = to_x - ELBOW
    return (
        f"M{from_x} {from_y}H{turn - CURVE}Q{turn} {from_y} {turn} {from_y + CURVE}"
        f"V{to_y - CURVE}Q{turn} {to_y} {turn + CURVE} {to_y}H{to_x}"
    )
