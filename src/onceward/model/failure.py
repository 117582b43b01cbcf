"""What the application is told of an attempt that failed, or of a task that ended badly."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from onceward.model.status import Status


@dataclass(frozen=True, slots=True)
class Failure:
    """An attempt that failed, or a task that ended badly; what `App(on_failure=…)` is called with.

    `status` is `retryable` or `pending` where the task will be tried again. `error` is what the stage raised, if that
    was in the process that tells of it; `trace` is its traceback as it is stored, without secrets.
    """

    task: int
    kind: str
    lineage: uuid.UUID
    stage: str | None
    attempt: int
    """Attempt number of the stage, from 1."""
    status: Status
    reason: str
    trace: str | None
    error: BaseException | None

    @property
    def has_ended(self) -> bool:
        """Whether the task has failed for good."""
        return self.status.is_terminal
