"""The rows of listings, of where they were seen, and of matches.

A listing that two sources show is one row: by its address, or where company, title and place are the same (see
`opening_rows`). It is gone when no source that was read whole shows it any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

import msgspec

from onceward import Connection
from onceward_apps.jobfinder import opening_rows
from onceward_apps.jobfinder.company_rows import Origin
from onceward_apps.jobfinder.identities import listing_key
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.matching import Match
from onceward_apps.jobfinder.pages import Request
from onceward_apps.jobfinder.verdicts import Decision
from onceward_apps.statements import change, change_each, loaded, record, records, row, rows, stored


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
    valid_through: str | None
    completeness: str | None
    strikes_json: str | None
    score: int | None
    why_json: str | None
    judged_by: str | None
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
    verdict: Decision | None


class NearRow(msgspec.Struct, frozen=True, kw_only=True):
    """A listing that is no match, as near as it came."""

    listing: str
    url: str
    status: str
    title: str | None
    company_name: str | None
    location: str | None
    remote: bool | None
    score: int | None
    why_json: str | None
    strikes_json: str | None
    has_office: bool


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


def told_before(row: ListingRow) -> Listing | None:
    """The listing as it was read when it was judged; None if it never was."""
    if row.judged_by is None or row.title is None:
        return None
    return Listing(
        url=row.url, title=row.title, company=row.company_name, location=row.location, remote=row.remote,
        posted=_day(row.posted), description=row.description,
        requirements=loaded(row.requirements_json, tuple[str, ...]) or (),
        salary_min=row.salary_min, salary_max=row.salary_max, currency=row.currency, department=row.department,
        apply_url=row.apply_url, valid_through=_day(row.valid_through),
    )  # fmt: skip


def judged_by_others(connection: Connection, profile: str) -> list[tuple[str, str, str | None]]:
    """The listings that are still there and were judged by another profile than this: each with address and title."""
    found = rows(
        connection,
        "SELECT listing, url, title FROM jobs_listing WHERE status IN ('active', 'filtered', 'skipped')"
        " AND gone_at IS NULL AND judged_by <> ? ORDER BY created_at, listing",
        profile,
    )
    return [(name, url, title) for name, url, title in found]


def judge_anew(connection: Connection, listing: str) -> None:
    """A listing is judged anew: until that is done it is what it was, a match too."""
    change(connection, "UPDATE jobs_listing SET status = 'analyzing' WHERE listing = ?", listing)


def matches(connection: Connection, with_gone: bool, with_hidden: bool = False) -> list[MatchRow]:
    """All matches, the best first, without those that a person has hidden or that are not for them."""
    return records(
        connection,
        MatchRow,
        "SELECT m.listing, m.score, m.needed, m.priority, m.why_json, m.has_office, m.model, m.saved_at, l.url,"
        " l.title, l.company, coalesce(l.company_name, c.name), c.tier, l.location, l.remote, l.posted, l.salary_min,"
        " l.salary_max, l.currency, l.apply_url, l.gone_at, v.decision"
        " FROM jobs_match m JOIN jobs_listing l ON l.listing = m.listing"
        " LEFT JOIN jobs_company c ON c.company = l.company LEFT JOIN jobs_verdict v ON v.listing = m.listing"
        " WHERE (? = 1 OR l.gone_at IS NULL) AND (? = 1 OR v.decision IS NULL OR v.decision = 'applied')"
        " ORDER BY m.score DESC, m.saved_at DESC, m.listing",
        int(with_gone), int(with_hidden),
    )  # fmt: skip


def near_misses(connection: Connection, most: int) -> list[NearRow]:
    """The listings closest to being matches: those with the highest scores below it, then those with fewest strikes."""
    return records(
        connection,
        NearRow,
        "SELECT l.listing, l.url, l.status, l.title, coalesce(l.company_name, c.name), l.location, l.remote, l.score,"
        " l.why_json, l.strikes_json, coalesce(c.has_office, 0)"
        " FROM jobs_listing l LEFT JOIN jobs_company c ON c.company = l.company"
        " LEFT JOIN jobs_verdict v ON v.listing = l.listing"
        " WHERE l.gone_at IS NULL AND v.listing IS NULL AND l.title IS NOT NULL"
        " AND (l.status = 'skipped' AND l.score IS NOT NULL OR l.status = 'filtered' AND l.strikes_json IS NOT NULL)"
        " ORDER BY l.status DESC, coalesce(l.score, 0) DESC, l.decided_at DESC, l.listing LIMIT ?",
        most,
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


def counts(connection: Connection) -> dict[str, int]:
    """How many listings have which status."""
    return {str(name): int(number) for name, number in rows(
        connection, "SELECT status, count(*) FROM jobs_listing GROUP BY status ORDER BY status"
    )}  # fmt: skip


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
    known: dict[str, str],
    origin: Origin,
) -> None:
    """Note that a source shows listings in this reading of it; a listing that is new gets a row.

    `known` says which listing is looked at for those that were seen before. Another one has a row of its own unless a
    listing of another source is the same position.
    """
    new = opening_rows.claim(connection, source, [(one.listing, one.twin) for one in seen if one.listing not in known])
    ordered = sorted(seen, key=lambda one: one.listing)
    change_each(
        connection,
        "INSERT INTO jobs_listing (listing, url, source, company, status, parent_task, lineage, depth, created_at)"
        " VALUES (?, ?, ?, ?, 'analyzing', ?, ?, ?, ?) ON CONFLICT (listing) DO NOTHING",
        [
            (one.listing, one.url, source, company, origin.task, origin.lineage, origin.depth, origin.at)
            for one in ordered
            if new.get(one.listing) == one.listing
        ],
    )
    shown = {(known.get(one.listing) or new[one.listing]): one for one in ordered}
    change_each(
        connection,
        "INSERT INTO jobs_sighting (source, listing, shown, said_json, reading, first_seen_at, last_seen_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source, listing) DO UPDATE SET shown = excluded.shown,"
        " said_json = excluded.said_json, reading = excluded.reading, last_seen_at = excluded.last_seen_at,"
        " gone_at = NULL",
        [
            (source, name, one.listing, stored(one.said), origin.task, origin.at, origin.at)
            for name, one in sorted(shown.items())
        ],
    )
    change_each(
        connection,
        "UPDATE jobs_listing SET gone_at = NULL WHERE listing = ? AND gone_at IS NOT NULL",
        [(name,) for name in sorted(shown)],
    )


def forget(connection: Connection, source: str, listings: Sequence[str]) -> None:
    """Forget listings for which there is no room; not one that another source shows by now."""
    for name in sorted(listings):
        change(connection, "DELETE FROM jobs_sighting WHERE source = ? AND listing = ?", source, name)
        if row(connection, "SELECT 1 FROM jobs_sighting WHERE listing = ?", name) is None:
            opening_rows.release(connection, name)
            change(
                connection,
                "DELETE FROM jobs_listing WHERE listing = ? AND status = 'analyzing'"
                " AND NOT EXISTS (SELECT 1 FROM jobs_verdict v WHERE v.listing = jobs_listing.listing)",
                name,
            )  # fmt: skip


def miss(connection: Connection, source: str, reading: int, now: int) -> None:
    """Mark listings that a completely read source no longer shows; one that no source shows is gone altogether.

    This includes those gone there before: two sources that drop a listing at the same moment do not see each other.
    """
    change(
        connection,
        "UPDATE jobs_sighting SET gone_at = ? WHERE source = ? AND reading <> ? AND gone_at IS NULL",
        now, source, reading,
    )  # fmt: skip
    change(
        connection,
        "UPDATE jobs_listing SET gone_at = ? WHERE gone_at IS NULL"
        " AND listing IN (SELECT g.listing FROM jobs_sighting g WHERE g.source = ? AND g.gone_at IS NOT NULL)"
        " AND NOT EXISTS (SELECT 1 FROM jobs_sighting s WHERE s.listing = jobs_listing.listing AND s.gone_at IS NULL)",
        now, source,
    )  # fmt: skip


def decide(
    connection: Connection, listing: str, status: str, reason: str | None, found: Listing | None, more: dict[str, Any]
) -> None:
    """Say what has become of a listing, with its details if it could be read.

    One that is a match stays one, unless it is judged anew.
    """
    change(
        connection,
        "UPDATE jobs_listing SET status = ?, reason = ?, completeness = ?, strikes_json = ?, score = ?, why_json = ?,"
        " judged_by = ?, decided_at = ?, gone_at = coalesce(gone_at, ?), company = coalesce(company, ?)"
        " WHERE listing = ? AND status <> 'active'",
        status, reason, more.get("completeness"), _json(more.get("strikes")), more.get("score"), _json(more.get("why")),
        more["judged_by"], more["at"], more.get("gone_at"), more.get("company"), listing,
    )  # fmt: skip
    if status in ("filtered", "skipped"):
        change(
            connection,
            "DELETE FROM jobs_match WHERE listing = ? AND EXISTS"
            " (SELECT 1 FROM jobs_listing l WHERE l.listing = jobs_match.listing AND l.status = ?)",
            listing, status,
        )  # fmt: skip
    if found is None:
        return
    change(
        connection,
        "UPDATE jobs_listing SET title = ?, company_name = ?, location = ?, remote = ?, posted = ?, description = ?,"
        " requirements_json = ?, salary_min = ?, salary_max = ?, currency = ?, department = ?, apply_url = ?,"
        " valid_through = ? WHERE listing = ?",
        found.title, found.company, found.location, None if found.remote is None else int(found.remote),
        None if found.posted is None else found.posted.isoformat(), found.description, stored(found.requirements),
        found.salary_min, found.salary_max, found.currency, found.department, found.apply_url,
        None if found.valid_through is None else found.valid_through.isoformat(), listing,
    )  # fmt: skip


def save_match(
    connection: Connection, listing: str, twin: str | None, match: Match, model: str | None, now: int
) -> None:
    """Save a match, or what has changed of it. Raises PositionTaken where the same position is a match already."""
    opening_rows.hold(connection, listing, twin)
    change(
        connection,
        "INSERT INTO jobs_match (listing, score, needed, priority, why_json, has_office, model, saved_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (listing) DO UPDATE SET score = excluded.score,"
        " needed = excluded.needed, priority = excluded.priority, why_json = excluded.why_json,"
        " has_office = excluded.has_office, model = excluded.model",
        listing, match.score, match.needed, match.priority, stored(match.why), int(match.has_office), model, now,
    )  # fmt: skip


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def _json(value: Any) -> str | None:
    return None if value is None else stored(value)
