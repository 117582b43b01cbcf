"""Workable: a widget with the whole board, or, where an account has switched it off, a list paged by tokens."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from onceward_apps.jobfinder.boards.answers import decoded, items_of, step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.peeking import at, flag_at, joined, list_at, number_at, text_at
from onceward_apps.jobfinder.plain_text import one_line, plain_text
from onceward_apps.jobfinder.requirements import requirements_in

_SITE = "https://apply.workable.com"
_QUERY: dict[str, Any] = {"query": "", "location": [], "department": [], "worktype": []}


class Workable:
    """Reads a Workable board."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """The widget: all jobs with their descriptions."""
        url = f"{_SITE}/api/v1/widget/accounts/{quote(address.token, safe='')}?details=true"
        return Request(url=placed(url, hosts), is_api=True)

    def read(self, page: Page, reading: Reading) -> Step:
        """The jobs of the widget, or of one page of the list."""
        answer = decoded(page)
        if reading.request.method == "POST":
            return self._listed(answer, page, reading)
        jobs = items_of(answer, "jobs", page)
        company = one_line(text_at(answer, "name"))
        step = step_of(reading, jobs, lambda job: _of_widget(job, company, reading), company=company)
        return step if jobs else replace(step, next=_list_request(reading, None))

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """A listing of the list with its description."""
        job = decoded(page)
        parts = [plain_text(text_at(job, name) or "") for name in ("description", "requirements", "benefits")]
        if parts[1]:
            parts[1] = f"Requirements\n{parts[1]}"
        description = "\n\n".join(part for part in parts if part) or None
        return replace(listing, description=description, requirements=requirements_in(description))

    def _listed(self, answer: Any, page: Page, reading: Reading) -> Step:
        jobs = items_of(answer, "results", page)
        step = step_of(
            reading,
            jobs,
            lambda job: _of_list(job, reading),
            total=number_at(answer, "total"),
            detail_of=lambda listing: _detail(listing, reading),
        )
        token = text_at(answer, "nextPage")
        return replace(step, next=_list_request(reading, token)) if token and step.listings else step


def _list_request(reading: Reading, token: str | None) -> Request:
    url = f"{_SITE}/api/v3/accounts/{quote(reading.address.token, safe='')}/jobs"
    query = _QUERY if token is None else {**_QUERY, "token": token}
    return Request(url=placed(url, reading.hosts), method="POST", json=query, is_api=True)


def _detail(listing: Listing, reading: Reading) -> Request:
    account, job = quote(reading.address.token, safe=""), quote(listing.external_id or "", safe="")
    url = f"{_SITE}/api/v2/accounts/{account}/jobs/{job}"
    return Request(url=placed(url, reading.hosts), is_api=True, about=listing.external_id)


def _of_widget(job: Any, company: str | None, reading: Reading) -> Listing | None:
    title, url = one_line(text_at(job, "title")), text_at(job, "url") or text_at(job, "shortlink")
    if not title or not url:
        return None
    description = plain_text(text_at(job, "description") or "") or None
    remote = flag_at(job, "telecommuting")
    location = _places(job) or joined(text_at(job, "city"), text_at(job, "state"), text_at(job, "country"))
    return Listing(
        url=url,
        title=title,
        company=company,
        location=location,
        remote=is_remote(location) if remote is None else remote,
        posted=day_of(at(job, "published_on"), reading.today) or day_of(at(job, "created_at"), reading.today),
        description=description,
        requirements=requirements_in(description),
        department=text_at(job, "department"),
        external_id=text_at(job, "shortcode"),
        apply_url=text_at(job, "application_url"),
    )


def _of_list(job: Any, reading: Reading) -> Listing | None:
    title, code = one_line(text_at(job, "title")), text_at(job, "shortcode")
    if not title or not code:
        return None
    place = at(job, "location")
    location = _places(job) or joined(text_at(place, "city"), text_at(place, "region"), text_at(place, "country"))
    remote = flag_at(job, "remote")
    return Listing(
        url=placed(f"{_SITE}/{quote(reading.address.token, safe='')}/j/{quote(code, safe='')}/", reading.hosts),
        title=title,
        company=reading.so_far.company_name,
        location=location,
        remote=is_remote(location, text_at(job, "workplace")) if remote is None else remote,
        posted=day_of(at(job, "published"), reading.today),
        department=text_at(job, "department", 0) or text_at(job, "department"),
        external_id=code,
    )


def _places(job: Any) -> str | None:
    shown = [place for place in list_at(job, "locations") if flag_at(place, "hidden") is not True]
    return joined(
        *(joined(text_at(place, "city"), text_at(place, "region"), text_at(place, "country")) for place in shown),
        by="; ",
    )
