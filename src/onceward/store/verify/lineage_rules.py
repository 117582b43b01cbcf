"""Rules about lineages as a whole and about joins: each function yields the breaches of one.

Unlike those of `task_rules` they look at more than one task at a time. They run on the same snapshot.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from onceward.model.lineage import Rule, read_ancestry
from onceward.model.status import Event, Status
from onceward.store.lineage.joins import CHILDREN
from onceward.store.lineage.spawn_requests import scopes_in
from onceward.store.op import Row
from onceward.store.rows import as_uuid
from onceward.store.verify.task_rules import History, Logged, asked_about, may_be_twice


class TaskBreach(NamedTuple):
    """A breach, in words, and the task it is about."""

    sentence: str
    task: int


class Members:
    """What the tasks of lineages say, one after the other in the order of ids, so that ancestors come first."""

    def __init__(self, open_twice: Iterable[Row]) -> None:
        self.scoped = Counter[uuid.UUID]()
        """How many tasks are counted in a narrower scope."""
        self.beyond = Counter[uuid.UUID]()
        """How many tasks of a lineage or scope were made although there was no room, for an operator to approve of."""
        self.same = {task: first for first, task in open_twice}
        """Tasks whose work is open twice, though it must not be, each with the first task of that work."""
        self._paused: set[int] = set()

    def add(self, history: History) -> Iterator[str]:
        """Add a task; yields its breaches of `pauses`."""
        family = history.family
        if family is not None:
            scopes = scopes_in(family.scopes)
            self.scoped.update(scopes)
            if family.parent is not None and Rule.LIMIT in asked_about(history):
                self.beyond.update([as_uuid(family.lineage), *scopes])
        if history.task.id in self.same and may_be_twice(history):
            del self.same[history.task.id]
        yield from pauses(history, self._paused)
        if history.task.paused:
            self._paused.add(history.task.id)


def pauses(history: History, marked: Collection[int]) -> Iterator[str]:
    """Below a paused task everything that is open is paused, and nothing that is paused has begun since."""
    task, family = history.task, history.family
    if family is None or family.parent is None:
        yield from _paused_root(history)
    elif task.status < Status.SUCCEEDED and (task.paused or marked):
        above = [one.task for one in read_ancestry(family.ancestry) if one.task in marked]
        if above and not task.paused:
            yield f"task {task.id} is open and not paused, but its ancestor, task {above[0]}, is"
        if task.paused and not above and not family.pruned and not _told_of(history):
            yield f"task {task.id} is paused, but neither it nor an ancestor was paused"


def _paused_root(history: History) -> Iterator[str]:
    """A root is paused and resumed by its own log rows alone, which tell all of it."""
    task, told = history.task, _told_of(history)
    since = told[-1].fence if told and told[-1].event == Event.PAUSED else None
    if bool(task.paused) != (since is not None):
        yield f"task {task.id} is {'paused' if task.paused else 'not paused'}, and its log says otherwise"
    elif since is not None and task.fence > since:
        yield f"task {task.id} was paused at claim {since}, and claim {task.fence} took it all the same"


def _told_of(history: History) -> list[Logged]:
    return [row for row in history.log if row.event in (Event.PAUSED, Event.RESUMED)]


def wrong_counts(rows: Iterable[Row], members: Members) -> Iterator[TaskBreach]:
    """Lineages, and narrower scopes in them, that do not count their tasks, or have more than they may.

    Tasks that waited for approval may be too many. Pruned tasks are left out: whether they had waited is not known.
    """
    for number, root, tasks, most, pruned, there in rows:
        lineage = as_uuid(number)
        counted = (there or members.scoped[lineage]) + pruned
        if tasks != counted:
            yield TaskBreach(f"the lineage of task {root} says {tasks} tasks, there are or were {counted}", root)
        if tasks - members.beyond[lineage] - pruned > most:
            yield TaskBreach(f"the lineage of task {root} has {tasks} tasks, and its max_tasks is {most}", root)


def work_open_twice(members: Members) -> Iterator[TaskBreach]:
    """Work that is open twice in one lineage."""
    together: dict[int, list[int]] = {}
    for task, first in members.same.items():
        together.setdefault(first, []).append(task)
    for first, *others in together.values():
        for second in others:
            yield TaskBreach(
                f"task {second} is the same work as task {first}, and both are open in one lineage", second
            )


def lost_identities(rows: Iterable[Row]) -> Iterator[TaskBreach]:
    """Open tasks that others no longer meet under a key by which they go."""
    for task, holder in rows:
        whose = "no task has it" if holder is None else f"task {holder} has it"
        yield TaskBreach(f"task {task} is open and has lost the identity of an alias: {whose}", task)


def endless_joins(joins: Iterable[Row], alone: Iterable[Row]) -> Iterator[TaskBreach]:
    """Joins that no end would ever wake, and rows of joins that are over."""
    for child, parent, child_status, awaited, parent_status, waiting_for in joins:
        if parent_status != Status.WAITING or waiting_for != CHILDREN:
            yield TaskBreach(f"task {parent} is said to wait for task {child}, but does not wait for children", parent)
        elif child_status is None or Status(child_status).is_terminal:
            yield TaskBreach(f"task {parent} waits for task {child}, which has ended: it would never be woken", parent)
        elif not awaited:
            yield TaskBreach(
                f"task {parent} waits for task {child}, which does not know: its end would not wake it", parent
            )
    for (task,) in alone:
        yield TaskBreach(f"task {task} waits for children, but none of them is open: it would never be woken", task)
