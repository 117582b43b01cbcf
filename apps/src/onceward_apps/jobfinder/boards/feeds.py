"""Feeds of jobs: RSS, Atom and JSON Feed, however broken."""

from __future__ import annotations

import io
import re
from datetime import date
from typing import Any

import feedparser
from msgspec.structs import replace

from onceward_apps.jobfinder.boards.answers import decoded, items_of, step_of
from onceward_apps.jobfinder.boards.board import NO_HOSTS, BoardAddress, Hosts, Reading, Step, placed
from onceward_apps.jobfinder.boards.feed_source import feed_source
from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.errors import Drifted
from onceward_apps.jobfinder.jsonld import listing_of as posting_listing
from onceward_apps.jobfinder.links import absolute, same_site
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request
from onceward_apps.jobfinder.peeking import at, joined, list_at, text_at, texts_at
from onceward_apps.jobfinder.plain_text import one_line, plain_text, unescaped_text
from onceward_apps.jobfinder.requirements import requirements_in
from onceward_apps.jobfinder.salaries import yearly

_PLACES = ("location", "g_location", "joblisting_location", "job_location", "job_listing_location", "tt_location",
           "region", "state", "city", "country")  # fmt: skip
_COMPANIES = ("company", "g_employer", "g_company", "job_listing_company", "job_company", "joblisting_company")
_DEPARTMENTS = ("department", "tt_department", "joblisting_department", "g_department")
_MORE = ("joblisting_examplesofduties", "joblisting_qualifications", "joblisting_supplementalinformation")
_COMPANY_FIRST = re.compile(r"([^:|]{2,60}): (\S.*)")
_LABELLED = re.compile(r"^(location|company|headquarters)\s*:\s*(.{1,200})$", re.IGNORECASE | re.MULTILINE)


class Feed:
    """Reads a feed."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """The feed."""
        return Request(url=placed(address.url, hosts), kinds=("feed",))

    def read(self, page: Page, reading: Reading) -> Step:
        """The entries of a feed as listings. Raises Drifted for what is no feed."""
        if page.body.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
            return _json_feed(page, reading)
        return _xml_feed(page, reading)

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """A feed has all it has."""
        return listing


def _xml_feed(page: Page, reading: Reading) -> Step:
    source = feed_source(page.text, page.final_url)
    # As a stream: bytes that look like a path would be opened as a file.
    headers = {"content-type": "application/xml; charset=utf-8", "content-location": page.final_url}
    try:
        feed = feedparser.parse(io.BytesIO(source), response_headers=headers)
    except (ValueError, RecursionError, LookupError, AttributeError, TypeError, KeyError) as error:
        raise Drifted(f"{page.final_url} cannot be read as a feed: {error}") from error
    if not feed.get("version") and not feed.entries:
        raise Drifted(f"{page.final_url} is not a feed")
    links = feed.feed.get("links", [])
    following = next((text_at(link, "href") for link in links if text_at(link, "rel") == "next"), None)
    entries = feed.entries
    _split_titles(entries)
    step = step_of(
        reading,
        entries,
        lambda entry: _of_entry(entry, page.final_url, reading.today),
        company=_plain_title(feed.feed.get("title")),
    )
    return replace(step, next=_following(following, page, step))


def _split_titles(entries: list[Any]) -> None:
    """Where nearly all titles are of the form "Company: Title", make two values of them."""
    found = [_COMPANY_FIRST.fullmatch(text_at(entry, "title") or "") for entry in entries]
    if len(found) < 2 or sum(map(bool, found)) < 0.8 * len(found):
        return
    for entry, parts in zip(entries, found, strict=True):
        if parts and not _first(entry, _COMPANIES):
            entry["company"], entry["title"] = parts[1], parts[2]


def _of_entry(entry: Any, base: str, today: date) -> Listing | None:
    title = _plain_title(entry.get("title"))
    url = absolute(base, text_at(entry, "link") or text_at(entry, "id"))
    if not title or not url:
        return None
    content = max((text_at(one, "value") or "" for one in list_at(entry, "content")), key=len, default="")
    summary = text_at(entry, "summary") or ""
    told = [max(content, summary, key=len), *(text_at(entry, name) or "" for name in _MORE)]
    description = "\n\n".join(text for text in map(unescaped_text, told) if text) or None
    labels = {name.lower(): value.strip() for name, value in _LABELLED.findall(description or "")}
    location = _first(entry, _PLACES) or labels.get("location") or labels.get("headquarters")
    interval = text_at(entry, "joblisting_salaryinterval")
    return Listing(
        url=url,
        title=title,
        company=_first(entry, _COMPANIES) or labels.get("company") or one_line(text_at(entry, "author")),
        location=location,
        remote=is_remote(location),
        posted=_day(entry, today),
        description=description,
        requirements=requirements_in(description),
        salary_min=yearly(entry.get("joblisting_minimumsalary"), interval),
        salary_max=yearly(entry.get("joblisting_maximumsalary"), interval),
        currency=text_at(entry, "joblisting_salarycurrency"),
        department=_first(entry, _DEPARTMENTS) or text_at(entry, "tags", 0, "term"),
        external_id=text_at(entry, "id"),
        apply_url=url,
    )


def _json_feed(page: Page, reading: Reading) -> Step:
    feed = decoded(page)
    if "jsonfeed.org" not in (text_at(feed, "version") or ""):
        raise Drifted(f"{page.final_url} is JSON, but no JSON Feed")
    step = step_of(
        reading,
        items_of(feed, "items", page),
        lambda item: _of_item(item, page.final_url, reading.today),
        company=one_line(text_at(feed, "title")),
    )
    return replace(step, next=_following(text_at(feed, "next_url"), page, step))


def _of_item(item: Any, base: str, today: date) -> Listing | None:
    title = one_line(text_at(item, "title"))
    url = absolute(base, text_at(item, "url") or text_at(item, "external_url") or text_at(item, "id"))
    if not title or not url:
        return None
    content = text_at(item, "content_html")
    description = plain_text(content) if content else text_at(item, "content_text") or text_at(item, "summary")
    posting = at(item, "_jobposting")
    told = posting_listing(posting, url, today) if isinstance(posting, dict) else None
    base_listing = told or Listing(url=url, title=title)
    return replace(
        base_listing,
        url=url,
        title=title,
        posted=day_of(at(item, "date_published"), today) or base_listing.posted,
        description=description or base_listing.description,
        requirements=requirements_in(description) or base_listing.requirements,
        department=base_listing.department or joined(*texts_at(item, "tags")),
        external_id=text_at(item, "id"),
        apply_url=url,
    )


def _following(link: str | None, page: Page, step: Step) -> Request | None:
    """The next page, if the feed has one at the same site and this one brought anything new."""
    target = absolute(page.final_url, link)
    if not target or not step.listings or not same_site(target, page.final_url):
        return None
    return Request(url=target, kinds=("feed",)) if target != page.final_url else None


def _plain_title(value: Any) -> str | None:
    return one_line(plain_text(value)) if isinstance(value, str) else None


def _day(entry: Any, today: date) -> date | None:
    for name in ("published_parsed", "updated_parsed", "created_parsed"):
        parsed = entry.get(name)
        if parsed:
            return day_of(f"{parsed[0]:04}-{parsed[1]:02}-{parsed[2]:02}", today)
    return day_of(text_at(entry, "published"), today)


def _first(entry: Any, names: tuple[str, ...]) -> str | None:
    return next((one_line(found) for name in names if (found := text_at(entry, name))), None)
