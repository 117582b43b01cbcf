"""Failures that no stage reports: a worker died, or a time limit was over in line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.model.failure import Failure
from onceward.model.status import Status
from onceward.store.op import Op, Query
from onceward.store.rows import as_uuid


class EngineFailure(NamedTuple):
    """A task that the engine has failed or quarantined: its new status, and the reason."""

    task: int
    status: Status
    reason: str


def read_failures(ended: Sequence[EngineFailure]) -> Op[list[Failure]]:
    """Read the failures that the application is told of; pruned tasks are left out."""
    rows = yield Query("read_failures", {"ids": [one.task for one in ended]})
    known = {row[0]: row[1:] for row in rows}
    found = []
    for task, status, reason in ended:
        if task in known:
            kind, lineage, stage, failures = known[task]
            # Where its worker was killed for its time limit, that is counted already.
            attempt = failures if status is Status.RETRYABLE else failures + 1
            found.append(Failure(task, kind, as_uuid(lineage), stage, max(1, attempt), status, reason, None, None))
    return found
