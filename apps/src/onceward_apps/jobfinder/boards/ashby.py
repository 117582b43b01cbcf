"""Ashby: the whole board in one answer. A board that is not there answers 404, or has no jobs."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from onceward_apps.jobfinder.boards.answers import decoded, items_of, step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.peeking import at, flag_at, joined, list_at, text_at
from onceward_apps.jobfinder.plain_text import one_line, plain_text
from onceward_apps.jobfinder.requirements import requirements_in
from onceward_apps.jobfinder.salaries import yearly


class Ashby:
    """Reads an Ashby board."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """All jobs with their pay."""
        token = quote(address.token, safe="")
        url = f"https://api.ashbyhq.com/posting-api/job-board/{token}?includeCompensation=true"
        return Request(url=placed(url, hosts), is_api=True)

    def read(self, page: Page, reading: Reading) -> Step:
        """All listings that the board shows."""
        jobs = items_of(decoded(page), "jobs", page)
        shown = [job for job in jobs if flag_at(job, "isListed") is not False]
        warnings = () if jobs else ("the board is empty, or there is none of this name",)
        return step_of(reading, shown, lambda job: _listing(job, reading), warnings=warnings)

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """Nothing is missing from a listing of a list."""
        return listing


def _listing(job: Any, reading: Reading) -> Listing | None:
    title, url = one_line(text_at(job, "title")), text_at(job, "jobUrl")
    if not title or not url:
        return None
    source = text_at(job, "descriptionHtml")
    description = plain_text(source) if source else text_at(job, "descriptionPlain")
    location = joined(
        text_at(job, "location"), *(text_at(one, "location") for one in list_at(job, "secondaryLocations")), by="; "
    )
    remote = flag_at(job, "isRemote")
    pay = _salary(job)
    interval = text_at(pay, "interval")
    return Listing(
        url=url,
        title=title,
        location=location,
        remote=is_remote(location, text_at(job, "workplaceType")) if remote is None else remote,
        posted=day_of(at(job, "publishedAt"), reading.today),
        description=description or None,
        requirements=requirements_in(description),
        salary_min=yearly(at(pay, "minValue"), interval),
        salary_max=yearly(at(pay, "maxValue"), interval),
        currency=text_at(pay, "currencyCode"),
        department=text_at(job, "department") or text_at(job, "team"),
        external_id=text_at(job, "id"),
        apply_url=text_at(job, "applyUrl"),
    )


def _salary(job: Any) -> Any:
    """The part of the pay that is a salary: there is equity and commission besides."""
    tiers = list_at(job, "compensation", "compensationTiers")
    parts = [part for tier in tiers for part in list_at(tier, "components")]
    parts += list_at(job, "compensation", "summaryComponents")
    return next((part for part in parts if text_at(part, "compensationType") == "Salary"), None)
