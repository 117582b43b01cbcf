"""SmartRecruiters: a list without descriptions, and a request of its own for each of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from onceward_apps.jobfinder.boards.answers import decoded, items_of, step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.peeking import at, flag_at, joined, number_at, text_at
from onceward_apps.jobfinder.plain_text import one_line, plain_text
from onceward_apps.jobfinder.requirements import requirements_in

PAGE = 100
_API = "https://api.smartrecruiters.com/v1/companies"
_SECTIONS = ("companyDescription", "jobDescription", "qualifications", "additionalInformation")


class SmartRecruiters:
    """Reads a SmartRecruiters board."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """The first page of postings."""
        return _request(address, 0, hosts)

    def read(self, page: Page, reading: Reading) -> Step:
        """One page of postings, and where each is described."""
        answer = decoded(page)
        postings = items_of(answer, "content", page)
        offset = int(reading.request.state.get("offset", 0)) + len(postings)
        total = number_at(answer, "totalFound")
        step = step_of(
            reading,
            postings,
            lambda posting: _listing(posting, reading),
            total=total,
            company=one_line(text_at(postings, 0, "company", "name")),
            detail_of=lambda listing: _detail(listing, reading),
        )
        is_last = not step.listings or (offset >= total if total is not None else len(postings) < PAGE)
        return step if is_last else replace(step, next=_request(reading.address, offset, reading.hosts))

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """A listing with its description and the link for people."""
        posting = decoded(page)
        if not isinstance(at(posting, "jobAd", "sections"), dict):
            raise Drifted(f"{page.final_url} has no sections of a job ad")
        sections = [_section(posting, name) for name in _SECTIONS]
        description = "\n\n".join(section for section in sections if section) or None
        return replace(
            listing,
            url=text_at(posting, "postingUrl") or listing.url,
            apply_url=text_at(posting, "applyUrl"),
            description=description,
            requirements=requirements_in(description),
        )


def _request(address: BoardAddress, offset: int, hosts: Hosts) -> Request:
    query = urlencode({"limit": PAGE, "offset": offset})
    url = f"{_API}/{quote(address.token, safe='')}/postings?{query}"
    return Request(url=placed(url, hosts), is_api=True, state={"offset": offset})


def _detail(listing: Listing, reading: Reading) -> Request:
    token, posting = quote(reading.address.token, safe=""), quote(listing.external_id or "", safe="")
    return Request(
        url=placed(f"{_API}/{token}/postings/{posting}", reading.hosts), is_api=True, about=listing.external_id
    )


def _listing(posting: Any, reading: Reading) -> Listing | None:
    title, number = one_line(text_at(posting, "name")), text_at(posting, "id")
    if not title or not number:
        return None
    company = text_at(posting, "company", "identifier") or reading.address.token
    place = at(posting, "location")
    said = joined(text_at(place, "city"), text_at(place, "region"), (text_at(place, "country") or "").upper() or None)
    return Listing(
        url=placed(
            f"https://jobs.smartrecruiters.com/{quote(company, safe='')}/{quote(number, safe='')}", reading.hosts
        ),
        title=title,
        company=one_line(text_at(posting, "company", "name")),
        location=_without_gaps(text_at(place, "fullLocation")) or said,
        remote=flag_at(place, "remote"),
        posted=day_of(at(posting, "releasedDate"), reading.today),
        department=text_at(posting, "department", "label") or text_at(posting, "function", "label"),
        external_id=number,
    )


def _without_gaps(place: str | None) -> str | None:
    """A place without the parts that were left empty: "Warsaw, , Poland"."""
    return joined(*((part.strip() for part in place.split(",")) if place else ()))


def _section(posting: Any, name: str) -> str | None:
    text = plain_text(text_at(posting, "jobAd", "sections", name, "text") or "")
    title = text_at(posting, "jobAd", "sections", name, "title")
    return f"{title}\n{text}" if text and title else text or None
