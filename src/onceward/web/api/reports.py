"""The API of figures and records: counts, backlog, statistics, the envelope, alerts, workers, the audit log."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from onceward.model.times import moment
from onceward.store.reports.tasks import WorkerRow
from onceward.web.api import governing, schemas
from onceward.web.api.operation import Call, NoQuery, Operation
from onceward.web.roles import Role


class StatsAsked(msgspec.Struct, forbid_unknown_fields=True):
    """Over how long."""

    since: schemas.Span = "24h"
    stuck_after: schemas.Span = "1h"


class AlertsAsked(msgspec.Struct, forbid_unknown_fields=True):
    """Which alerts."""

    open_only: bool = True
    limit: schemas.Limit = 100


class AuditAsked(msgspec.Struct, forbid_unknown_fields=True):
    """Which entries of the audit log."""

    before: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    """The id of the oldest entry that was seen, for those that came earlier."""
    limit: schemas.Limit = 100


class EnvelopeAsked(msgspec.Struct, forbid_unknown_fields=True):
    """What the envelope is compared with."""

    measured: bool = False
    """Also what an hour has really come to."""


async def counts(call: Call[NoQuery, None]) -> dict[str, int]:
    """Answer how many tasks stand where."""
    return schemas.counts_shown(await call.app.stats.acounts())


async def backlog(call: Call[NoQuery, None]) -> governing.BacklogShown:
    """Answer what could run now, and what may run later."""
    found = await call.app.stats.abacklog()
    lines = []
    for one in found.ready:
        queue, _, kind = one.lane.removeprefix("!").partition(":")
        lines.append(governing.LineShown(queue, kind, one.priority, one.tasks, moment(one.since)))
    oldest = found.oldest_ready_ms(call.view.now)
    return governing.BacklogShown(found.ready_tasks, found.later_tasks, found.parked, oldest, lines)


async def stats(call: Call[StatsAsked, None]) -> dict[str, Any]:
    """Answer with figures about the last hours, and about what is stuck now."""
    found = await call.app.stats.aget(call.query.since, stuck_after=call.query.stuck_after)
    plain = asdict(found)
    plain["stuck"] = [{**one, "id": str(one["id"]), "status": one["status"].word} for one in plain["stuck"]]
    return {**plain, "retry_rate": found.retry_rate, "reclaim_rate": found.reclaim_rate}


async def hour(call: Call[NoQuery, None]) -> dict[str, Any]:
    """Answer with the figures of the last hour, minute by minute."""
    found = await call.app.stats.ahour()
    return asdict(found) | {"ended": found.ended, "failed": found.failed, "cost": schemas.amount_shown(found.cost)}


async def envelope(call: Call[EnvelopeAsked, None]) -> dict[str, Any]:
    """Answer what can happen at worst, by the configuration alone."""
    return (await call.app.aenvelope(measured=call.query.measured)).document


async def alerts(call: Call[AlertsAsked, None]) -> list[governing.AlertShown]:
    """Answer with alerts."""
    found = await call.app.alerts.alist(open_only=call.query.open_only, limit=call.query.limit)
    return [schemas.of(governing.AlertShown, one) for one in found]


async def workers(call: Call[NoQuery, None]) -> list[governing.WorkerShown]:
    """Answer with the living workers."""
    return [_worker(one, call.view.now) for one in await call.app.workers.alist()]


async def audit(call: Call[AuditAsked, None]) -> list[governing.AuditShown]:
    """Answer with what callers have changed, newest first."""
    found = await call.app.audit.alist(before=call.query.before, limit=call.query.limit)
    return [schemas.of(governing.AuditShown, one) for one in found]


def _worker(one: WorkerRow, now: int) -> governing.WorkerShown:
    return schemas.of(
        governing.WorkerShown,
        one,
        kinds=[name for name in one.kinds.split(",") if name],
        queues=[name for name in one.queues.split(",") if name],
        started_at=moment(one.started_at),
        heartbeat_at=moment(one.beat_at),
        is_silent=one.is_silent(now),
    )


OPERATIONS: list[Operation] = [
    Operation("GET", "/stats/counts", counts, "Count the tasks by status.", dict[str, int]),
    Operation("GET", "/stats/backlog", backlog, "Show what could run now, and what may run later.",
              governing.BacklogShown),
    Operation("GET", "/stats", stats, "Show figures about the last hours, and what is stuck now.", dict[str, Any],
              StatsAsked),
    Operation("GET", "/stats/hour", hour, "Show the last hour, minute by minute.", dict[str, Any]),
    Operation("GET", "/envelope", envelope, "Show what can happen at worst, by the configuration alone.",
              dict[str, Any], EnvelopeAsked),
    Operation("GET", "/alerts", alerts, "List alerts.", list[governing.AlertShown], AlertsAsked),
    Operation("GET", "/workers", workers, "List the living workers.", list[governing.WorkerShown]),
    Operation("GET", "/audit", audit, "List what callers have changed, newest first.", list[governing.AuditShown],
              AuditAsked, role=Role.ADMIN),
]  # fmt: skip
