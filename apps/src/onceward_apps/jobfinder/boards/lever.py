"""Lever: a bare list, page by page, that never says how long it is. A short page is the last."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from onceward_apps.jobfinder.boards.answers import decoded, items_of, step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.peeking import at, joined, list_at, text_at, texts_at
from onceward_apps.jobfinder.plain_text import one_line, plain_text
from onceward_apps.jobfinder.requirements import requirements_in
from onceward_apps.jobfinder.salaries import yearly

PAGE = 100
_WORKPLACES = {"remote": True, "on-site": False, "onsite": False, "hybrid": False}


class Lever:
    """Reads a Lever board, in America or in the EU."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """The first page of postings."""
        return _request(address, 0, hosts)

    def read(self, page: Page, reading: Reading) -> Step:
        """One page of postings."""
        answer = decoded(page)
        if at(answer, "ok") is False:
            raise Drifted(f"{page.final_url} answered with an error: {text_at(answer, 'error')}")
        postings = items_of(answer, None, page)
        skip = int(reading.request.state.get("skip", 0))
        step = step_of(reading, postings, lambda posting: _listing(posting, reading))
        if len(postings) < PAGE or not step.listings:  # a page of nothing new: the board repeats itself
            return step
        return Step(
            listings=step.listings,
            next=_request(reading.address, skip + len(postings), reading.hosts),
            so_far=step.so_far,
        )

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """Nothing is missing from a listing of a list."""
        return listing


def _request(address: BoardAddress, skip: int, hosts: Hosts) -> Request:
    api = "api.eu.lever.co" if (urlsplit(address.url).hostname or "").endswith(".eu.lever.co") else "api.lever.co"
    query = urlencode({"mode": "json", "skip": skip, "limit": PAGE})
    url = f"https://{api}/v0/postings/{quote(address.token, safe='')}?{query}"
    # With the Accept of a browser the answer is a page for people.
    return Request(url=placed(url, hosts), accept="application/json", is_api=True, state={"skip": skip})


def _listing(posting: Any, reading: Reading) -> Listing | None:
    title, url = one_line(text_at(posting, "text")), text_at(posting, "hostedUrl")
    if not title or not url:
        return None
    description = _description(posting)
    places = texts_at(posting, "categories", "allLocations")
    location = joined(*places, by="; ") or text_at(posting, "categories", "location")
    interval = text_at(posting, "salaryRange", "interval")
    remote = _WORKPLACES.get((text_at(posting, "workplaceType") or "").lower())
    return Listing(
        url=url,
        title=title,
        location=location,
        remote=is_remote(location) if remote is None else remote,
        posted=day_of(at(posting, "createdAt"), reading.today),
        description=description,
        requirements=requirements_in(description),
        salary_min=yearly(at(posting, "salaryRange", "min"), interval),
        salary_max=yearly(at(posting, "salaryRange", "max"), interval),
        currency=text_at(posting, "salaryRange", "currency"),
        department=text_at(posting, "categories", "department") or text_at(posting, "categories", "team"),
        external_id=text_at(posting, "id"),
        apply_url=text_at(posting, "applyUrl"),
    )


def _description(posting: Any) -> str | None:
    """Its opening, lists and end: Lever keeps the lists, which say most, apart."""
    parts = [_plain(posting, "description")]
    for one in list_at(posting, "lists"):
        items = plain_text(f"<ul>{text_at(one, 'content') or ''}</ul>")
        parts.append("\n".join(part for part in (text_at(one, "text"), items) if part))
    parts += [_plain(posting, "additional"), text_at(posting, "salaryDescriptionPlain")]
    return "\n\n".join(part for part in parts if part) or None


def _plain(posting: Any, name: str) -> str | None:
    source = text_at(posting, name)
    if source:
        return plain_text(source)
    text = text_at(posting, f"{name}Plain")
    return text.replace("\xa0", " ") if text else None
