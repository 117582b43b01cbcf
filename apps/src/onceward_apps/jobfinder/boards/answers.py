"""What all readers of JSON boards share: decoding with one error, and a step made of items that can each be bad."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from onceward import PayloadError
from onceward.urls import canonical
from onceward_apps.jobfinder.boards.board import Reading, SoFar, Step
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.listing import Listing, storable
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.peeking import joined

ListingOf = Callable[[Any], Listing | None]
"""From an item to a listing; None if it lacks what a listing needs."""


def decoded(page: Page) -> Any:
    """The JSON of a page. Raises Drifted."""
    try:
        return msgspec.json.decode(page.body.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Drifted(f"{page.final_url} is not JSON: {error}") from error
    except RecursionError as error:
        raise Drifted(f"{page.final_url} nests too deeply") from error


def items_of(value: Any, key: str | None, page: Page) -> list[Any]:
    """The list under a key, or the answer itself without one. Raises Drifted."""
    found = value if key is None else value.get(key) if isinstance(value, dict) else None
    if not isinstance(found, list):
        raise Drifted(f"{page.final_url} is no list" if key is None else f"{page.final_url} has no list {key!r}")
    return found


def step_of(
    reading: Reading,
    items: Iterable[Any],
    listing_of: ListingOf,
    *,
    next: Request | None = None,
    detail_of: Callable[[Listing], Request] | None = None,
    total: int | None = None,
    company: str | None = None,
    warnings: tuple[str, ...] = (),
) -> Step:
    """One page's listings, each new, and what was counted. Raises Drifted if there are items and none can be read.

    What has the id of another on the same page is the same job in another place.
    """
    so_far = reading.so_far
    listings: dict[str, Listing] = {}
    unreadable = known = answered = 0
    for item in items:
        answered += 1
        told = listing_of(item)
        if told is None or not _is_address(told.url):
            unreadable += 1
            continue
        listing = storable(told)
        key = listing.external_id or listing.url
        if key in so_far.seen:
            known += 1
        elif key in listings:  # one job in several places
            places = joined(listings[key].location, listing.location, by="; ")
            listings[key] = replace(listings[key], location=places)
        else:
            listings[key] = listing
    if unreadable and not listings and not known:
        raise Drifted(f"none of the {unreadable} items of {reading.request.url} has a title and a link as they used to")
    if unreadable:
        warnings = (*warnings, f"{unreadable} items of {reading.request.url} have no title or link")
    found = tuple(listings.values())
    return Step(
        listings=found,
        next=next,
        details=tuple(map(detail_of, found)) if detail_of else (),
        so_far=SoFar(
            pages=so_far.pages + 1,
            seen=so_far.seen | listings.keys(),
            items=so_far.items + answered,
            total_said=so_far.total_said if so_far.total_said is not None else total,
            company_name=so_far.company_name or company,
            warnings=so_far.warnings + warnings,
        ),
    )


def _is_address(url: str) -> bool:
    """Whether a listing can be known by its address. One that can't must not cost the others."""
    try:
        canonical(url)
    except PayloadError:
        return False
    return True
