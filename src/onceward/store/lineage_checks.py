"""What is true of lineages as a whole, and of those who wait for each other: each function finds the ways it is broken.

Unlike the rules of `invariants` these look at more than one task at a time. They run on the same snapshot.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from onceward.model.status import Status
from onceward.store.families import CHILDREN
from onceward.store.op import Row
from onceward.store.rows import as_uuid


class Found(NamedTuple):
    """A breach, in words, and the task it is about."""

    sentence: str
    task: int


def miscounted(rows: Iterable[Row], scoped: Counter[uuid.UUID]) -> Iterator[Found]:
    """Lineages, and narrower scopes in them, that do not count their tasks, or have more than they may."""
    for number, root, tasks, most, pruned, there in rows:
        lineage = as_uuid(number)
        counted = (there or scoped[lineage]) + pruned
        if tasks != counted:
            yield Found(f"the lineage of task {root} says {tasks} tasks, there are or were {counted}", root)
        if tasks > most:
            yield Found(f"the lineage of task {root} has {tasks} tasks, and its max_tasks is {most}", root)


def doubled(rows: Iterable[Row]) -> Iterator[Found]:
    """Work that is open twice in one lineage."""
    for first, second in rows:
        yield Found(f"task {second} is the same work as task {first}, and both are open in one lineage", second)


def misjoined(joins: Iterable[Row], alone: Iterable[Row]) -> Iterator[Found]:
    """Waits that nobody would ever end, and rows of waits that are over."""
    for child, parent, child_status, awaited, parent_status, waiting_for in joins:
        if parent_status != Status.WAITING or waiting_for != CHILDREN:
            yield Found(f"task {parent} is said to wait for task {child}, but does not wait for children", parent)
        elif child_status is None or Status(child_status).is_terminal:
            yield Found(f"task {parent} waits for task {child}, which has ended: nobody would ever wake it", parent)
        elif not awaited:
            yield Found(f"task {parent} waits for task {child}, which does not know: its end would wake nobody", parent)
    for (task,) in alone:
        yield Found(f"task {task} waits for children, but none of them is open: nobody would ever wake it", task)
