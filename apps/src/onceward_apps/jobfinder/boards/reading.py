"""A whole board, read page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import date
from typing import assert_never

from onceward_apps.jobfinder.boards.answer import BoardAnswer, BoardLimits
from onceward_apps.jobfinder.boards.ashby import Ashby
from onceward_apps.jobfinder.boards.board import NO_HOSTS, Board, BoardAddress, BoardKind, Hosts, Reading, SoFar
from onceward_apps.jobfinder.boards.feeds import Feed
from onceward_apps.jobfinder.boards.generic import Generic
from onceward_apps.jobfinder.boards.greenhouse import Greenhouse
from onceward_apps.jobfinder.boards.jobvite import Jobvite
from onceward_apps.jobfinder.boards.jsonld_page import JsonLdPage
from onceward_apps.jobfinder.boards.lever import Lever
from onceward_apps.jobfinder.boards.smartrecruiters import SmartRecruiters
from onceward_apps.jobfinder.boards.workable import Workable
from onceward_apps.jobfinder.boards.workday import Workday
from onceward_apps.jobfinder.errors import Drifted, Gone
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.scraping import Instructions

Fetch = Callable[[Request], Awaitable[Page]]


def board_for(kind: BoardKind, instructions: Instructions | None = None) -> Board:
    """The reader of a kind of board; a generic page needs its instructions. Raises Drifted without them."""
    match kind:
        case BoardKind.GREENHOUSE:
            return Greenhouse()
        case BoardKind.LEVER:
            return Lever()
        case BoardKind.WORKDAY:
            return Workday()
        case BoardKind.SMARTRECRUITERS:
            return SmartRecruiters()
        case BoardKind.ASHBY:
            return Ashby()
        case BoardKind.WORKABLE:
            return Workable()
        case BoardKind.JOBVITE:
            return Jobvite()
        case BoardKind.FEED:
            return Feed()
        case BoardKind.JSONLD:
            return JsonLdPage()
        case BoardKind.GENERIC:
            if instructions is None:
                raise Drifted("a generic page can only be read by instructions, and this one has none")
            return Generic(instructions)
        case _:
            assert_never(kind)


async def read_board(
    address: BoardAddress,
    fetch: Fetch,
    limits: BoardLimits = BoardLimits(),  # noqa: B008
    *,
    today: date,
    hosts: Hosts = NO_HOSTS,
    instructions: Instructions | None = None,
) -> BoardAnswer:
    """All listings of a board within the limits. Raises what `fetch` raises, and Drifted."""
    board = board_for(address.kind, instructions)
    request: Request | None = board.first(address, hosts)
    so_far = SoFar()
    listings: list[Listing] = []
    details: list[Request] = []
    while request is not None and so_far.pages < limits.pages and len(listings) < limits.listings:
        reading = Reading(address=address, request=request, today=today, so_far=so_far, hosts=hosts)
        step = board.read(await fetch(request), reading)
        listings += step.listings
        details += step.details
        request, so_far = step.next, step.so_far
    warnings = list(so_far.warnings)
    if request is not None or len(listings) > limits.listings:
        warnings.append(f"read {so_far.pages} pages and {len(listings)} listings, and there are more")
    listings = listings[: limits.listings]
    places = {listing.external_id or listing.url: place for place, listing in enumerate(listings)}
    for detail in details[: limits.details]:
        place = places.get(detail.about or "")
        if place is None:
            continue
        reading = Reading(address=address, request=detail, today=today, so_far=so_far, hosts=hosts)
        try:
            listings[place] = board.complete(listings[place], await fetch(detail), reading)
        except (Gone, Drifted) as error:
            warnings.append(error.detail)
    return BoardAnswer(
        listings=tuple(listings),
        company_name=so_far.company_name,
        total_said=so_far.total_said,
        warnings=tuple(warnings),
    )
