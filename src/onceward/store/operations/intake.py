"""Work that other programs have asked for by SQL: rows of the intake, and the tasks that a worker makes of them.

The row is locked, its task is made and the row is ended in one transaction, so that each row makes one task at most,
whatever dies meanwhile. Two workers take different rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from onceward.store.op import Many, Op, Query

AT_ONCE = 200
NOTIFICATION = "intake"
"""What `onceward_enqueue` notifies workers of."""


class IntakeRow(NamedTuple):
    """A piece of work that was asked for by SQL."""

    id: int
    kind: str
    payload: str
    priority: int | None
    due_at: int | None


class Taken(NamedTuple):
    """What became of a row: its task, and why none was made for it."""

    id: int
    task: int | None
    refused: str | None


MakeTasks = Callable[[Sequence[IntakeRow], int], Op[Sequence[Taken]]]
"""Makes tasks of rows, now: the key, the stop list, the source and the estimate of each are Python."""


def is_asked(kinds: Sequence[str]) -> Op[bool]:
    """Read whether there is a row that waits, of some kinds."""
    return bool((yield Query("any_intake", {"kinds": list(kinds)})))


def take_in(kinds: Sequence[str], make: MakeTasks, now: int) -> Op[int]:
    """Make tasks of the oldest rows of some kinds; returns how many rows were ended."""
    rows = [IntakeRow(*row) for row in (yield Query("lock_intake", {"kinds": list(kinds), "count": AT_ONCE}))]
    if not rows:
        return 0
    taken = yield from make(rows, now)
    yield Many("end_intake", [(one.id, one.task, one.refused) for one in taken], (now,))
    return len(rows)


def prune_intake(before: int) -> Op[None]:
    """Delete rows that were ended before a time."""
    yield Query("prune_intake", {"before": before})
