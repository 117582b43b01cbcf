"""What can happen at worst, from the configuration alone: how many tasks and attempts one root can come to, and what an
hour can cost.

No code is read: every task may spawn every kind, as often as the limits of a lineage allow, and every stage may
fail as often as its pipeline allows. What has no bound says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from onceward.authoring.pipeline import Pipeline
from onceward.model.lineage import Bounds, Limits
from onceward.model.retry import retry_in_force
from onceward.settings.config import Config
from onceward.views.worst_hour import Hourly, hourly

UNBOUNDED = "unbounded"


@dataclass(frozen=True, slots=True)
class PipelineEnvelope:
    """The worst case of a root of one kind."""

    kind: str
    stages: int
    retries: int | None
    """None until its time is over."""
    lost_workers: int
    """How many workers one stage may take down before its task is given up."""
    attempts_per_task: int | None
    tasks: int
    """How many tasks its lineage can have, with the root."""
    attempts: int | None
    """How many attempts they can make: the root its own, the others those of the pipeline that can make the most. None
    where only time bounds them."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What one root can come to at worst. `print(app.envelope())` shows it as a table.

    Not in it, because they are not the doing of this root: what an operator retries or widens, lineages of their own
    that a stage begins with `root=True`, and attempts lost with a worker that something beside them brought down.
    """

    max_depth: int
    max_children: int
    max_tasks: int
    tasks: int
    """How many tasks a lineage can have."""
    bounded_by: str
    """The setting that says so."""
    attempts: int | None
    """How many attempts they can make; None where only time bounds them."""
    polls: int | None
    """How often they can be put off by `Waiting(after=…)`. That is no attempt, and None: nothing bounds it."""
    pipelines: tuple[PipelineEnvelope, ...]
    hourly: Hourly
    """What an hour can come to."""

    def exceeds(self, most: int) -> bool:
        """Whether one root can make more tasks than that."""
        return self.tasks > most

    @property
    def document(self) -> dict[str, Any]:
        """The same as plain values; what nothing bounds is the word "unbounded"."""
        return {
            **asdict(self),
            "attempts": UNBOUNDED if self.attempts is None else self.attempts,
            "polls": UNBOUNDED if self.polls is None else self.polls,
            "hourly": self.hourly.document,
        }

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The table: what its columns are, a row for each pipeline, and the whole app."""
        head = ("a root of", "stages", "retries", "attempts a task", "tasks", "attempts", "polls")
        polls = _bounded(self.polls)
        rows = [
            (
                one.kind, f"{one.stages:,}", _bounded(one.retries), _bounded(one.attempts_per_task), f"{one.tasks:,}",
                _bounded(one.attempts), polls,
            )
            for one in self.pipelines
        ]  # fmt: skip
        return [head, *rows, ("any kind", "", "", "", f"{self.tasks:,}", _bounded(self.attempts), polls)]

    @property
    def sentence(self) -> str:
        """Why it is not more."""
        limits = f"max_tasks={self.max_tasks:,}, max_depth={self.max_depth}, max_children={self.max_children:,}"
        return f"one root makes at most {self.tasks:,} tasks, because of {self.bounded_by} ({limits})"

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        lines = [
            "  ".join(
                [first.ljust(widths[0]), *(text.rjust(width) for text, width in zip(rest, widths[1:], strict=True))]
            )
            for first, *rest in self.rows
        ]
        return "\n".join([*lines, self.sentence])


def _bounded(count: int | None) -> str:
    return UNBOUNDED if count is None else f"{count:,}"


def envelope(
    pipelines: Iterable[Pipeline[Any]], config: Config, limits: Limits | None = None, hour: Hourly | None = None
) -> Envelope:
    """The worst case of one root, with the limits of the configuration or, where given, its own; and of an hour."""
    bounds = config.bounds if limits is None else config.bounds.replaced(limits)
    tasks, bounded_by = _tasks(bounds)
    known = sorted(pipelines, key=lambda pipeline: pipeline.kind)
    each = {pipeline.kind: _attempts_per_task(pipeline, config) for pipeline in known}
    worst = None if None in each.values() else max((one for one in each.values() if one is not None), default=0)
    return Envelope(
        max_depth=bounds.max_depth,
        max_children=bounds.max_children,
        max_tasks=bounds.max_tasks,
        tasks=tasks if known else 0,
        bounded_by=bounded_by if known else "nothing to do: the app has no pipelines",
        attempts=None if worst is None else tasks * worst,
        polls=None if known else 0,
        pipelines=tuple(
            PipelineEnvelope(
                kind=pipeline.kind,
                stages=len(pipeline.stages),
                retries=retry_in_force(pipeline.retry, config.usual_retries).retries,
                lost_workers=config.max_lost_workers,
                attempts_per_task=each[pipeline.kind],
                tasks=tasks,
                attempts=None if worst is None else (each[pipeline.kind] or 0) + (tasks - 1) * worst,
            )
            for pipeline in known
        ),
        hourly=hour or hourly(config, (), (), ()),
    )


def _attempts_per_task(pipeline: Pipeline[Any], config: Config) -> int | None:
    retries = retry_in_force(pipeline.retry, config.usual_retries).retries
    if retries is None:
        return None
    # Both are counted stage by stage. The last worker that is lost ends the task, so that it is no further attempt.
    return len(pipeline.stages) * (1 + retries + config.max_lost_workers - 1)


def _tasks(bounds: Bounds) -> tuple[int, str]:
    """How many tasks a lineage can have, and what says so. `max_children` does not count those of a batch."""
    return (bounds.max_tasks, "max_tasks") if bounds.max_depth else (1, "max_depth")
