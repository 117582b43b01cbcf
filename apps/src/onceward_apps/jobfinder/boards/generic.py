"""Any other page with a list of jobs, by stored instructions."""

from __future__ import annotations

from msgspec.structs import replace

from onceward_apps.jobfinder.boards.answers import step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.boards.jsonld_page import completed
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.links import same_site
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.scraping import Instructions, extracted, next_page


class Generic:
    """Reads a page by instructions."""

    def __init__(self, instructions: Instructions) -> None:
        self._instructions = instructions

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """The page."""
        return Request(url=placed(address.url, hosts), kinds=("html",))

    def read(self, page: Page, reading: Reading) -> Step:
        """The listings that the instructions find. A first page on which they find nothing to read has drifted."""
        listings, items = extracted(self._instructions, page.text, page.final_url, reading.today)
        if not listings and (items or reading.so_far.pages == 0):
            raise Drifted(f"the instructions find no listing on {page.final_url} ({items} items)")
        step = step_of(
            reading,
            listings,
            lambda listing: listing,
            detail_of=lambda listing: Request(
                url=listing.url, kinds=("html",), about=listing.external_id or listing.url
            ),
        )
        following = next_page(self._instructions, page.text, page.final_url)
        if not following or not step.listings or not same_site(following, page.final_url):
            return step
        return replace(step, next=Request(url=following, kinds=("html",)))

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """A listing with the JSON-LD of its own page, if it has any."""
        return completed(listing, page, reading)
