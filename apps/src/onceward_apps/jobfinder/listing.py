"""A listing: one open position as a board or a page tells it."""

from __future__ import annotations

import re
from datetime import date

import msgspec

_NOT_HELD = re.compile("[\x00\ud800-\udfff]")


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


def held(text: str) -> str:
    """A text that both databases hold: without zero characters, and without halves of characters."""
    return _NOT_HELD.sub("\N{REPLACEMENT CHARACTER}", text)


def storable(listing: Listing) -> Listing:
    """The listing with texts that can be stored. Its address is what it is."""
    values = {name: value for name in _TEXTS if (value := getattr(listing, name)) is not None}
    told = {name: held(value) for name, value in values.items()}
    return msgspec.structs.replace(listing, requirements=tuple(map(held, listing.requirements)), **told)


_TEXTS = ("title", "company", "location", "description", "currency", "department", "external_id", "apply_url")
