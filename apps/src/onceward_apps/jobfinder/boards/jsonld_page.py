"""A careers page that describes its jobs by schema.org JSON-LD, all on it or each on a page of its own."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec.structs import replace

from onceward_apps.jobfinder.boards.answers import step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.jsonld import links_in, listings_in
from onceward_apps.jobfinder.links import same_site
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request


class JsonLdPage:
    """Reads the job postings of a page."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """The page."""
        return Request(url=placed(address.url, hosts), kinds=("html",))

    def read(self, page: Page, reading: Reading) -> Step:
        """The listings described on the page; with none, the pages that its list leads to."""
        found = listings_in(page.text, page.final_url, reading.today)
        if found:
            return step_of(reading, found, lambda listing: listing, company=found[0].company)
        links = [link for link in links_in(page.text, page.final_url) if same_site(link, page.final_url)]
        bare = [Listing(url=link, title=_name_in(link), external_id=link) for link in links]
        warnings = () if bare else (f"{page.final_url} describes no job by JSON-LD",)
        return step_of(reading, bare, lambda listing: listing, detail_of=_detail, warnings=warnings)

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """The listing as its own page describes it, if it does."""
        return completed(listing, page, reading)


def completed(listing: Listing, page: Page, reading: Reading) -> Listing:
    """A listing with whatever the JSON-LD of its page adds; the listing itself if there is none."""
    described = listings_in(page.text, page.final_url, reading.today)
    if not described:
        return listing
    told = {
        name: value
        for name in ("title", "company", "location", "remote", "posted", "description", "requirements", "salary_min",
                     "salary_max", "currency", "department", "valid_through")
        if (value := getattr(described[0], name)) not in (None, ())
    }  # fmt: skip
    return replace(listing, **told)


def _detail(listing: Listing) -> Request:
    return Request(url=listing.url, kinds=("html",), about=listing.external_id)


def _name_in(link: str) -> str:
    """What to call a listing before its page was read: the last words of its address."""
    words = urlsplit(link).path.rstrip("/").rpartition("/")[2].replace("-", " ").replace("_", " ").strip()
    return words.capitalize() or link
