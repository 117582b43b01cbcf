"""Tasks for the rows of the intake, in which other programs ask for work by SQL."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.client.enqueueing import Enqueueing
from onceward.client.root_tasks import Roots, together
from onceward.model.decide import safe_text
from onceward.model.enqueue_options import EnqueueOptions
from onceward.model.payload import read_payload
from onceward.model.times import moment
from onceward.store.op import Op
from onceward.store.operations.intake import IntakeRow, MakeTasks, Taken

LONGEST_REFUSAL = 2_000


def tasks_of_intake(client: Enqueueing) -> MakeTasks:
    """Return what makes tasks of rows: roots of an app, with all its rules about what is enqueued."""

    def make(rows: Sequence[IntakeRow], now: int) -> Op[list[Taken]]:
        asked: dict[int, Roots] = {}
        taken: list[Taken] = []
        for row in rows:
            try:
                asked[row.id] = _roots(client, row, now)
            except Exception as error:  # of a payload class, too: a row that makes no task must not keep others from it
                taken.append(Taken(row.id, None, safe_text(f"{type(error).__name__}: {error}")[:LONGEST_REFUSAL]))
        if asked:
            made = yield from client._enqueue(together(list(asked.values())))
            taken += [Taken(number, one.task, one.reason) for number, one in zip(asked, made, strict=True)]
        return taken

    return make


def _roots(client: Enqueueing, row: IntakeRow, now: int) -> Roots:
    payload = read_payload(client._registry[row.kind].payload, row.payload.encode())
    at = None if row.due_at is None or row.due_at <= now else moment(row.due_at)
    return client._rooting.roots([payload], now, EnqueueOptions(at=at, priority=row.priority))
