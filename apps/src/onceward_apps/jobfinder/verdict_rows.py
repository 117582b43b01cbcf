"""The rows of what a person has decided about listings: hidden, applied to, or not for them.

A verdict outlives the match: a listing that comes back, or is judged anew, is still hidden.
"""

from __future__ import annotations

from onceward import Connection
from onceward_apps.jobfinder.verdicts import Decision, Verdict
from onceward_apps.statements import change, row, rows

MOST = 500
"""How many verdicts count, the newest first."""


def decide(connection: Connection, listing: str, decision: Decision, now: int) -> None:
    """Keep what a person has decided about a listing; a later verdict takes the place of an earlier one."""
    change(
        connection,
        "INSERT INTO jobs_verdict (listing, decision, decided_at) VALUES (?, ?, ?)"
        " ON CONFLICT (listing) DO UPDATE SET decision = excluded.decision, decided_at = excluded.decided_at",
        listing, decision, now,
    )  # fmt: skip


def take_back(connection: Connection, listing: str) -> bool:
    """Forget the verdict about a listing; False if there was none."""
    return row(connection, "DELETE FROM jobs_verdict WHERE listing = ? RETURNING 1", listing) is not None


def of(connection: Connection, listing: str) -> Decision | None:
    """The verdict about a listing."""
    found = row(connection, "SELECT decision FROM jobs_verdict WHERE listing = ?", listing)
    return None if found is None else found[0]


def others(connection: Connection, listing: str) -> list[Verdict]:
    """The verdicts about all listings but this one, the newest first."""
    found = rows(
        connection,
        "SELECT v.decision, l.title, coalesce(l.company_name, c.name) FROM jobs_verdict v"
        " JOIN jobs_listing l ON l.listing = v.listing LEFT JOIN jobs_company c ON c.company = l.company"
        " WHERE v.listing <> ? AND l.title IS NOT NULL ORDER BY v.decided_at DESC, v.listing LIMIT ?",
        listing, MOST,
    )  # fmt: skip
    return [Verdict(decision, title, company) for decision, title, company in found]
