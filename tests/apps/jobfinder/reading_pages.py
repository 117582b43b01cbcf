"""Boards read from answers that are there already."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import date
from typing import Any

from onceward_apps.jobfinder.boards.answer import BoardAnswer, BoardLimits
from onceward_apps.jobfinder.boards.board import BoardAddress, BoardKind, Reading, SoFar, Step
from onceward_apps.jobfinder.boards.reading import board_for, read_board
from onceward_apps.jobfinder.boards.recognising import recognise
from onceward_apps.jobfinder.decoding import text_of
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.scraping import Instructions

TODAY = date(2026, 8, 20)

URLS = {
    "greenhouse": "https://boards.greenhouse.io/acme",
    "lever": "https://jobs.lever.co/acme",
    "workday": "https://acme.wd5.myworkdayjobs.com/Careers",
    "smartrecruiters": "https://careers.smartrecruiters.com/acme",
    "ashby": "https://jobs.ashbyhq.com/acme",
    "workable": "https://apply.workable.com/acme/",
    "jobvite": "https://jobs.jobvite.com/feedingamerica/jobs",
    "feed": "https://acme.example/jobs.rss",
}


def address_of(kind: str) -> BoardAddress:
    """The address of an invented board."""
    if kind in ("jsonld", "generic"):
        return BoardAddress(BoardKind(kind), "acme.example/jobs", "https://acme.example/jobs", "low")
    found = recognise(URLS[kind])
    assert found is not None
    return found


def page_of(body: bytes | str | Any, url: str = "https://acme.example/jobs", content_type: str = "") -> Page:
    """A page with a body; anything but text becomes JSON."""
    if not isinstance(body, bytes | str):
        body = json.dumps(body)
    raw = body.encode() if isinstance(body, str) else body
    return Page(
        url=url, final_url=url, status=200, content_type=content_type, headers={}, body=raw,
        text=text_of(raw, content_type),
    )  # fmt: skip


def read_one(kind: str, body: Any, so_far: SoFar | None = None, instructions: Instructions | None = None) -> Step:
    """What the first page of a board gives."""
    address = address_of(kind)
    board = board_for(address.kind, instructions)
    request = board.first(address)
    reading = Reading(address=address, request=request, today=TODAY, so_far=so_far or SoFar())
    return board.read(page_of(body, address.url), reading)


def completed(kind: str, listing: Listing, request: Request, body: Any) -> Listing:
    """A listing with what the answer about it adds."""
    address = address_of(kind)
    reading = Reading(address=address, request=request, today=TODAY)
    return board_for(address.kind).complete(listing, page_of(body, request.url), reading)


def read_all(
    kind: str, serve: Callable[[Request], Any], limits: BoardLimits | None = None, **options: Any
) -> tuple[BoardAnswer, list[Request]]:
    """A whole board, from a function that answers requests; and the requests."""
    asked: list[Request] = []

    async def fetch(request: Request) -> Page:
        asked.append(request)
        return page_of(serve(request), request.url)

    answer = read_board(address_of(kind), fetch, limits or BoardLimits(), today=TODAY, **options)
    return asyncio.run(answer), asked
