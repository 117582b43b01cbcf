"""schema.org job postings inside pages: every block read by itself, so that a broken one costs no other."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from datetime import date
from typing import Any

from selectolax.lexbor import LexborHTMLParser

from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.html_parsing import parsed_html
from onceward_apps.jobfinder.links import absolute
from onceward_apps.jobfinder.listing import Listing, storable
from onceward_apps.jobfinder.peeking import at, joined, text_at
from onceward_apps.jobfinder.plain_text import one_line, unescaped_text
from onceward_apps.jobfinder.requirements import requirements_in
from onceward_apps.jobfinder.salaries import yearly

MOST_VALUES = 100_000
"""How many values of one block are looked at."""
_WRAPPING = re.compile(r"^\s*(?:<!--|//\s*<!\[CDATA\[|<!\[CDATA\[)|(?:-->|//\s*\]\]>|\]\]>)\s*$")
_PARTS = ("description", "responsibilities", "qualifications", "skills", "experienceRequirements",
          "educationRequirements")  # fmt: skip
_TITLES = {"responsibilities": "Responsibilities", "qualifications": "Qualifications", "skills": "Skills",
           "experienceRequirements": "Experience", "educationRequirements": "Education"}  # fmt: skip


def blocks_in(document: LexborHTMLParser) -> Iterator[Any]:
    """Every JSON-LD block of a page that can be read."""
    for node in document.css('script[type*="ld+json" i]'):
        source = _WRAPPING.sub("", node.text() or "").strip().rstrip(";")
        for candidate in (source, html.unescape(source)):
            try:
                block = json.loads(candidate, strict=False)
            except (ValueError, RecursionError):
                continue
            yield block
            break


def postings_in(source: str) -> list[dict[str, Any]]:
    """Every JobPosting of a page, in order."""
    document = parsed_html(source)
    return [posting for block in blocks_in(document) for posting in _of_type(block, "JobPosting")]


def listings_in(source: str, url: str, today: date) -> list[Listing]:
    """The listings that a page describes by JSON-LD. One without a link of its own is at the page's address."""
    found = (listing_of(posting, url, today) for posting in postings_in(source))
    return [listing for listing in found if listing is not None]


def listing_of(posting: dict[str, Any], page_url: str, today: date) -> Listing | None:
    """The listing that a JobPosting describes; None without a title."""
    title = _text(posting.get("title")) or _text(posting.get("name"))
    if not title:
        return None
    description = _description(posting)
    location = _places(posting.get("jobLocation")) or _places(posting.get("applicantLocationRequirements"))
    telecommutes = "TELECOMMUTE" in json.dumps(posting.get("jobLocationType", "")).upper()
    salary = posting.get("baseSalary") or posting.get("estimatedSalary")
    low, high, currency = _salary(salary[0] if isinstance(salary, list) and salary else salary)
    link = absolute(page_url, text_at(posting, "url") or text_at(posting, "url", "@id"))
    listing = Listing(
        url=link or page_url,
        title=title,
        company=_text(posting.get("hiringOrganization")),
        location=location,
        remote=True if telecommutes else is_remote(location),
        posted=day_of(posting.get("datePosted"), today),
        description=description,
        requirements=requirements_in(description),
        salary_min=low,
        salary_max=high,
        currency=currency,
        department=_text(posting.get("occupationalCategory")) or _text(posting.get("industry")),
        external_id=text_at(posting, "identifier", "value") or text_at(posting, "identifier"),
        apply_url=link,
        valid_through=day_of(posting.get("validThrough"), today),
    )
    return storable(listing)


def links_in(source: str, url: str) -> list[str]:
    """The addresses in the ItemLists of a page: boards that describe each job on a page of its own have these."""
    links: dict[str, None] = {}
    for block in blocks_in(parsed_html(source)):
        for item in _of_type(block, "ListItem"):
            named = text_at(item, "url") or text_at(item, "item", "url") or text_at(item, "item")
            if link := absolute(url, named):
                links[link] = None
    return list(links)


def _of_type(block: Any, wanted: str) -> Iterator[dict[str, Any]]:
    """Every object of a type, wherever it stands; without recursion."""
    stack, seen = [block], 0
    while stack and seen < MOST_VALUES:
        value = stack.pop()
        seen += 1
        if isinstance(value, dict):
            kind = value.get("@type")
            names = kind if isinstance(kind, list) else [kind]
            if any(isinstance(name, str) and re.split(r"[/:#]", name)[-1] == wanted for name in names):
                yield value
            stack.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            stack.extend(reversed(value))


def _text(value: Any) -> str | None:
    """The text of a value that may be a text, a thing with a name, or a list of these."""
    if isinstance(value, list):
        return joined(*(_text(one) for one in value[:10] if not isinstance(one, list)))
    if isinstance(value, dict):
        value = value.get("name") or value.get("value") or value.get("description")
    return one_line(html.unescape(value)) if isinstance(value, str) else None


def _description(posting: dict[str, Any]) -> str | None:
    parts: list[str] = []
    for name in _PARTS:
        value = posting.get(name)
        if isinstance(value, list):
            value = "".join(f"<li>{one}</li>" for one in value if isinstance(one, str))
        text = unescaped_text(value) if isinstance(value, str) else _text(value)
        if text and not any(text in part for part in parts):
            title = _TITLES.get(name)
            parts.append(f"{title}\n{text}" if title else text)
    return "\n\n".join(parts) or None


def _places(value: Any) -> str | None:
    if isinstance(value, list):
        return joined(*(_places(one) for one in value[:20] if not isinstance(one, list)), by="; ")
    if isinstance(value, str):
        return one_line(html.unescape(value))
    address = at(value, "address")
    if isinstance(address, list):
        address = at(address, 0)
    if isinstance(address, dict):
        found = joined(*(_text(address.get(name)) for name in ("addressLocality", "addressRegion", "addressCountry")))
        if found:
            return found
    return _text(address) or _text(value)


def _salary(value: Any) -> tuple[float | None, float | None, str | None]:
    currency = text_at(value, "currency")
    amount = at(value, "value")
    if isinstance(amount, list):
        amount = at(amount, 0)
    unit = text_at(amount, "unitText") or text_at(value, "unitText")
    if isinstance(amount, dict):
        low, high = amount.get("minValue") or amount.get("value"), amount.get("maxValue") or amount.get("value")
        return yearly(low, unit), yearly(high, unit), currency or text_at(amount, "currency")
    if amount is None and isinstance(value, dict):
        return yearly(value.get("minValue"), unit), yearly(value.get("maxValue"), unit), currency
    return yearly(amount, unit), yearly(amount, unit), currency
