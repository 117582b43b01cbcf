"""Reads all that the page of one task shows: a bounded part of its log, its family, and when its attempts began.

Reading only. When an attempt began stands in the row of its claim, and no index leads from a task to its claims: they
are numbered in the order of time, so the number is searched for by halves, and the claims of the worker from there on.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onceward.model.status import Event, Status
from onceward.store.lineage.trees import RefusalRow
from onceward.store.op import Op, Query
from onceward.store.reports.tasks import LogRow, Progress, StoredPart, TaskRow, progress, results, task
from onceward.store.rows import as_ids, as_uuid

MOST_EVENTS = 500
MOST_ANCESTORS = 50
MOST_CHILDREN = 20
MOST_REFUSALS = 20
MOST_CLAIMS = 2_000
"""How many claims of a worker are looked through for one attempt."""
MOST_ATTEMPTS = 8
"""For how many attempts, the newest, it is looked up when they began."""
CLOCKS_MS = 5_000
"""How far the clocks of two machines may differ."""


class ChildRow(msgspec.Struct, frozen=True, gc=False):
    """A child of a task."""

    id: int
    kind: str
    key: str
    status: Status
    cost: int
    reason: str | None


class Details(msgspec.Struct, frozen=True):
    """A task with all that its page shows."""

    task: TaskRow
    fence: int
    children_count: int
    refusals_count: int
    estimate: int | None
    """What its next stage may cost at most."""
    parts: Sequence[StoredPart]
    events: Sequence[LogRow]
    """Oldest first; the newest 500."""
    is_whole: bool
    """Whether these are all."""
    progress: Progress | None
    ancestors: Sequence[tuple[int, str]]
    """Root first, each with its kind."""
    children: Sequence[ChildRow]
    refusals: Sequence[RefusalRow]
    claimed: dict[int, int]
    """When attempts were claimed, by the number of the claim, as far as that was found."""


def details(number: int) -> Op[Details | None]:
    """All about one task, or None."""
    row = yield from task(number)
    standing = yield Query("standing_of", {"task": number})
    if row is None or not standing:
        return None
    [(fence, worker, children_count, refusals_count, estimate)] = standing
    events = [
        LogRow(log_id, run, of, Event(event), Status(status), stage, by, name, at, note, trace)
        for log_id, run, of, event, status, stage, by, name, at, note, trace in (
            yield Query("newest_events", {"task": number, "limit": MOST_EVENTS + 1})
        )
    ]
    is_whole = len(events) <= MOST_EVENTS
    events = events[:MOST_EVENTS][::-1]
    ancestors = []
    if row.parent is not None:
        ancestors = [
            (one, kind) for one, kind in (yield Query("ancestors_of", {"task": number, "limit": MOST_ANCESTORS}))
        ]
    children = [
        ChildRow(child, kind, key, Status(status), cost, reason)
        for child, kind, key, status, cost, reason in (
            (yield Query("children_of", {"task": number, "limit": MOST_CHILDREN})) if children_count else []
        )
    ]
    refusals = [
        RefusalRow(as_uuid(lineage), *rest)
        for lineage, *rest in (
            (yield Query("refusals_of_tasks", {"ids": [number], "limit": MOST_REFUSALS})) if refusals_count else []
        )
    ]
    claimed = yield from _claimed(row, fence, worker, events)
    return Details(
        row, fence, children_count, refusals_count, estimate, (yield from results(number)), events, is_whole,
        (yield from progress(number)), ancestors, children, refusals, claimed,
    )  # fmt: skip


def _claimed(row: TaskRow, fence: int, worker: int | None, events: Sequence[LogRow]) -> Op[dict[int, int]]:
    """When the attempts of a task began: the first as its row says, the newest as their claims say."""
    if row.started_at is None:
        return {}
    found = {1: row.started_at}
    wanted: dict[int, tuple[int, int]] = {}
    last_at = row.created_at
    for one in events:
        if one.worker is not None and one.fence > 1 and one.fence not in wanted:
            wanted[one.fence] = (one.worker, last_at)
        last_at = one.at
    if row.status is Status.RUNNING and worker is not None and fence > 1:
        wanted.setdefault(fence, (worker, last_at))
    for number in sorted(wanted)[-MOST_ATTEMPTS:]:
        by, not_before = wanted[number]
        at = yield from _claim_of(row.id, number, by, not_before - CLOCKS_MS)
        if at is not None:
            found[number] = at
    return found


def _claim_of(task_id: int, fence: int, worker: int, since: int) -> Op[int | None]:
    """When a worker made the claim of that number of a task, if its row is still there."""
    found = yield Query("first_claim_since", {"at": since})
    first = int(found[0][0]) if found else 0
    for at, tasks, fences in (yield Query("claims_from", {"worker": worker, "seq": first, "limit": MOST_CLAIMS})):
        if (task_id, fence) in zip(as_ids(tasks), as_ids(fences), strict=True):
            return int(at)
    return None
