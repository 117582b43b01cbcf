"""Chooses what of a lineage is drawn: what a person has unfolded, then what matters most, as long as there is room."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from onceward.model.status import Status
from onceward.views.branches import LineageTree, TreeTask

ROOM = 70
"""How many rows a tree may take before a person has unfolded anything."""
MOST_ROWS = 2_000
"""How many rows it may take at all."""
MOST_ALIKE = 8
"""As many like children are shown one by one; of more than that only the first few."""
FIRST_ALIKE = 5
PORTIONS = (55, 255, 1_255)
"""How many like children are shown after the first, second and third unfolding."""
LONGEST_TEXT = 4_000


@dataclass(frozen=True, slots=True)
class Folding:
    """What a person has unfolded and folded, as it stands in the address: `12.55_34_-7`."""

    opened: Mapping[int, int] = field(default_factory=dict)
    """By task, how many like children of it are shown; 0: the first few."""
    folded: frozenset[int] = frozenset()

    @classmethod
    def parsed(cls, text: str) -> Folding:
        """Read it from an address; what means nothing there is passed over."""
        opened: dict[int, int] = {}
        folded: set[int] = set()
        for word in text[:LONGEST_TEXT].split("_") if text.isascii() else ():
            number, _, count = word.partition(".")
            if number[:1] == "-" and number[1:].isdecimal() and len(word) < 30:
                folded.add(int(number[1:]))
            elif number.isdecimal() and (not count or count.isdecimal()) and len(word) < 30:
                opened[int(number)] = min(int(count or 0), PORTIONS[-1])
        return cls(opened, frozenset(folded))

    @property
    def text(self) -> str:
        """As it stands in an address."""
        opened = [f"{task}.{count}" if count else str(task) for task, count in self.opened.items()]
        return "_".join([*opened, *(f"-{task}" for task in sorted(self.folded))])

    def unfolding(self, task: int, count: int = 0) -> Folding:
        """The same with one task unfolded, or more of its like children shown."""
        return Folding({**self.opened, task: count}, self.folded - {task})

    def folding(self, task: int) -> Folding:
        """The same with one task folded."""
        return Folding({one: n for one, n in self.opened.items() if one != task}, self.folded | {task})


@dataclass(slots=True, eq=False)
class Group:
    """Like children of a task that are not shown one by one."""

    parent: TreeTask
    kind: str
    tasks: list[TreeTask]
    shown: int
    """How many like them are shown."""

    @property
    def next_portion(self) -> int:
        """How many are shown when it is unfolded."""
        return next((one for one in PORTIONS if one > self.shown), PORTIONS[-1])

    @property
    def is_last(self) -> bool:
        """Whether it cannot be unfolded further: each task has a page, and a list has filters."""
        return self.shown >= PORTIONS[-1]

    @property
    def counts(self) -> list[tuple[Status, int]]:
        """How many of them stand where, most frequent first."""
        found: dict[Status, int] = {}
        for task in self.tasks:
            found[task.status] = found.get(task.status, 0) + 1
        return sorted(found.items(), key=lambda one: (-one[1], one[0]))

    @property
    def below(self) -> int:
        """How many tasks descend from them."""
        return sum(task.tasks - 1 for task in self.tasks)


@dataclass(slots=True, eq=False)
class Spot:
    """A task that is shown, with the children that are."""

    task: TreeTask
    is_open: bool = False
    children: list[Spot] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)

    @property
    def can_unfold(self) -> bool:
        """Whether it has children that are not shown."""
        return bool(self.task.children) and not self.is_open

    def walk(self) -> Iterator[Spot]:
        """This one and all below it, each after its parent."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            yield one
            waiting.extend(reversed(one.children))


def chosen(tree: LineageTree, folding: Folding, room: int = ROOM) -> list[Spot]:
    """Choose what is shown: what was unfolded in any case, and of the rest the trouble and the money first."""
    roots = [Spot(task) for task in _few(tree.roots, folding.opened.get(0, PORTIONS[0]))]
    left, most = room - len(roots), MOST_ROWS - len(roots)
    waiting: list[tuple[tuple[object, ...], int, Spot]] = []
    for spot in roots:
        heapq.heappush(waiting, (_urgency(spot.task, folding), spot.task.id, spot))
    while waiting:
        _, _, spot = heapq.heappop(waiting)
        if not spot.task.children or spot.task.id in folding.folded:
            continue
        children, groups = _shown(spot.task, folding.opened.get(spot.task.id, 0))
        rows = len(children) + len(groups) - 1
        is_wanted = spot.task.id in folding.opened or spot.task.parent is None
        if rows > most or (rows > left and not is_wanted):
            continue
        left, most = left - rows, most - rows
        spot.is_open, spot.groups = True, groups
        spot.children = [Spot(task) for task in children]
        for child in spot.children:
            heapq.heappush(waiting, (_urgency(child.task, folding), child.task.id, child))
    return roots


def _urgency(task: TreeTask, folding: Folding) -> tuple[object, ...]:
    """What is unfolded first: what a person asked for, what waits for one, what is near the root, what costs most."""
    return (task.id not in folding.opened, not task.parked, task.depth, not task.failed, -task.cost, -task.refused)


def _interest(task: TreeTask) -> tuple[object, ...]:
    """Which of many like children are shown: those with something to see."""
    return (not task.parked, not task.failed, not task.open, -task.cost, -task.refused, -task.tasks, task.id)


def _few(tasks: Sequence[TreeTask], count: int) -> list[TreeTask]:
    if len(tasks) <= max(count, MOST_ALIKE):
        return list(tasks)
    return sorted(sorted(tasks, key=_interest)[: max(count, FIRST_ALIKE)], key=lambda task: task.id)


def _shown(task: TreeTask, count: int) -> tuple[list[TreeTask], list[Group]]:
    """The children that are shown one by one, and the others in groups of like ones."""
    alike: dict[str, list[TreeTask]] = {}
    for child in task.children:
        alike.setdefault(child.kind, []).append(child)
    children: list[TreeTask] = []
    groups: list[Group] = []
    for kind, some in alike.items():
        few = _few(some, count)
        children += few
        if len(few) < len(some):
            shown = {one.id for one in few}
            groups.append(Group(task, kind, [one for one in some if one.id not in shown], len(few)))
    return sorted(children, key=lambda one: one.id), groups


def spots_of(roots: Iterable[Spot]) -> list[Spot]:
    """All that is shown, each after its parent."""
    return [spot for root in roots for spot in root.walk()]
