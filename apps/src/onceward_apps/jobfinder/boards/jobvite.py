"""Jobvite: pages for people, with JSON-LD on the page of each job. Its checks for robots are no verdict."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

from msgspec.structs import replace
from selectolax.lexbor import LexborNode

from onceward_apps.jobfinder.boards.answers import step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.boards.jsonld_page import completed
from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.html_parsing import parsed_html
from onceward_apps.jobfinder.links import absolute, same_site
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.plain_text import node_text, one_line

BOT_CHECKS = (202, 401, 403)
_SITE = "https://jobs.jobvite.com"
_JOB = re.compile(r"/job/([A-Za-z0-9]+)/?$")
_PLACE = ".jv-job-list-location, .jv-job-detail-meta, [class*=location]"
_ROWS = frozenset({"tr", "li", "article"})


class Jobvite:
    """Reads a Jobvite board."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """The page of all jobs."""
        return _request(placed(f"{_SITE}/{quote(address.token, safe='')}/jobs", hosts))

    def read(self, page: Page, reading: Reading) -> Step:
        """The jobs of one page."""
        document = parsed_html(page.text)
        links = [node for node in document.css("a[href*='/job/']") if _JOB.search(_path(node))]
        if not links and not document.css_matches("[class*=jv-]"):
            raise Drifted(f"{page.final_url} is no list of Jobvite")
        following = document.css_first("a.jv-pagination-next[href], a[rel=next][href]")
        target = absolute(page.final_url, following.attributes.get("href")) if following else None
        step = step_of(
            reading,
            links,
            lambda node: _listing(node, page.final_url),
            detail_of=lambda listing: replace(_request(listing.url), about=listing.external_id),
        )
        if not target or not step.listings or not same_site(target, page.final_url):
            return step
        return replace(step, next=_request(target))

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """A listing with what its own page says."""
        return completed(listing, page, reading)


def _request(url: str) -> Request:
    return Request(url=url, kinds=("html",), bot_checks=BOT_CHECKS)


def _path(node: LexborNode) -> str:
    try:
        return urlsplit(node.attributes.get("href") or "").path
    except ValueError:
        return ""


def _listing(node: LexborNode, base: str) -> Listing | None:
    job = _JOB.search(_path(node))
    title, url = one_line(node_text(node)), absolute(base, node.attributes.get("href"))
    if not job or not title or not url:
        return None
    row: LexborNode | None = node
    while row is not None and row.tag not in _ROWS:
        row = row.parent
    place = row.css_first(_PLACE) if row is not None else None
    location = one_line(node_text(place)) if place is not None else None
    return Listing(
        url=url,
        title=title,
        location=location,
        remote=is_remote(location, title),
        external_id=job[1],
    )
