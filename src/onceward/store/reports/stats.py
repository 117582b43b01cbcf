"""What the figures of the last hours are made of, and tasks that are stuck.

All of it is bounded: pages of the newest rows by their ids, what living workers hold, the first of every line. Nothing
runs in a transaction, so no snapshot is held while the pages are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from onceward.model.stats import Attempt, Facts, Logged, with_stages_done
from onceward.model.status import Event, Status
from onceward.model.task import NEVER
from onceward.store.governance.budget_waits import budget_waited_for
from onceward.store.op import Op, Query, Rows
from onceward.store.rows import as_ids

MOST_ROWS = 100_000
"""How many rows of the log, and how many claims, are looked at: the newest."""
PAGE = 5_000
MOST_LOOKED_AT = 1_000
"""How many old claims of a worker, lines, and tasks that wait for the same sort of thing."""


class LogWindow(NamedTuple):
    """The newest part of the log, and what is to be known of its tasks."""

    rows: list[Logged]
    """Newest first."""
    tasks: dict[int, Facts]
    began: dict[Attempt, int]
    """When attempts began, or had last finished a stage before these rows."""
    is_whole: bool
    """Whether it reaches back as far as was asked for."""
    claimed: dict[Attempt, int]
    """When attempts were claimed."""
    sizes: dict[tuple[int, str], dict[str, int]]
    """What stages have measured, by task and stage."""


def log_window(since: int) -> Op[LogWindow]:
    """The log since a time, or as much of it as may be read."""
    rows: list[Logged] = []
    before, is_whole = NEVER, False
    while len(rows) < MOST_ROWS and not is_whole:
        page = [
            Logged(number, task, fence, Event(event), Status(status), stage, worker, at)
            for number, task, fence, event, status, stage, worker, at in (
                yield Query("log_before", {"before": before, "count": PAGE})
            )
        ]
        rows += page
        # Clocks differ a little, ids do not: only a page that is too old as a whole is the end.
        is_whole = len(page) < PAGE or max(row.at for row in page) < since
        before = page[-1].id if page else before
    tasks = yield from _facts({row.task for row in rows})
    claimed = yield from _claims(with_stages_done(rows))
    began = yield from _beginnings(rows, claimed)
    return LogWindow(rows, tasks, began, is_whole, claimed, (yield from _sizes(sorted(tasks))))


def _sizes(tasks: Sequence[int]) -> Op[dict[tuple[int, str], dict[str, int]]]:
    found: dict[tuple[int, str], dict[str, int]] = {}
    for some in _portions(tasks):
        for task, stage, value in (yield Query("measured_sizes", {"ids": some})):
            found[task, stage] = msgspec.json.decode(bytes(value), type=dict[str, int])
    return found


def _facts(tasks: set[int]) -> Op[dict[int, Facts]]:
    found: dict[int, Facts] = {}
    for some in _portions(sorted(tasks)):
        for task, kind, size, created_at, due_at, fence in (yield Query("sizes_of_tasks", {"ids": some})):
            ready_at = max(created_at, due_at) if fence == 1 and due_at < NEVER else None
            found[task] = Facts(kind, size, ready_at)
    return found


def _claims(wanted: set[Attempt]) -> Op[dict[Attempt, int]]:
    """When attempts were claimed; one claim is for many tasks."""
    claimed: dict[Attempt, int] = {}
    before, seen = NEVER, 0
    while len(claimed) < len(wanted) and seen < MOST_ROWS:
        claims = yield Query("claims_before", {"before": before, "count": PAGE})
        for _, at, tasks, fences in claims:
            attempts = zip(as_ids(tasks), as_ids(fences), strict=True)
            claimed |= {attempt: at for attempt in attempts if attempt in wanted}
        if len(claims) < PAGE:
            break
        before, seen = claims[-1][0], seen + len(claims)
    return claimed


def _beginnings(rows: Sequence[Logged], claimed: dict[Attempt, int]) -> Op[dict[Attempt, int]]:
    """When attempts began, or had last finished a stage before these rows."""
    began = dict(claimed)
    if not rows:
        return began
    oldest = rows[-1]
    earlier = sorted({task for (task, _), at in began.items() if at <= oldest.at})
    for some in _portions(earlier):
        for task, fence, at in (yield Query("stages_committed_before", {"ids": some, "before": oldest.id})):
            if (task, fence) in began:
                began[task, fence] = at
    return began


class Stuck(NamedTuple):
    """A task that does not move, as far as its rows tell."""

    id: int
    kind: str
    stage: str | None
    status: Status
    since: int
    worker: str | None = None
    """The worker that holds it."""
    is_silent: bool = False
    """Whether that worker has been silent for longer than its lease."""
    waiting_for: str | None = None


def stuck_running(now: int, after_ms: int) -> Op[list[Stuck]]:
    """Running tasks whose worker is silent, or that have written nothing for so long."""
    found: list[Stuck] = []
    for worker, name, *_, beat_at, lease_ms, low_claim in (yield Query("living_workers")):
        is_silent = beat_at + lease_ms < now
        held = {"worker": worker, "low_claim": low_claim, "before": now if is_silent else now - after_ms}
        claims = yield Query("old_claims_of_worker", {**held, "count": MOST_LOOKED_AT})
        for token, tasks, claimed_at in claims:
            for task, now_held_by, kind, stage, logged_at, told_at in (
                yield Query("signs_of_life", {"ids": as_ids(tasks)})
            ):
                since = beat_at if is_silent else max(claimed_at, logged_at, told_at)
                if bytes(now_held_by) == bytes(token) and (is_silent or since < now - after_ms):
                    found.append(Stuck(task, kind, stage, Status.RUNNING, since, name, is_silent))
    return found


def stuck_waiting(now: int, after_ms: int) -> Op[list[Stuck]]:
    """Tasks that have waited for so long, and that no event in the engine will wake."""
    rows = list((yield Query("waits_for_no_child", {"rows": MOST_ROWS, "count": MOST_LOOKED_AT})))
    followers = yield from _waits_without_end("batch:", "batch;")
    names = sorted({row[3].removeprefix("batch:") for row in followers})
    opened = {f"batch:{row[0]}" for row in (yield Query("open_batches", {"names": names}))} if names else set()
    rows += [row for row in followers if row[3] not in opened]
    rows += yield from _waits_without_end("signal:", "signal;")
    rows += yield from _waits_without_end("code:", "code;")
    for (waiting_for,) in (yield Query("budget_waits"))[:MOST_LOOKED_AT]:
        account = yield from budget_waited_for(waiting_for, now)
        if account is not None and account.ends_at is None:
            rows += yield from _waits_without_end(waiting_for, f"{waiting_for}\x01")
    return [
        Stuck(task, kind, stage, Status.WAITING, since, waiting_for=waiting_for)
        for task, kind, stage, waiting_for, since in rows
        if since < now - after_ms
    ]


def _waits_without_end(first: str, last: str) -> Op[Rows]:
    """Tasks that wait for something of a sort, from one text up to another."""
    asked = {"first": first, "last": last, "never": NEVER, "count": MOST_LOOKED_AT}
    return (yield Query("waits_without_end", asked))


def stuck_in_line(now: int, after_ms: int) -> Op[list[Stuck]]:
    """Tasks that are the first of their line and could have run for so long."""
    heads = [row[0] for row in (yield Query("heads_of_lines", {"count": MOST_LOOKED_AT})) if row[0] is not None]
    if not heads:
        return []
    rows = yield Query("ready_since", {"ids": heads, "before": now - after_ms})
    return [Stuck(task, kind, stage, Status(status), due_at) for task, kind, stage, status, due_at in rows]


def _portions(ids: Sequence[int]) -> Iterable[list[int]]:
    return (list(ids[start : start + PAGE]) for start in range(0, len(ids), PAGE))
