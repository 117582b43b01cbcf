"""Workday: pages of twenty by an interface for its own site, whose totals are not to be trusted.

- The total is true on the first page and 0 on the others, so the first is remembered.
- Many boards say exactly 2000 when they have more, and give page one again beyond that. The facets still count
  right: such a board is read once for every value of one facet.
- What comes twice is taken once; a page that begins as the first one did ends a part.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from onceward_apps.jobfinder.boards.answers import decoded, items_of, step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.boards.workday_facets import Part, parts_of
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.peeking import at, joined, number_at, text_at, texts_at
from onceward_apps.jobfinder.plain_text import one_line, plain_text
from onceward_apps.jobfinder.requirements import requirements_in

PAGE = 20
"""More is refused."""
LID = 2_000

_SEVERAL = re.compile(r"(\d+) locations?", re.IGNORECASE)


class Workday:
    """Reads a Workday site."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """The first twenty of all. Raises Drifted for an address without a site."""
        if not _token(address)[2]:
            raise Drifted(f"{address.url} does not name a site, as https://acme.wd5.myworkdayjobs.com/Careers does")
        return _request(address, hosts, {"offset": 0})

    def read(self, page: Page, reading: Reading) -> Step:
        """One page of a board, or of one part of it."""
        answer = decoded(page)
        postings = items_of(answer, "jobPostings", page)
        state = reading.request.state
        offset = int(state.get("offset", 0))
        begins = text_at(postings, 0, "externalPath")
        if offset == 0:
            state = {**state, "total": number_at(answer, "total") or None, "begins": begins}
        is_again = offset > 0 and begins is not None and begins == state.get("begins")
        parts: list[Part] = []
        if offset == 0 and "part" not in state and state["total"] == LID:
            parts = parts_of(at(answer, "facets"), LID)
        total = max(LID, sum(part.count for part in parts)) if parts else state.get("total")
        step = step_of(
            reading,
            [] if is_again else postings,
            lambda posting: _listing(posting, reading),
            total=total,
            warnings=_warnings(state, offset, parts),
        )
        step = replace(step, details=tuple(_detail(listing, reading) for listing in step.listings))
        if parts:
            queue = [[part.parameter, part.value] for part in parts]
            return replace(step, next=_next_part(reading, queue))
        if is_again or _is_last(postings, offset, state):
            return replace(step, next=_next_part(reading, state.get("queue", [])))
        return replace(step, next=_request(reading.address, reading.hosts, {**state, "offset": offset + len(postings)}))

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """A listing with its description, its true date and all its places."""
        answer = decoded(page)
        info = at(answer, "jobPostingInfo")
        source = text_at(info, "jobDescription")
        if source is None:
            raise Drifted(f"{page.final_url} has no job description")
        description = plain_text(source) or None
        location = joined(text_at(info, "location"), *texts_at(info, "additionalLocations"), by="; ")
        posted = day_of(at(info, "startDate"), reading.today) or day_of(at(info, "postedOn"), reading.today)
        return replace(
            listing,
            company=one_line(text_at(answer, "hiringOrganization", "name")) or listing.company,
            location=location or listing.location,
            remote=_remote(info, location),
            posted=posted or listing.posted,
            description=description,
            requirements=requirements_in(description),
            apply_url=text_at(info, "externalUrl"),
        )


def site_url(address: BoardAddress) -> str:
    """Where the pages of a site are, without a slash at the end."""
    tenant, instance, site = _token(address)
    host = urlsplit(address.url).hostname or ""
    if host.endswith("myworkdaysite.com"):
        return f"https://{host}/recruiting/{tenant}/{site}"
    return f"https://{tenant}.{instance}.myworkdayjobs.com/{site}"


def _token(address: BoardAddress) -> tuple[str, str, str]:
    tenant, instance, site = [*address.token.split("/"), "", ""][:3]
    return tenant, instance, site


def _api(address: BoardAddress, hosts: Hosts, rest: str) -> str:
    tenant, _, site = _token(address)
    host = urlsplit(site_url(address)).netloc
    return placed(f"https://{host}/wday/cxs/{quote(tenant, safe='')}/{quote(site, safe='')}{rest}", hosts)


def _request(address: BoardAddress, hosts: Hosts, state: dict[str, Any]) -> Request:
    part = state.get("part")
    body = {
        "appliedFacets": {part[0]: [part[1]]} if part else {},
        "limit": PAGE,
        "offset": state["offset"],
        "searchText": "",
    }
    return Request(url=_api(address, hosts, "/jobs"), method="POST", json=body, state=state)


def _next_part(reading: Reading, queue: list[list[str]]) -> Request | None:
    if not queue:
        return None
    return _request(reading.address, reading.hosts, {"offset": 0, "part": queue[0], "queue": queue[1:]})


def _is_last(postings: list[Any], offset: int, state: dict[str, Any]) -> bool:
    total = state.get("total")
    if len(postings) < PAGE:
        return True
    # At the lid there may be more: go on until a page is short or the first one comes again.
    return total is not None and total != LID and offset + len(postings) >= total


def _warnings(state: dict[str, Any], offset: int, parts: list[Part]) -> tuple[str, ...]:
    if offset or state["total"] != LID or parts:
        return ()
    what = f"the part {state['part'][1]}" if "part" in state else "the board"
    return (f"{what} says {LID}, the most that Workday tells: some listings may be out of reach",)


def _detail(listing: Listing, reading: Reading) -> Request:
    path = urlsplit(listing.url).path
    url = _api(reading.address, reading.hosts, path[path.index("/job/") :])
    return Request(url=url, about=listing.external_id)


def _listing(posting: Any, reading: Reading) -> Listing | None:
    title, path = one_line(text_at(posting, "title")), text_at(posting, "externalPath")
    if not title or not path or not path.startswith("/job/"):
        return None
    bullet = text_at(posting, "bulletFields", 0)
    location = _location(text_at(posting, "locationsText"), path)
    return Listing(
        url=placed(site_url(reading.address) + path, reading.hosts),
        title=title,
        company=reading.so_far.company_name,
        location=location,
        remote=_remote(posting, location),
        posted=day_of(at(posting, "postedOn"), reading.today),
        external_id=bullet if bullet and bullet in path else path.rpartition("_")[2] or path,
    )


def _location(said: str | None, path: str) -> str | None:
    """The place; of "3 Locations" the one that is in the link, and how many more there are."""
    several = _SEVERAL.fullmatch(said or "")
    if not several:
        return said
    inside = path.removeprefix("/job/").split("/")
    if len(inside) < 2:
        return said
    place = inside[0].replace("---", " – ").replace("-", " ")
    return f"{place} and {int(several[1]) - 1} more"


def _remote(posting: Any, location: str | None) -> bool | None:
    kind = text_at(posting, "remoteType")
    if kind is None:
        return is_remote(location)
    return "remote" in kind.lower() and "hybrid" not in kind.lower()
