"""One listing from its own page: by structured data where there is some, else by its heading and its text."""

from __future__ import annotations

import re
from datetime import date
from urllib.parse import urljoin, urlsplit

from msgspec.structs import replace

from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.html_parsing import parsed_html
from onceward_apps.jobfinder.jsonld import listings_in
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page
from onceward_apps.jobfinder.plain_text import one_line, plain_text
from onceward_apps.jobfinder.requirements import requirements_in
from onceward_apps.jobfinder.salaries import stated_in
from onceward_apps.jobfinder.structured import objects, text_of

_AT = re.compile(r"\s(?:\||–|—|-|at|@)\s")
_LOCATION = re.compile(r"^(?:location|place|office|where)s?\s*:\s*(.{2,80})$", re.IGNORECASE | re.MULTILINE)


def listing(url: str, page: Page, said: Listing | None, today: date) -> Listing:
    """The listing that a page is about, with what a source had said of it. Raises Drifted if it is about none."""
    stated = next(iter(listings_in(page.text, page.final_url, today)), None)
    found = stated or _by_heading(page)
    if found is None and said is None:
        raise Drifted(f"{page.final_url} shows no listing")
    if found is None or said is None:
        one = found or said
        assert one is not None
        return replace(one, url=url)
    return replace(
        said,
        url=url,
        company=said.company or found.company,
        location=said.location or found.location,
        remote=found.remote if said.remote is None else said.remote,
        posted=said.posted or found.posted,
        description=_longer(found.description, said.description),
        requirements=said.requirements or found.requirements,
        salary_min=said.salary_min or found.salary_min,
        salary_max=said.salary_max or found.salary_max,
        currency=said.currency or found.currency,
        apply_url=said.apply_url or found.apply_url,
        valid_through=said.valid_through or found.valid_through,
    )


def with_pay(listing: Listing) -> Listing:
    """A listing with the pay that its text states, where its board names none."""
    if listing.salary_min or listing.salary_max or (pay := stated_in(listing.description)) is None:
        return listing
    return replace(listing, salary_min=pay.lowest, salary_max=pay.highest, currency=pay.currency)


def website(page: Page) -> str | None:
    """The website of the company, if the structured data of a page names it."""
    for posting in objects(page.text, "JobPosting"):
        company = posting.get("hiringOrganization")
        about = company if isinstance(company, dict) else {}
        for name in ("sameAs", "url"):
            found = text_of(about.get(name))
            if found and urlsplit(found).scheme in ("http", "https"):
                return urljoin(page.final_url, found)
    return None


def _by_heading(page: Page) -> Listing | None:
    tree = parsed_html(page.text)
    heading = tree.css_first("h1") or tree.css_first("h2")
    title = one_line(heading.text()) if heading is not None else None
    if title is None:
        return None
    site = tree.css_first('meta[property="og:site_name"]')
    name = tree.css_first("title")
    company = one_line(site.attributes.get("content")) if site is not None else None
    if company is None and name is not None:
        parts = _AT.split(one_line(name.text()) or "")
        company = parts[-1] if len(parts) > 1 else None
    text = plain_text(page.text)
    place = _LOCATION.search(text)
    return Listing(
        url=page.final_url,
        title=title,
        company=company,
        location=place[1].strip() if place else None,
        description=_main_text(page.text) or text or None,
        requirements=requirements_in(text),
    )


def _main_text(html: str) -> str | None:
    import trafilatura  # it takes a second to load, and few pages need it

    # By its own rules alone. To compare them with others it reads the stop words of a hundred languages, for seconds.
    return trafilatura.extract(html, include_comments=False, fast=True)


def _longer(one: str | None, other: str | None) -> str | None:
    return one if len(one or "") >= len(other or "") else other
