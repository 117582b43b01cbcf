"""The rows of sources: asked for, tested, read, and disabled after too many failures in a row.

The streak of a source is its own: it counts readings that failed for good, and the health of the host is the engine's.
"""

from __future__ import annotations

import msgspec

from onceward import Connection
from onceward_apps.jobfinder.company_rows import Origin
from onceward_apps.statements import change, record, records, row, rows


class SourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source as it stands in its table."""

    source: str
    kind: str
    token: str
    url: str
    company: str | None
    status: str
    reason: str | None
    awaits_approval: bool
    expected_confidence: str
    confidence: str | None
    config_json: str | None
    tested_at: int | None
    streak: int
    last_success_at: int | None
    last_failure_at: int | None
    last_error: str | None
    is_drifted: bool
    read_at: int | None
    listings: int | None
    parent_task: int | None
    lineage: str | None
    depth: int | None
    created_at: int


def source(connection: Connection, source: str) -> SourceRow | None:
    """One source."""
    return record(connection, SourceRow, "SELECT * FROM jobs_source WHERE source = ?", source)


def sources(connection: Connection) -> list[SourceRow]:
    """All sources: those that need a person's decision first."""
    return records(
        connection,
        SourceRow,
        "SELECT * FROM jobs_source ORDER BY awaits_approval DESC, (status = 'disabled') DESC, source",
    )


def due_sources(connection: Connection, read_before: int) -> list[tuple[str, str | None]]:
    """The sources that are enabled and were not read since, those that waited longest first; each with its tier."""
    found = rows(
        connection,
        "SELECT s.source, c.tier FROM jobs_source s LEFT JOIN jobs_company c ON c.company = s.company"
        " WHERE s.status = 'active' AND coalesce(s.read_at, 0) <= ? ORDER BY coalesce(s.read_at, 0), s.source",
        read_before,
    )
    return [(name, tier) for name, tier in found]


def tier_of(connection: Connection, company: str | None) -> str | None:
    """The tier of a company, if it is known."""
    found = row(connection, "SELECT tier FROM jobs_company WHERE company = ?", company)
    return None if found is None else found[0]


def begin_source(
    connection: Connection, source: SourceName, company: str | None, origin: Origin, awaits_approval: bool
) -> None:
    """Have a row for a source at once; one that is there stays as it is."""
    change(
        connection,
        "INSERT INTO jobs_source (source, kind, token, url, company, status, awaits_approval, expected_confidence,"
        " parent_task, lineage, depth, created_at) VALUES (?, ?, ?, ?, ?, 'pending_validation', ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (source) DO NOTHING",
        source.source, source.kind, source.token, source.url, company, int(awaits_approval), source.confidence,
        origin.task, origin.lineage, origin.depth, origin.at,
    )  # fmt: skip


class SourceName(msgspec.Struct, frozen=True):
    """What is known of a source before it is tested."""

    source: str
    kind: str
    token: str
    url: str
    confidence: str


def approve_source(connection: Connection, source: str) -> None:
    """A person has agreed that a source is tested."""
    change(connection, "UPDATE jobs_source SET awaits_approval = 0 WHERE source = ?", source)


def prove_source(connection: Connection, source: str, config: str | None, confidence: str, now: int) -> None:
    """A source was tested, and is read from now on."""
    change(
        connection,
        "UPDATE jobs_source SET status = 'active', reason = NULL, config_json = ?, confidence = ?, tested_at = ?,"
        " awaits_approval = 0, streak = 0, is_drifted = 0 WHERE source = ?",
        config, confidence, now, source,
    )  # fmt: skip


def reject_source(connection: Connection, source: str, reason: str, now: int) -> None:
    """A source was tested in vain: it is unknown what it is, and the row says why."""
    change(
        connection,
        "UPDATE jobs_source SET status = 'unknown', reason = ?, last_failure_at = ?, last_error = ? WHERE source = ?",
        reason, now, reason, source,
    )  # fmt: skip


def note_success(connection: Connection, source: str, listings: int, now: int) -> None:
    """A source was read: its streak is over."""
    change(
        connection,
        "UPDATE jobs_source SET streak = 0, last_success_at = ?, read_at = ?, listings = ?, is_drifted = 0"
        " WHERE source = ?",
        now, now, listings, source,
    )  # fmt: skip


def note_failure(
    connection: Connection, source: str, error: str, is_drifted: bool, disable_after: int, now: int
) -> None:
    """A source could not be read: its streak grows, and at its end the source is disabled until a person enables it."""
    change(
        connection,
        "UPDATE jobs_source SET streak = streak + 1, last_failure_at = ?, read_at = ?, last_error = ?, is_drifted = ?"
        " WHERE source = ?",
        now, now, error, int(is_drifted), source,
    )  # fmt: skip
    change(
        connection,
        "UPDATE jobs_source SET status = 'disabled', reason = 'failed ' || streak || ' times in a row: ' || last_error"
        " WHERE source = ? AND status = 'active' AND streak >= ?",
        source, disable_after,
    )  # fmt: skip


def enable_source(connection: Connection, source: str) -> None:
    """A person wants a source read again, at once."""
    change(
        connection,
        "UPDATE jobs_source SET status = 'active', reason = NULL, streak = 0, read_at = NULL"
        " WHERE source = ? AND status = 'disabled'",
        source,
    )
