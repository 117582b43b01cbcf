"""A task with all that its page shows: attempts, stored values, ancestors, children, refusals."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from onceward.authoring.registry import Registry
from onceward.model.budget import read_amount
from onceward.model.status import Status
from onceward.model.task import RESULT_PART
from onceward.model.times import moment
from onceward.store.reports import details as rows
from onceward.views import task as view
from onceward.views.attempts import Attempt, attempts
from onceward.views.lineage import Refusal, as_refusal
from onceward.views.task import Task


@dataclass(frozen=True, slots=True)
class Stored:
    """A value that a task keeps: the result of a stage, its cursor, or something that was done once."""

    stage: str
    part: str
    """Empty for the result of a stage."""
    value: bytes
    """As it is stored: JSON."""
    at: datetime


@dataclass(frozen=True, slots=True)
class Child:
    """A child of a task, in a list."""

    id: int
    kind: str
    key: str
    status: Status
    cost: Decimal
    reason: str | None


@dataclass(frozen=True, slots=True)
class TaskDetails:
    """A task with all that its page shows. Its lists are bounded; the counts beside them are not."""

    task: Task
    payload: bytes
    """As it is stored: JSON."""
    stages: tuple[str, ...]
    """All stages of its pipeline, in order; of a kind that this code does not know, those that the log names."""
    retries: int | None
    """How often its pipeline tries a stage again; None without a bound, or without the code that says it."""
    estimate: Decimal | None
    """What its next stage may cost at most, in the unit of its budget."""
    attempts: tuple[Attempt, ...]
    is_whole: bool
    """Whether its history is all there is: otherwise it begins with the 500th event from the end."""
    stored: tuple[Stored, ...]
    ancestors: tuple[tuple[int, str], ...]
    """Number and kind of each, root first."""
    children: tuple[Child, ...]
    """The first 20."""
    children_count: int
    refusals: tuple[Refusal, ...]
    """The first 20."""
    refusals_count: int

    @property
    def results(self) -> tuple[Stored, ...]:
        """What its stages have returned."""
        return tuple(one for one in self.stored if one.part == RESULT_PART)


def as_details(found: rows.Details, registry: Registry, retries: int | None) -> TaskDetails:
    """A task with all that its page shows, from its rows."""
    row = found.task
    is_running = row.status is Status.RUNNING
    told = attempts(
        found.events,
        found.claimed,
        running=(found.fence, row.stage, row.worker_name) if is_running else None,
        ended_at=row.ended_at,
    )
    if row.kind in registry.kinds:
        stages = tuple(stage.name for stage in registry[row.kind].stages)
    else:
        stages = tuple(dict.fromkeys(run.stage for one in told for run in one.stages if run.stage))
    return TaskDetails(
        task=view.as_task(row, registry, found.parts, found.events, found.progress),
        payload=row.payload,
        stages=stages,
        retries=retries,
        estimate=None if found.estimate is None else read_amount(found.estimate),
        attempts=tuple(told),
        is_whole=found.is_whole,
        stored=tuple(Stored(one.stage, one.part, one.value, moment(one.at)) for one in found.parts),
        ancestors=tuple(found.ancestors),
        children=tuple(
            Child(one.id, one.kind, one.key, one.status, read_amount(one.cost), one.reason) for one in found.children
        ),
        children_count=found.children_count,
        refusals=tuple(map(as_refusal, found.refusals)),
        refusals_count=found.refusals_count,
    )
