"""The append-only log: one row for everything that happens to a task (R10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from onceward.model.status import Event, Status
from onceward.store.op import Many, Op


class Entry(NamedTuple):
    """One row of the log, in the order of its columns."""

    task: int
    run: int
    fence: int
    event: Event
    status: Status
    stage: str | None
    worker: int | None
    at: int
    note: str | None
    trace: str | None = None


def log(entries: Iterable[Entry]) -> Op[None]:
    """Append rows to the log, in the transaction of the change that they record."""
    yield Many(
        "log_events",
        [
            (task, run, fence, int(event), int(status), stage, worker, at, note, trace)
            for task, run, fence, event, status, stage, worker, at, note, trace in entries
        ],
    )
