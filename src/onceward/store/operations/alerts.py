"""Alerts: stored once while they last, resolved by the look that no longer finds them, delivered from their rows.

A unique index allows one open alert for a rule and its subject, so any number of processes may look at once (decision
23). A look resolves only alerts that no other look has seen since it began.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from onceward.model.times import NEVER
from onceward.model.watch import WATCH_FAILED, Finding, storm_of
from onceward.store.op import Op, Query, Row
from onceward.store.rows import as_ids, as_uuid

MOST_OPEN = 50
"""Most open alerts of one rule, budget or source: a storm is one thing to know, not ten thousand."""
FORGOTTEN_AFTER_MS = 86_400_000
"""An alert that no look has seen for that long is resolved: its watch is no longer part of any application."""
DELIVERIES_AT_ONCE = 100


class AlertRow(msgspec.Struct, frozen=True, gc=False):
    """An alert as it is stored."""

    id: int
    rule: str
    subject: str
    lineage: uuid.UUID | None
    key: str | None
    count: float
    threshold: float
    tasks: tuple[int, ...]
    sentence: str
    advice: str
    raised_at: int
    seen_at: int
    resolved_at: int | None
    told_at: int | None
    tries: int


class AlertChanges(msgspec.Struct, frozen=True):
    """The alerts that a look has raised and resolved."""

    raised: list[AlertRow]
    resolved: list[AlertRow]
    left_out: int
    """Number of findings that are not stored, because too many alerts of their rule are open."""


def read_looks() -> Op[dict[str, int]]:
    """When each watch was last looked at."""
    rows = yield Query("watch_looks")
    return {row[0]: row[1] for row in rows}


def claim_look(name: str, now: int, every_ms: int) -> Op[bool]:
    """Claim a look; False if another process has looked within that time."""
    rows = yield Query("claim_look", {"name": name, "now": now, "before": now - every_ms, "after": now + every_ms})
    return bool(rows)


def store_findings(
    findings: Sequence[Finding], *, rules: Collection[str], watches: Collection[str], now: int, tells: bool
) -> Op[AlertChanges]:
    """Store what a look at some rules has found, and resolve what it has not.

    `watches` are those that did not fail: an alert about their failure is resolved. `tells`: a webhook is configured.
    """
    opened: dict[tuple[str, str], tuple[int, int]] = {}
    for number, rule, subject, seen_at in (yield Query("open_alerts")):
        opened[rule, subject] = number, seen_at
    found = {(one.rule, one.subject): one for one in findings}
    for what in sorted(found.keys() & opened.keys(), key=lambda one: opened[one]):
        yield Query("alert_goes_on", {**_stored(found[what]), "id": opened[what][0], "now": now})
    gone = [
        number
        for (rule, subject), (number, seen_at) in opened.items()
        if (rule, subject) not in found
        and (rule in rules or (rule == WATCH_FAILED and subject in watches) or seen_at < now - FORGOTTEN_AFTER_MS)
    ]
    resolved = [row[0] for row in (yield Query("resolve_alerts", {"ids": gone, "now": now}))] if gone else []
    raised: list[int] = []
    left_out = 0
    many = Counter(storm_of(*what) for what, (number, _) in opened.items() if number not in gone)
    for what in sorted(found.keys() - opened.keys(), key=lambda one: (one[0], -found[one].count, one[1])):
        storm = storm_of(*what)
        many[storm] += 1
        if many[storm] > MOST_OPEN:
            left_out += 1
            continue
        name = {"rule": what[0], "subject": what[1], "now": now, "tell_at": now if tells else None}
        raised += [row[0] for row in (yield Query("raise_alert", {**_stored(found[what]), **name}))]
    return AlertChanges((yield from _read(raised)), (yield from _read(resolved)), left_out)


def delete_resolved(before: int) -> Op[None]:
    """Delete alerts that were resolved before a time."""
    yield Query("forget_alerts", {"before": before})


def read_newest(*, open_only: bool, limit: int) -> Op[list[AlertRow]]:
    """The newest alerts first."""
    rows = yield Query("newest_alerts", {"open_only": int(open_only), "limit": limit})
    return list(reversed((yield from _read([row[0] for row in rows]))))


def due_deliveries(now: int) -> Op[list[tuple[int, int]]]:
    """Alerts whose delivery is due, each with the number of failed tries."""
    rows = yield Query("due_deliveries", {"now": now, "limit": DELIVERIES_AT_ONCE})
    return [(number, tries) for number, tries in rows]


def claim_delivery(number: int, now: int, again_at: int) -> Op[AlertRow | None]:
    """Claim the delivery of an alert; None if another process has it. Without success it is due again at `again_at`."""
    if not (yield Query("claim_delivery", {"id": number, "now": now, "again_at": min(again_at, NEVER)})):
        return None
    rows = yield from _read([number])
    return rows[0] if rows else None


def mark_delivered(alert: AlertRow, now: int) -> Op[None]:
    """Mark an alert as delivered in the state in which it was read."""
    yield Query("mark_delivered", {"id": alert.id, "now": now, "was_open": int(alert.resolved_at is None)})


def _stored(finding: Finding) -> dict[str, object]:
    return {
        "lineage": finding.lineage,
        "key": finding.key,
        "count": float(finding.count),
        "threshold": float(finding.threshold),
        "tasks": list(finding.tasks),
        "sentence": finding.sentence,
        "advice": finding.advice,
    }


def _read(ids: Sequence[int]) -> Op[list[AlertRow]]:
    rows = (yield Query("read_alerts", {"ids": list(ids)})) if ids else []
    return [_as_alert(row) for row in rows]


def _as_alert(row: Row) -> AlertRow:
    (number, rule, subject, lineage, key, count, threshold, tasks, sentence, advice, raised_at, seen_at, resolved_at,
     told_at, tries) = row  # fmt: skip
    return AlertRow(
        number, rule, subject, None if lineage is None else as_uuid(lineage), key, count, threshold,
        tuple(as_ids(tasks)), sentence, advice, raised_at, seen_at, resolved_at, told_at, tries,
    )  # fmt: skip
