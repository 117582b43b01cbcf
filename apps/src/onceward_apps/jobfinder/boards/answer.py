"""A whole board, read."""

from __future__ import annotations

import msgspec

from onceward_apps.jobfinder.listing import Listing


class BoardLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of one board is read."""

    pages: int = 500
    listings: int = 10_000
    details: int = 0
    """How many listings are completed by requests of their own."""


class BoardAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All listings of a board, and what it said about itself."""

    listings: tuple[Listing, ...]
    company_name: str | None
    total_said: int | None
    warnings: tuple[str, ...]
