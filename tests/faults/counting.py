"""What a fault test counts for the proof, read from the log that the engine keeps of itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from onceward import App, Event
from tests.proof.tally import Tally

COMMITS = (Event.STAGE_COMMITTED, Event.FINISHED)
TAKEN_BACK = (Event.RECLAIMED, Event.CRASHED)


def keep(
    app: App,
    matrix: str,
    fault: str,
    *,
    faults: int,
    recovery_s: Sequence[float] = (),
    reconciled: int = 0,
) -> None:
    """Keep what a test has come to. It has judged before: nothing is lost, double or stale, and the fault has hit."""
    assert faults > 0, f"{fault}: it was never done"
    happened = dict(_rows(app, "SELECT event, count(*) FROM onceward_attempt GROUP BY event"))
    [[accepted]] = _rows(app, "SELECT count(*) FROM onceward_task")
    Tally(
        matrix=matrix,
        fault=fault,
        store=app.dialect,
        faults=faults,
        accepted=accepted,
        commits=sum(happened.get(event, 0) for event in COMMITS),
        refused=happened.get(Event.LOST, 0),
        reconciled=reconciled,
        recovery_s=[round(seconds, 3) for seconds in recovery_s],
    ).keep()


def taken_back(app: App) -> int:
    """How often a task was taken back from a worker that was dead, or seemed so."""
    return sum(
        count
        for event, count in _rows(app, "SELECT event, count(*) FROM onceward_attempt GROUP BY event")
        if event in TAKEN_BACK
    )


def recovered_s(app: App, gone_at: Mapping[int, float]) -> list[float]:
    """How long after the end of its process (by pid, in seconds since 1970) each task was claimed again."""
    claims: dict[int, list[int]] = {}
    for at, tasks in _rows(app, "SELECT at, tasks FROM onceward_claim ORDER BY seq"):
        for task in json.loads(tasks) if isinstance(tasks, str) else tasks:
            claims.setdefault(task, []).append(at)
    ends = chain.from_iterable(
        _rows(
            app,
            "SELECT a.task, a.at, w.pid FROM onceward_attempt a JOIN onceward_worker w ON w.id = a.worker"
            f" WHERE a.event = {int(event)}",
        )
        for event in TAKEN_BACK
    )
    return [
        max(0.0, next(one for one in claims[task] if one >= at) / 1_000 - gone_at[pid])
        for task, at, pid in ends
        if pid in gone_at and at >= int(1_000 * gone_at[pid]) and claims[task][-1] >= at
    ]


def _rows(app: App, query: str) -> list[Any]:
    return app.read(lambda connection: connection.execute(query).fetchall())
