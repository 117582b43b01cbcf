"""How a lineage has grown: which kinds came from which, and what was refused. For tests that set it a bound."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from onceward.store.op import Op, Query


class Branch(NamedTuple):
    """The tasks of one kind that tasks of another have asked for; the root has no parent."""

    parent: str | None
    kind: str
    tasks: int
    parents: int


class RefusedSpawns(NamedTuple):
    """Spawns of a kind that a rule has refused, with one of the reasons. Of each parent only the first are known."""

    rule: str
    kind: str
    times: int
    reason: str


class Growth(NamedTuple):
    """A lineage in numbers."""

    branches: list[Branch]
    refusals: list[RefusedSpawns]

    @property
    def tasks(self) -> int:
        """How many tasks it has."""
        return sum(branch.tasks for branch in self.branches)


def lower_task_limit(lineage: uuid.UUID, most: int) -> Op[None]:
    """Lower the task limit of a lineage. The limits that its tasks hand down stay the same."""
    yield Query("narrow_lineage", {"lineage": lineage, "most": most})


def read_growth(lineage: uuid.UUID) -> Op[Growth]:
    """Count the tasks and refusals of a lineage by kind."""
    branches = [Branch(*row) for row in (yield Query("growth_of_lineage", {"lineage": lineage}))]
    refusals = [RefusedSpawns(*row) for row in (yield Query("refusals_of_lineage", {"lineage": lineage}))]
    return Growth(branches, refusals)
