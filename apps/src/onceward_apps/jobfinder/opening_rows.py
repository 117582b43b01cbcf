"""Positions and their openings: decide which listing is processed when several sources show the same job.

A position is a company, a title and a place. Each of its openings belongs to one listing, the first one seen; like
listings of other sources are duplicates of that one. Two listings of one source are two openings, however alike.
Openings are claimed in transactions: of two sources read at the same moment one is first, and the other sees its claim.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from onceward import Connection
from onceward_apps.statements import change, row, rows

CLAIMS = 20
"""How often a listing tries again to claim an opening after another listing was faster."""


class PositionTaken(Exception):
    """Another listing has taken the same position meanwhile: the stage is tried again, and sees it."""


class Standing(msgspec.Struct, frozen=True):
    """The listing that is processed for the one that a source shows."""

    listing: str
    url: str
    status: str
    parent_task: int | None


class Rival(msgspec.Struct, frozen=True):
    """Another listing that holds the opening which this listing would take."""

    opening: int
    listing: str
    is_match: bool


def standing(connection: Connection, source: str, listings: Sequence[str]) -> dict[str, Standing]:
    """Find the listing that is processed for each one that a source shows; unknown ones are left out."""
    found = {}
    for one in listings:
        known = row(
            connection,
            "SELECT l.listing, l.url, l.status, l.parent_task FROM jobs_sighting s"
            " JOIN jobs_listing l ON l.listing = s.listing WHERE s.source = ? AND s.shown = ? LIMIT 1",
            source, one,
        ) or row(
            connection, "SELECT listing, url, status, parent_task FROM jobs_listing WHERE listing = ?", one
        )  # fmt: skip
        if known is not None:
            found[one] = Standing(*known)
    return found


def claim(connection: Connection, source: str, shown: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """Give each of these listings an opening of its position; returns which listing holds it: itself, or another one.

    All transactions claim in the same order, so that no two wait for each other.
    """
    found: dict[str, str] = {}
    for listing, twin in sorted(shown, key=lambda one: (one[1] or "", one[0])):
        taken = set(found.values())
        found[listing] = listing if twin is None else _claimed(connection, source, listing, twin, taken)
    return found


def _claimed(connection: Connection, source: str, listing: str, twin: str, taken: set[str]) -> str:
    for _ in range(CLAIMS):
        last = _last(connection, twin)
        others = rows(
            connection,
            "SELECT p.listing FROM jobs_position p JOIN jobs_listing l ON l.listing = p.listing"
            " WHERE p.twin = ? AND l.gone_at IS NULL AND NOT EXISTS (SELECT 1 FROM jobs_sighting s"
            " WHERE s.listing = p.listing AND s.source = ? AND s.gone_at IS NULL) ORDER BY p.opening",
            twin, source,
        )  # fmt: skip
        free = next((str(other) for (other,) in others if other not in taken), None)
        if free is not None:
            return free
        if _opened(connection, listing, twin, last):
            return listing
    raise PositionTaken(f"other listings claim every opening of the position of {listing}")


def _last(connection: Connection, twin: str) -> int:
    """The last opening of a position. Read before the other openings: a claim of the next one then misses none."""
    found = row(connection, "SELECT coalesce(max(opening), 0) FROM jobs_position WHERE twin = ?", twin)
    return 0 if found is None else int(found[0])


def _opened(connection: Connection, listing: str, twin: str, last: int) -> bool:
    """Take the opening after the last for a listing; False if another listing was faster, which can be seen now."""
    change(
        connection,
        "INSERT INTO jobs_position (twin, opening, listing) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        twin, last + 1, listing,
    )  # fmt: skip
    return row(connection, "SELECT 1 FROM jobs_position WHERE listing = ?", listing) is not None


def release(connection: Connection, listing: str) -> None:
    """Give up the opening of a listing that is not processed."""
    change(connection, "DELETE FROM jobs_position WHERE listing = ?", listing)


def rival(connection: Connection, listing: str, twin: str | None) -> Rival | None:
    """The other listing that holds the opening of a listing; None if it holds one itself, or if there is none like it.

    Two listings that one source shows are never rivals.
    """
    if twin is None or row(connection, "SELECT 1 FROM jobs_position WHERE listing = ?", listing) is not None:
        return None
    return _strongest(connection, listing, twin)


def _strongest(connection: Connection, listing: str, twin: str) -> Rival | None:
    """Of the like listings that no source shows beside this one, the first match, or else the first."""
    found = row(
        connection,
        "SELECT p.opening, p.listing, m.listing IS NOT NULL FROM jobs_position p"
        " JOIN jobs_listing l ON l.listing = p.listing LEFT JOIN jobs_match m ON m.listing = p.listing"
        " WHERE p.twin = ? AND p.listing <> ? AND l.gone_at IS NULL AND NOT EXISTS (SELECT 1 FROM jobs_sighting one"
        " JOIN jobs_sighting other ON other.source = one.source WHERE one.listing = p.listing AND other.listing = ?)"
        " ORDER BY m.listing IS NULL, p.opening LIMIT 1",
        twin, listing, listing,
    )  # fmt: skip
    return None if found is None else Rival(int(found[0]), str(found[1]), bool(found[2]))


def hold(connection: Connection, listing: str, twin: str | None) -> None:
    """Have a listing hold its opening, in the transaction that saves it: the listing that is saved first has it.

    Raises PositionTaken if another listing is saved already.
    """
    if twin is None:
        return
    # An update, not a SELECT: it waits for the transaction that is taking this opening at the moment.
    if row(connection, "UPDATE jobs_position SET listing = listing WHERE listing = ? RETURNING 1", listing):
        return
    last = _last(connection, twin)
    other = rival(connection, listing, twin)
    if other is None:
        held = _opened(connection, listing, twin, last)
    else:
        held = not other.is_match and _taken_over(connection, listing, twin, other)
    if not held:
        raise PositionTaken(f"another listing has just been saved with the position of {listing}")


def _taken_over(connection: Connection, listing: str, twin: str, other: Rival) -> bool:
    moved = row(
        connection,
        "UPDATE jobs_position SET listing = ? WHERE twin = ? AND opening = ? AND listing = ? RETURNING 1",
        listing, twin, other.opening, other.listing,
    )  # fmt: skip
    # It may have become a match while we waited for its row.
    is_match = row(connection, "SELECT 1 FROM jobs_match WHERE listing = ?", other.listing) is not None
    return moved is not None and not is_match
