"""Turns what is shown of a lineage into boxes with texts that fit, and lines that are thicker where more was spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Literal

import msgspec

from onceward.harmless import one_line
from onceward.model.budget import WHOLE
from onceward.views.branches import Drawn, LineageTree, TreeTask
from onceward.views.lineage import Link, Refusal
from onceward.web import tree_layout, words
from onceward.web.tree_folding import Group, Spot, spots_of
from onceward.web.tree_layout import Box

LETTER, SMALL_LETTER = 6.7, 6.2
"""The width of a letter of a key, which is mono, and of a sentence, on average."""
TEXT_AT, PAD = 25, 9
LINE_HEIGHT, TWO_LINES = 21, 40
NARROWEST, WIDEST_ROOT, WIDEST_REFUSED = 104, 200, 560
PAGE, NARROWEST_WIDEST, LEAST_WIDEST, MOST_WIDEST = 1_384, 172, 200, 272
"""How wide a tree should be, and between what the width of its boxes lies so that it is."""
THIN, THICK, GROWTH = 1.2, 6.0, 7.0
LONGEST_KEY = 1_000
"""How much of a key is shown at all; the page of its task has the whole."""
FEW_REFUSING = 12
"""With more tasks than that whose spawns were refused, each shows one of them and the number of the others."""

By = Literal["cost", "time"]


@dataclass(frozen=True, slots=True)
class Refused:
    """Refused spawns of a task: one of them, or the number of those that are not shown."""

    parent: TreeTask
    rule: str
    kind: str
    key: str | None
    reason: str
    times: int = 1
    existing: int | None = None


@dataclass(slots=True, eq=False)
class Node:
    """A box with its texts."""

    box: Box
    what: Spot | Group | Refused | Link
    sort: Literal["task", "more", "refused", "linked"]
    glyph: str
    head: str
    """The kind of a task, the rule of a refusal."""
    key: str
    title: str
    figure: str = ""
    below: str = ""
    """The second line."""
    body: int = 0
    """The width of the box itself, without what is beside it."""
    classes: str = ""

    @property
    def key_at(self) -> float:
        """Where the key begins, counted from the left of the box."""
        return TEXT_AT + (len(self.head) * LETTER + 8 if self.head else 0)


@dataclass(slots=True)
class Line:
    """An edge with its looks."""

    path: str
    width: float
    classes: str = ""


@dataclass(slots=True)
class Column:
    """The head of a column."""

    x: int
    word: str
    is_beyond: bool


@dataclass(slots=True)
class Drawing:
    """All that a page draws of a lineage."""

    width: int
    height: int
    nodes: list[Node]
    lines: list[Line]
    columns: list[Column]
    limit_at: int | None
    """Where the line of `max_depth` stands, if anything lies beyond it."""


@dataclass(slots=True)
class _Measure:
    """What the thickness of a line and the figure of a branch are about."""

    by: By
    whole: int
    several_kinds: bool
    widest: int
    starts: dict[int, int] = field(default_factory=dict)
    """Where the columns began when this was drawn before, so that long texts end with the page."""

    def thickness(self, part: int) -> float:
        """The line of a branch: by the root of its share, so that small ones can be told apart."""
        share = min(1.0, part / self.whole) if self.whole else 0.0
        return round(min(THICK, THIN + GROWTH * sqrt(share)), 1)

    def part(self, task: TreeTask) -> int:
        return task.cost if self.by == "cost" else task.length_ms

    def figure(self, task: TreeTask) -> str:
        if self.by == "time":
            return words.span(task.length_ms)
        return cost_text(task.cost) if task.cost else ""


def drawing(tree: LineageTree, roots: Sequence[Spot], drawn: Drawn, by: By, at: int | None) -> Drawing:
    """Draw a lineage: boxes with texts, lines, columns."""
    whole = max((root.cost if by == "cost" else root.length_ms for root in tree.roots), default=0)
    spots = spots_of(roots)
    first = min(root.task.depth for root in roots)
    last = max(spot.task.depth + (1 if spot.task.refusals or spot.groups else 0) for spot in spots)
    between = tree_layout.Spacing().between_columns
    widest = (PAGE - 150) // max(1, last - first + 1) - between
    widest = min(MOST_WIDEST, max(LEAST_WIDEST, widest))
    measure = _Measure(by, whole, len({task.kind for task in tree.tasks.values()}) > 1, widest)
    refusals = refused_by_task(tree, spots, drawn)
    layout = tree_layout.laid_out(_boxes(roots, first, measure, refusals, drawn, at))
    if layout.width > PAGE and measure.widest > NARROWEST_WIDEST:
        over = (layout.width - PAGE) * 2 // (3 * max(1, len(layout.columns) - 1)) + 1
        measure.starts = layout.columns
        measure.widest = max(NARROWEST_WIDEST, measure.widest - over)
        layout = tree_layout.laid_out(_boxes(roots, first, measure, refusals, drawn, at))
    nodes = [box.what for box in layout.boxes]
    beyond = [column for column in layout.columns if column + first > tree.max_depth]
    limit_at = layout.columns[beyond[0]] - 13 if beyond else None
    columns = [Column(x, f"depth {column + first}", column in beyond) for column, x in layout.columns.items()]
    for one in columns:
        if one.is_beyond:
            one.word = f"beyond max_depth {tree.max_depth}"
            break
    lines = [_line(edge, measure) for edge in layout.edges]
    return Drawing(layout.width, layout.height, nodes, lines, columns, limit_at)


def refused_by_task(tree: LineageTree, spots: Sequence[Spot], drawn: Drawn) -> Mapping[int, list[Refused]]:
    """Return what was refused to each task that is shown: the first of them, and the number of the others."""
    refusing = [spot.task for spot in spots if spot.task.refusals]
    each = 3 if len(refusing) <= FEW_REFUSING else 1
    found: dict[int, list[Refused]] = {}
    for task in refusing:
        kept = drawn.refusals.get(task.id, ())
        few = kept if task.refusals <= each else kept[: max(1, each - 1)]
        listed = [_refused(task, one) for one in few]
        others = task.refusals - len(listed)
        if others:
            rules = tree.refused_of.get(task.id, {})
            rule = next(iter(rules)) if len(rules) == 1 else "refused"
            uncounted = task.refusals - sum(rules.values())
            why = ", ".join(_counted(rules)) if len(rules) > 1 else kept[0].reason if kept else ""
            why = f"of {uncounted:,} only the number is kept" if uncounted > 0 else why
            listed.append(Refused(task, rule, kept[0].kind if kept else "", None, why, others))
        found[task.id] = listed
    return found


def _counted(rules: Mapping[str, int]) -> list[str]:
    return [f"{times:,} {rule}" for rule, times in rules.items()]


def _refused(task: TreeTask, one: Refusal) -> Refused:
    return Refused(task, one.rule.value, one.kind, one.key, one.reason, 1, one.existing or one.ancestor)


def _boxes(
    roots: Sequence[Spot],
    first: int,
    measure: _Measure,
    refusals: Mapping[int, list[Refused]],
    drawn: Drawn,
    at: int | None,
) -> list[Box]:
    made: dict[int, Box] = {}
    one_kind = len({child.kind for root in roots for child in root.task.children}) == 1
    tops: list[Box] = []
    for spot in spots_of(roots):
        column = spot.task.depth - first
        box = _task_box(spot, column, measure, drawn, at, is_alike=column == 1 and one_kind)
        made[spot.task.id] = box
        above = None if spot.task.parent is None else made.get(spot.task.parent)
        (tops if above is None else above.children).append(box)
    for spot in spots_of(roots):
        box, column = made[spot.task.id], spot.task.depth - first + 1
        box.children += [_more_box(group, column, measure) for group in spot.groups]
        if spot.is_open or not spot.task.children:
            box.children += [_link_box(link, column, measure.widest) for link in drawn.links.get(spot.task.id, ())[:5]]
            box.children += [_refused_box(one, column, measure) for one in refusals.get(spot.task.id, ())]
    return tops


def _task_box(
    spot: Spot, column: int, measure: _Measure, drawn: Drawn, at: int | None, *, is_alike: bool = False
) -> Box:
    """Return the box of a task. `is_alike`: all children of the root are of its kind, and it is not said of each."""
    task = spot.task
    known = drawn.tasks.get(task.id)
    full_key = spoken_key(known.key) if known else ""
    figure = "" if spot.is_open and column > 1 and not spot.groups else measure.figure(task)
    hides = spot.can_unfold or spot.groups or column == 1
    below = branch_words(task) if column == 0 or (hides and (task.tasks > 2 or task.refused)) else ""
    beside = 0 if below or not figure else len(figure) * SMALL_LETTER + 14
    widest = WIDEST_ROOT if column == 0 else measure.widest
    head = cut(one_line(task.kind), 18) if (measure.several_kinds and not is_alike) or not full_key else ""
    head_width = len(head) * LETTER + 8 if head else 0
    key = cut(full_key, max(8, int((widest - TEXT_AT - PAD - beside - head_width) / LETTER)))
    if below:
        room = widest + 16 - TEXT_AT - PAD - (len(figure) * SMALL_LETTER + 12 if figure else 0)
        below = shortened(below, int(room / SMALL_LETTER))
    first_line = TEXT_AT + PAD + beside + head_width + len(key) * LETTER
    second_line = TEXT_AT + PAD + len(below) * SMALL_LETTER + (len(figure) * SMALL_LETTER + 12 if figure else 0)
    body = int(max(first_line, second_line if below else 0, 190 if task.is_parked else NARROWEST))
    tab = len(f"+{task.tasks - 1:,}") * 7 + 14 if spot.can_unfold else 0
    height = 47 if task.is_parked else TWO_LINES if below else LINE_HEIGHT
    box = Box(body + tab, height, column)
    status = "parked" if task.is_parked else "paused" if task.is_paused and task.open else task.status.word
    stands = "waits for approval" if task.is_parked else "paused" if status == "paused" else task.status.word
    reason = f": {one_line(known.reason)}" if known and known.reason else ""
    title = f"{task.id} {one_line(task.kind)} {full_key}, {stands}{reason}"
    classes = f"node--{status}" + (" node--root" if column == 0 else "") + (" node--here" if task.id == at else "")
    box.what = Node(box, spot, "task", status, head, key, title, figure, below, body, classes)
    return box


def _more_box(group: Group, column: int, measure: _Measure) -> Box:
    text = more_words(group)
    cost = sum(task.cost for task in group.tasks)
    figure = cost_text(cost) if measure.by == "cost" and cost else ""
    width = int(17 + len(text) * SMALL_LETTER + (len(figure) * SMALL_LETTER + 16 if figure else 0))
    box = Box(width, LINE_HEIGHT, column, may_overhang=True)
    box.what = Node(box, group, "more", "", "", text, text, figure, "", width, "node--more")
    return box


def _refused_box(one: Refused, column: int, measure: _Measure) -> Box:
    starts = measure.starts.get(column, 170 + (column - 1) * (measure.widest + 26))
    most = max(measure.widest, min(WIDEST_REFUSED, PAGE - starts))
    letters = max(8, min(32, int((most - TEXT_AT - PAD - 12) / LETTER) - len(one.rule)))
    key = cut(spoken_key(one.key), letters) if one.key else f"{one.times:,} more" if one.times > 1 else one.kind
    taken = TEXT_AT + PAD + (len(one.rule) + len(key)) * LETTER + 12
    room = int((most - taken - 14) / SMALL_LETTER)
    why = shortened(one_line(one.reason), room) if room >= 12 else ""
    width = taken + (14 + len(why) * SMALL_LETTER if why else 0)
    box = Box(int(width), LINE_HEIGHT, column, may_overhang=True)
    title = one_line(f"{one.rule}: {one.kind} {one.key or key}: {one.reason}")
    box.what = Node(box, one, "refused", "refused", one.rule, key, title, "", why, int(width), "node--refused")
    return box


def _link_box(link: Link, column: int, widest: int) -> Box:
    head = cut(one_line(link.kind), 18)
    key = cut(spoken_key(link.key or ""), max(8, int((widest - TEXT_AT - PAD - 54) / LETTER) - len(head)))
    width = int(TEXT_AT + PAD + (len(head) + len(key)) * LETTER + 8 + 46)
    box = Box(width, LINE_HEIGHT, column, may_overhang=True)
    name = one_line(f"{link.task} {link.kind} {link.key or ''}")
    title = f"{name}, {link.status.word}: was there already, linked instead of made"
    box.what = Node(box, link, "linked", link.status.word, head, key, title, "linked", "", width, "node--linked")
    return box


def _line(edge: tree_layout.Edge, measure: _Measure) -> Line:
    node: Node = edge.child.what
    if isinstance(node.what, Spot):
        task = node.what.task
        return Line(edge.path, measure.thickness(measure.part(task)), "edge--parked" if task.is_parked else "")
    if isinstance(node.what, Group):
        part = sum(task.cost for task in node.what.tasks) if measure.by == "cost" else 0
        return Line(edge.path, measure.thickness(part))
    return Line(edge.path, THIN, "edge--refused")


def cost_text(cost: int) -> str:
    """Write what a branch has cost: 0.0312."""
    return words.money(cost / WHOLE)


def branch_words(task: TreeTask) -> str:
    """Say what a branch holds, in few words: 24 tasks, 2 open, 1 waits for you."""
    said = [f"{task.tasks:,} tasks" if task.tasks > 1 else "1 task"]
    if task.parked:
        said.append(f"{task.parked:,} {'waits' if task.parked == 1 else 'wait'} for you")
    if task.open - task.parked > 0 and task.tasks > 1:
        said.append(f"{task.open - task.parked:,} open")
    if task.failed:
        said.append(f"{task.failed:,} failed")
    if task.refused:
        said.append(f"{task.refused:,} refused")
    return ", ".join(said)


def more_words(group: Group) -> str:
    """Say what is not shown one by one: + 147 more job tasks: 140 filtered, 7 failed."""
    counts = group.counts
    if len(counts) == 1:
        stands = f"all {counts[0][0].word}"
    else:
        stands = ", ".join(f"{count:,} {status.word}" for status, count in counts[:3])
    below = f", {group.below:,} below" if group.below else ""
    return f"+ {len(group.tasks):,} more {one_line(group.kind)} tasks{below}: {stands}"


def shortened(text: str, most: int) -> str:
    """Cut a sentence at its end."""
    return text if len(text) <= most else f"{text[: max(1, most - 1)]}…"


def cut(text: str, most: int) -> str:
    """Cut a text in its middle, for its end tells as much as its beginning."""
    if len(text) <= most:
        return text
    tail = max(3, (most - 1) * 2 // 5)
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def spoken_key(key: str) -> str:
    """Write a key for a small box: without `https://`, and of the fields of a payload their values alone."""
    key = key[:LONGEST_KEY]
    if key[:1] in "{[":
        try:
            fields = msgspec.json.decode(key)
        except msgspec.DecodeError:
            return one_line(key)
        values = fields.values() if isinstance(fields, dict) else fields
        return one_line(" ".join(map(_plain, values))) or one_line(key)
    return one_line(key).removeprefix("https://")


def _plain(value: object) -> str:
    return value.removeprefix("https://") if isinstance(value, str) else msgspec.json.encode(value).decode()
