"""Tasks that have failed without a stage that could say so: their worker died, or their time was over in line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceward.model.failure import Failure
from onceward.model.status import Status
from onceward.store.op import Op, Query
from onceward.store.rows import as_uuid


class Fallen(NamedTuple):
    """A task that has failed, or ended badly, and why; `status` is what it has become by that."""

    task: int
    status: Status
    reason: str


def failures_of(fallen: Sequence[Fallen]) -> Op[list[Failure]]:
    """What the application is told of them, as far as they are still there."""
    rows = yield Query("read_fallen", {"ids": [one.task for one in fallen]})
    known = {row[0]: row[1:] for row in rows}
    found = []
    for task, status, reason in fallen:
        if task in known:
            kind, lineage, stage, failures = known[task]
            # Where its worker was killed for its time limit, that is counted already.
            attempt = failures if status is Status.RETRYABLE else failures + 1
            found.append(Failure(task, kind, as_uuid(lineage), stage, max(1, attempt), status, reason, None, None))
    return found
