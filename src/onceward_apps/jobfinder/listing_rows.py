"""The rows of listings, of where they were seen, and of matches.

A listing that two sources show is one row: by its address, or where company, title and place are the same. It is gone
when no source that was read whole shows it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from onceward import Connection
from onceward_apps.jobfinder.company_rows import Origin
from onceward_apps.jobfinder.identities import listing_key, twin_of
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.matching import Match
from onceward_apps.jobfinder.pages import Request
from onceward_apps.jobfinder.statements import change, change_each, loaded, record, records, row, rows, stored


class ListingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A listing as it stands in its table."""

    listing: str
    url: str
    source: str | None
    company: str | None
    status: str
    reason: str | None
    title: str | None
    company_name: str | None
    location: str | None
    remote: bool | None
    posted: str | None
    description: str | None
    requirements_json: str | None
    salary_min: float | None
    salary_max: float | None
    currency: str | None
    department: str | None
    apply_url: str | None
    twin: str | None
    completeness: str | None
    strikes_json: str | None
    score: int | None
    why_json: str | None
    gone_at: int | None
    parent_task: int | None
    lineage: str | None
    depth: int | None
    created_at: int
    decided_at: int | None


class MatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """A match with what one wants to know of its listing and its company."""

    listing: str
    score: int
    needed: int
    priority: str
    why_json: str
    has_office: bool
    model: str | None
    saved_at: int
    url: str
    title: str | None
    company: str | None
    company_name: str | None
    tier: str | None
    location: str | None
    remote: bool | None
    posted: str | None
    salary_min: float | None
    salary_max: float | None
    currency: str | None
    apply_url: str | None
    gone_at: int | None


class Said(msgspec.Struct, frozen=True):
    """What a source says of a listing, and what would complete it."""

    listing: Listing
    detail: Request | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A listing as one source shows it."""

    listing: str
    url: str
    twin: str | None
    said: Said


def listing(connection: Connection, listing: str) -> ListingRow | None:
    """One listing."""
    return record(connection, ListingRow, "SELECT * FROM jobs_listing WHERE listing = ?", listing)


def listings(connection: Connection) -> list[ListingRow]:
    """All listings, the newest first."""
    return records(connection, ListingRow, "SELECT * FROM jobs_listing ORDER BY created_at DESC, listing")


def is_match(connection: Connection, listing: str) -> bool:
    """Whether a listing was saved as a match."""
    return row(connection, "SELECT 1 FROM jobs_match WHERE listing = ?", listing) is not None


def matches(connection: Connection, with_gone: bool) -> list[MatchRow]:
    """All matches, the best first."""
    return records(
        connection,
        MatchRow,
        "SELECT m.listing, m.score, m.needed, m.priority, m.why_json, m.has_office, m.model, m.saved_at, l.url,"
        " l.title, l.company, coalesce(l.company_name, c.name), c.tier, l.location, l.remote, l.posted, l.salary_min,"
        " l.salary_max, l.currency, l.apply_url, l.gone_at"
        " FROM jobs_match m JOIN jobs_listing l ON l.listing = m.listing"
        " LEFT JOIN jobs_company c ON c.company = l.company"
        " WHERE ? = 1 OR l.gone_at IS NULL ORDER BY m.score DESC, m.saved_at DESC, m.listing",
        int(with_gone),
    )


def match_of(connection: Connection, listing: str) -> tuple[int, int, str, str, str | None] | None:
    """Score, what was needed, priority, reasons and model of a match."""
    found = row(
        connection, "SELECT score, needed, priority, why_json, model FROM jobs_match WHERE listing = ?", listing
    )
    return None if found is None else (found[0], found[1], found[2], found[3], found[4])


def said_of(connection: Connection, listing: str) -> tuple[str, Said] | None:
    """The source that showed a listing last, and what it said of it."""
    found = row(
        connection,
        "SELECT source, said_json FROM jobs_sighting WHERE listing = ? AND said_json IS NOT NULL"
        " ORDER BY last_seen_at DESC, source LIMIT 1",
        listing,
    )
    return None if found is None else (str(found[0]), loaded(found[1], Said))


def saved_twin(connection: Connection, listing: str, twin: str | None) -> str | None:
    """Another listing that is the same position and saved as a match; two that one source shows are two positions."""
    found = row(
        connection,
        "SELECT l.listing FROM jobs_listing l JOIN jobs_match m ON m.listing = l.listing"
        " WHERE l.twin = ? AND l.listing <> ? AND NOT EXISTS (SELECT 1 FROM jobs_sighting one"
        " JOIN jobs_sighting other ON other.source = one.source WHERE one.listing = l.listing AND other.listing = ?)"
        " ORDER BY l.created_at, l.listing LIMIT 1",
        twin, listing, listing,
    )  # fmt: skip
    return None if found is None else str(found[0])


def counts(connection: Connection) -> dict[str, int]:
    """How many listings have which status."""
    return {str(name): int(number) for name, number in rows(
        connection, "SELECT status, count(*) FROM jobs_listing GROUP BY status ORDER BY status"
    )}  # fmt: skip


def settled(connection: Connection, source: str, seen: Sequence[Seen]) -> dict[str, str]:
    """Which of these need no task: from the listing that is asked about to the one that stands for it.

    That is one that was decided already, or one of another source that is the same position.
    """
    found: dict[str, str] = {}
    shown = {one.listing for one in seen}
    for one in seen:
        own = row(connection, "SELECT status FROM jobs_listing WHERE listing = ?", one.listing)
        if own is not None:
            if own[0] != "analyzing":
                found[one.listing] = one.listing
        elif one.twin is not None:
            other = row(
                connection,
                "SELECT l.listing FROM jobs_listing l WHERE l.twin = ? AND l.gone_at IS NULL AND NOT EXISTS"
                " (SELECT 1 FROM jobs_sighting s WHERE s.listing = l.listing AND s.source = ?)"
                " ORDER BY l.created_at, l.listing LIMIT 1",
                one.twin, source,
            )  # fmt: skip
            if other is not None and other[0] not in shown:
                found[one.listing] = str(other[0])
    return found


def known_of(connection: Connection, listings: Sequence[str]) -> set[str]:
    """Which of these have a row."""
    return {
        name for name in listings if row(connection, "SELECT 1 FROM jobs_listing WHERE listing = ?", name) is not None
    }


def left_out(connection: Connection, source: str, reading: int) -> list[str]:
    """The listings whose rows a reading has made, and for which it got no task."""
    begun = rows(
        connection,
        "SELECT s.listing, l.url FROM jobs_sighting s JOIN jobs_listing l ON l.listing = s.listing"
        " WHERE s.source = ? AND l.parent_task = ? AND l.status = 'analyzing'",
        source, reading,
    )  # fmt: skip
    got = {
        key for (key,) in rows(connection, "SELECT key FROM onceward_task WHERE parent = ? AND kind = 'job'", reading)
    }
    return [str(listing) for listing, url in begun if listing_key(url) not in got]


def forget(connection: Connection, listings: Sequence[str]) -> None:
    """Have no rows for listings that nobody looks at: the next reading meets them again."""
    change_each(connection, "DELETE FROM jobs_sighting WHERE listing = ?", [(name,) for name in listings])
    change_each(
        connection,
        "DELETE FROM jobs_listing WHERE listing = ? AND status = 'analyzing'",
        [(name,) for name in listings],
    )


def begin_listing(connection: Connection, listing: str, url: str, origin: Origin) -> None:
    """Have a row for a listing at once that a person has asked for."""
    change(
        connection,
        "INSERT INTO jobs_listing (listing, url, status, parent_task, lineage, depth, created_at)"
        " VALUES (?, ?, 'analyzing', ?, ?, ?, ?) ON CONFLICT (listing) DO NOTHING",
        listing, url, origin.task, origin.lineage, origin.depth, origin.at,
    )  # fmt: skip


def see(
    connection: Connection,
    source: str,
    company: str | None,
    seen: Sequence[Seen],
    stands_for: dict[str, str],
    origin: Origin,
) -> None:
    """Note that a source shows listings, in this reading of it; those that nobody knew have a row from now on."""
    ordered = sorted(seen, key=lambda one: one.listing)
    change_each(
        connection,
        "INSERT INTO jobs_listing"
        " (listing, url, source, company, status, twin, parent_task, lineage, depth, created_at)"
        " VALUES (?, ?, ?, ?, 'analyzing', ?, ?, ?, ?, ?) ON CONFLICT (listing) DO NOTHING",
        [
            (one.listing, one.url, source, company, one.twin, origin.task, origin.lineage, origin.depth, origin.at)
            for one in ordered
            if stands_for.get(one.listing, one.listing) == one.listing
        ],
    )
    shown = {stands_for.get(one.listing, one.listing): one for one in ordered}
    change_each(
        connection,
        "INSERT INTO jobs_sighting (source, listing, said_json, reading, first_seen_at, last_seen_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (source, listing) DO UPDATE SET said_json = excluded.said_json,"
        " reading = excluded.reading, last_seen_at = excluded.last_seen_at, gone_at = NULL",
        [(source, name, stored(one.said), origin.task, origin.at, origin.at) for name, one in sorted(shown.items())],
    )
    change_each(
        connection,
        "UPDATE jobs_listing SET gone_at = NULL WHERE listing = ? AND gone_at IS NOT NULL",
        [(name,) for name in sorted(shown)],
    )


def miss(connection: Connection, source: str, reading: int, now: int) -> None:
    """A source was read whole: what it no longer shows is gone there, and gone where nobody else shows it."""
    change(
        connection,
        "UPDATE jobs_sighting SET gone_at = ? WHERE source = ? AND reading <> ? AND gone_at IS NULL",
        now, source, reading,
    )  # fmt: skip
    change(
        connection,
        "UPDATE jobs_listing SET gone_at = ? WHERE gone_at IS NULL"
        " AND listing IN (SELECT g.listing FROM jobs_sighting g WHERE g.source = ? AND g.gone_at = ?)"
        " AND NOT EXISTS (SELECT 1 FROM jobs_sighting s WHERE s.listing = jobs_listing.listing AND s.gone_at IS NULL)",
        now, source, now,
    )  # fmt: skip


def decide(
    connection: Connection, listing: str, status: str, reason: str | None, found: Listing | None, more: dict[str, Any]
) -> None:
    """Say what has become of a listing, with its details if it could be read. One that is a match stays one."""
    change(
        connection,
        "UPDATE jobs_listing SET status = ?, reason = ?, completeness = ?, strikes_json = ?, score = ?, why_json = ?,"
        " decided_at = ?, gone_at = coalesce(gone_at, ?), company = coalesce(company, ?)"
        " WHERE listing = ? AND status <> 'active'",
        status, reason, more.get("completeness"), _json(more.get("strikes")), more.get("score"), _json(more.get("why")),
        more["at"], more.get("gone_at"), more.get("company"), listing,
    )  # fmt: skip
    if found is None:
        return
    change(
        connection,
        "UPDATE jobs_listing SET title = ?, company_name = ?, location = ?, remote = ?, posted = ?, description = ?,"
        " requirements_json = ?, salary_min = ?, salary_max = ?, currency = ?, department = ?, apply_url = ?,"
        " twin = coalesce(twin, ?) WHERE listing = ?",
        found.title, found.company, found.location, None if found.remote is None else int(found.remote),
        None if found.posted is None else found.posted.isoformat(), found.description, stored(found.requirements),
        found.salary_min, found.salary_max, found.currency, found.department, found.apply_url,
        twin_of(found.company, found.title, found.location), listing,
    )  # fmt: skip


def save_match(connection: Connection, listing: str, match: Match, model: str | None, now: int) -> None:
    """Save a match, or what has changed of it."""
    change(
        connection,
        "INSERT INTO jobs_match (listing, score, needed, priority, why_json, has_office, model, saved_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (listing) DO UPDATE SET score = excluded.score,"
        " needed = excluded.needed, priority = excluded.priority, why_json = excluded.why_json,"
        " has_office = excluded.has_office, model = excluded.model",
        listing, match.score, match.needed, match.priority, stored(match.why), int(match.has_office), model, now,
    )  # fmt: skip


def _json(value: Any) -> str | None:
    return None if value is None else stored(value)
