"""The readers of boards, and the boards as their rows in the table of sources name them."""

from __future__ import annotations

from datetime import date

import msgspec

from onceward_apps.jobfinder import postings, scraping, surroundings
from onceward_apps.jobfinder.boards.board import Board, BoardAddress, BoardKind, Reading, SoFar, Step, placed
from onceward_apps.jobfinder.boards.reading import board_for
from onceward_apps.jobfinder.discovering import discovered
from onceward_apps.jobfinder.errors import Drifted, NoListFound
from onceward_apps.jobfinder.listing import Listing, storable
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.source_rows import SourceRow

NEED_LISTINGS = frozenset({BoardKind.JSONLD, BoardKind.GENERIC})
"""A page without an interface has proved nothing as long as it shows no listing."""


def address_of(row: SourceRow) -> BoardAddress:
    """The board that a row is about."""
    return msgspec.convert(
        {"kind": row.kind, "token": row.token, "url": row.url, "confidence": row.expected_confidence}, BoardAddress
    )


def reader_of(address: BoardAddress, config: str | None) -> Board:
    """What reads a board; a page without an interface is read by the instructions that were found for it."""
    return board_for(address.kind, None if config is None else scraping.loaded(config))


def first(address: BoardAddress, config: str | None = None) -> Request:
    """What to ask first."""
    if address.kind is BoardKind.GENERIC and config is None:
        return Request(url=placed(address.url, surroundings.web().hosts), kinds=("html",))
    return reader_of(address, config).first(address, surroundings.web().hosts)


def read(address: BoardAddress, config: str | None, request: Request, page: Page, today: date, so_far: SoFar) -> Step:
    """What a page gives. Raises Drifted."""
    reading = Reading(address=address, request=request, today=today, so_far=so_far, hosts=surroundings.web().hosts)
    return reader_of(address, config).read(page, reading)


def tested(address: BoardAddress, request: Request, page: Page, today: date) -> tuple[str | None, tuple[Listing, ...]]:
    """How a board is read, and what its first page shows. Raises Drifted if that proves nothing."""
    config = None
    if address.kind is BoardKind.GENERIC:
        instructions = discovered(page.text, page.final_url, today)
        if not instructions:
            raise NoListFound(f"no list of jobs was found on {page.final_url}")
        config = scraping.dumped(instructions[0])
    listings = read(address, config, request, page, today, SoFar()).listings
    if address.kind in NEED_LISTINGS and not listings:
        raise Drifted(f"{page.final_url} shows no listing")
    return config, listings


def learned(answer: bytes, page: Page, today: date) -> tuple[str, tuple[Listing, ...]]:
    """How a page is read by what a model says, and what that gives. Raises Drifted unless it holds on the page itself.

    Whose listings these are is nothing for a model to say.
    """
    try:
        instructions = msgspec.structs.replace(scraping.loaded(answer), company=None)
    except scraping.BadInstructions as error:
        raise Drifted(f"no list of jobs was found on {page.final_url}; a model was asked in vain: {error}") from error
    found = scraping.tested(instructions, page.text, page.final_url, today)
    if not found.passed:
        why = "; ".join(found.problems)
        raise Drifted(f"no list of jobs was found on {page.final_url}; what a model says does not hold: {why}")
    return scraping.dumped(instructions), found.listings


def complete(row: SourceRow, listing: Listing, request: Request, page: Page, today: date) -> Listing:
    """A listing with what the page about it adds. Raises Drifted."""
    address = address_of(row)
    reading = Reading(address=address, request=request, today=today, hosts=surroundings.web().hosts)
    found = reader_of(address, row.config_json).complete(listing, page, reading)
    if not found.description and "html" in request.kinds:
        return storable(postings.listing(listing.url, page, found, today))
    return storable(found)
