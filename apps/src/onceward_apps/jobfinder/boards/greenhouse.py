"""Greenhouse: the whole board in one answer, its descriptions escaped once more than they should be."""

from __future__ import annotations

import html
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from onceward_apps.jobfinder.boards.answers import decoded, items_of, step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.peeking import at, joined, list_at, number_at, text_at
from onceward_apps.jobfinder.plain_text import one_line, plain_text
from onceward_apps.jobfinder.requirements import requirements_in
from onceward_apps.jobfinder.salaries import yearly

_API = "https://boards-api.greenhouse.io/v1/boards"
"""Boards with their pages in the EU are answered here too."""


class Greenhouse:
    """Reads a Greenhouse board."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """All jobs with their descriptions."""
        url = f"{_API}/{quote(address.token, safe='')}/jobs?content=true"
        return Request(url=placed(url, hosts), is_api=True)

    def read(self, page: Page, reading: Reading) -> Step:
        """All listings of the board."""
        answer = decoded(page)
        jobs = items_of(answer, "jobs", page)
        return step_of(
            reading,
            jobs,
            lambda job: _listing(job, reading),
            total=number_at(answer, "meta", "total"),
            company=one_line(text_at(jobs, 0, "company_name")),
            detail_of=None if _have_content(jobs) else lambda listing: self._detail(listing, reading),
        )

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """A listing with the description, departments and pay of its own answer."""
        job = decoded(page)
        found = _listing(job, reading)
        if found is None:
            raise Drifted(f"{page.final_url} is not a job as it used to be")
        return replace(
            found, url=listing.url, external_id=listing.external_id, company=found.company or listing.company
        )

    def _detail(self, listing: Listing, reading: Reading) -> Request:
        token, job = quote(reading.address.token, safe=""), quote(listing.external_id or "", safe="")
        url = f"{_API}/{token}/jobs/{job}?pay_transparency=true"
        return Request(url=placed(url, reading.hosts), is_api=True, about=listing.external_id)


def _listing(job: Any, reading: Reading) -> Listing | None:
    title, url = one_line(text_at(job, "title")), text_at(job, "absolute_url")
    if not title or not url:
        return None
    content = text_at(job, "content")
    description = plain_text(html.unescape(content)) or None if content else None
    location = one_line(text_at(job, "location", "name"))
    pay = list_at(job, "pay_input_ranges")
    cents_min, cents_max = (yearly(number_at(pay, 0, name), None) for name in ("min_cents", "max_cents"))
    return Listing(
        url=url,
        title=title,
        company=one_line(text_at(job, "company_name")),
        location=location,
        remote=is_remote(location),
        posted=day_of(at(job, "first_published"), reading.today) or day_of(at(job, "updated_at"), reading.today),
        description=description,
        requirements=requirements_in(description),
        salary_min=cents_min / 100 if cents_min else None,
        salary_max=cents_max / 100 if cents_max else None,
        currency=text_at(pay, 0, "currency_type"),
        department=joined(*(text_at(one, "name") for one in list_at(job, "departments"))),
        external_id=text_at(job, "id"),
        apply_url=url,
        valid_through=day_of(at(job, "application_deadline"), reading.today),
    )


def _have_content(jobs: list[Any]) -> bool:
    return not jobs or any(text_at(job, "content") for job in jobs)
