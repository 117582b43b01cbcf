"""A listing: one open position as a board or a page tells it."""

from __future__ import annotations

from datetime import date

import msgspec


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """One open position; what is unknown is None, and texts are plain."""

    url: str
    title: str
    company: str | None = None
    location: str | None = None
    remote: bool | None = None
    posted: date | None = None
    description: str | None = None
    requirements: tuple[str, ...] = ()
    salary_min: float | None = None
    """A year's pay, whatever interval the board names."""
    salary_max: float | None = None
    currency: str | None = None
    department: str | None = None
    external_id: str | None = None
    apply_url: str | None = None
    valid_through: date | None = None
