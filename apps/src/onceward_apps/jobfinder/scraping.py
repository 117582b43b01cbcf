"""Scraper instructions: how to read the listings of a page that speaks no known format.

They are data, stored as JSON: found by heuristics, by a model or by a person, checked when they are read, tested on a
page before they are used, and never code. A pattern cannot run away: no repeated groups, no back-references.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Literal
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from selectolax.lexbor import LexborHTMLParser, LexborNode

from onceward_apps.jobfinder.boards.places import is_remote
from onceward_apps.jobfinder.dates import day_of
from onceward_apps.jobfinder.html_parsing import parsed_html
from onceward_apps.jobfinder.links import absolute
from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.plain_text import node_text, one_line
from onceward_apps.jobfinder.requirements import requirements_in

FieldName = Literal["title", "url", "company", "location", "posted", "description", "department", "external_id"]

MOST_ITEMS = 2_000
_LONGEST_MATCHED = 300
_LONGEST_SELECTOR = 300
_RUNAWAY = re.compile(r"\)[*+{]|\\[1-9]|\(\?P=|[*+}][*+]")
_MOST_REPEATS = 2


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where one value of a listing stands, seen from its item."""

    selector: str | None = None
    """None is the item itself."""
    attribute: str | None = None
    """None is the text."""
    pattern: str | None = None
    """What of the value counts: its first group, or all of the match."""


class NextLink(msgspec.Struct, frozen=True, tag="link", forbid_unknown_fields=True):
    """The next page is behind a link."""

    selector: str


class PageNumber(msgspec.Struct, frozen=True, tag="number", forbid_unknown_fields=True):
    """The next page has a higher number in a parameter of its address."""

    parameter: str
    first: int = 1
    step: int = 1


class Instructions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to read the listings of a page."""

    version: Literal[1] = 1
    items: str
    """A CSS selector: every element it finds is one listing."""
    fields: dict[FieldName, Field]
    pagination: NextLink | PageNumber | None = None
    company: str | None = None
    """Whose listings these are, where the page does not say."""


class BadInstructions(ValueError):
    """Instructions that cannot be followed, and why."""


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """What came of instructions on a page."""

    listings: tuple[Listing, ...]
    items: int
    problems: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the instructions may be used."""
        return not self.problems


def loaded(source: str | bytes) -> Instructions:
    """Instructions from JSON, checked. Raises BadInstructions."""
    try:
        instructions = msgspec.json.decode(source, type=Instructions)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadInstructions(f"not instructions for a scraper: {error}") from error
    return checked(instructions)


def dumped(instructions: Instructions) -> str:
    """Instructions as JSON."""
    return msgspec.json.encode(instructions).decode()


def checked(instructions: Instructions) -> Instructions:
    """The instructions, if they can be followed. Raises BadInstructions."""
    for name in ("title", "url"):
        if name not in instructions.fields:
            raise BadInstructions(f"there is no field {name!r}: a listing needs a title and a url")
    empty = parsed_html("<p></p>")
    _check_selector(empty, instructions.items, "items")
    for name, field in instructions.fields.items():
        if field.selector is not None:
            _check_selector(empty, field.selector, name)
        if field.pattern is not None:
            _check_pattern(field.pattern, name)
    if isinstance(instructions.pagination, NextLink):
        _check_selector(empty, instructions.pagination.selector, "pagination")
    return instructions


def extracted(instructions: Instructions, source: str, base_url: str, today: date) -> tuple[list[Listing], int]:
    """The listings of a page by instructions, each address once, and how many items there were."""
    items = parsed_html(source).css(instructions.items)[:MOST_ITEMS]
    listings: dict[str, Listing] = {}
    for item in items:
        listing = _listing(instructions, item, base_url, today)
        if listing is not None:
            listings.setdefault(listing.url, listing)
    return list(listings.values()), len(items)


def next_page(instructions: Instructions, source: str, url: str) -> str | None:
    """The address of the page after this one, as the instructions see it."""
    pagination = instructions.pagination
    if isinstance(pagination, NextLink):
        node = parsed_html(source).css_first(pagination.selector)
        return None if node is None else absolute(url, node.attributes.get("href"))
    if pagination is None:
        return None
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    said = query.get(pagination.parameter, "")
    number = int(said) if said.isdecimal() and len(said) < 9 else pagination.first
    query[pagination.parameter] = str(number + pagination.step)
    return urlunsplit(parts._replace(query=urlencode(query)))


def tested(instructions: Instructions, source: str, base_url: str, today: date) -> Tested:
    """What instructions give on a page, and what is wrong with it."""
    listings, items = extracted(checked(instructions), source, base_url, today)
    problems = []
    if not items:
        problems.append(f"{instructions.items!r} finds nothing")
    elif len(listings) * 2 < items:
        problems.append(f"only {len(listings)} of {items} items have a title and a link of their own")
    if len(listings) > 2 and len({listing.title for listing in listings}) * 2 < len(listings):
        problems.append("most titles are the same")
    return Tested(listings=tuple(listings), items=items, problems=tuple(problems))


def _listing(instructions: Instructions, item: LexborNode, base_url: str, today: date) -> Listing | None:
    values = {name: _value(field, item) for name, field in instructions.fields.items()}
    title, url = one_line(values.get("title")), absolute(base_url, values.get("url"))
    if not title or not url:
        return None
    location, description = one_line(values.get("location")), values.get("description")
    return Listing(
        url=url,
        title=title,
        company=one_line(values.get("company")) or instructions.company,
        location=location,
        remote=is_remote(location),
        posted=day_of(values.get("posted"), today),
        description=description,
        requirements=requirements_in(description),
        department=one_line(values.get("department")),
        external_id=one_line(values.get("external_id")),
    )


def _value(field: Field, item: LexborNode) -> str | None:
    node = item if field.selector is None else item.css_first(field.selector)
    if node is None:
        return None
    value = node_text(node) if field.attribute is None else node.attributes.get(field.attribute)
    if value is None or field.pattern is None:
        return value or None
    found = re.search(field.pattern, value[:_LONGEST_MATCHED])
    if found is None:
        return None
    return (found[1] if found.re.groups else found[0]) or None


def _check_selector(document: LexborHTMLParser, selector: str, where: str) -> None:
    if not selector.strip() or len(selector) > _LONGEST_SELECTOR:
        raise BadInstructions(f"{where}: a selector has 1 to {_LONGEST_SELECTOR} characters")
    try:
        document.css(selector)
    except Exception as error:  # the parser has errors of its own for each kind of mistake
        raise BadInstructions(f"{where}: {selector!r} is no CSS selector") from error


def _check_pattern(pattern: str, where: str) -> None:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise BadInstructions(f"{where}: {pattern!r} is no pattern: {error}") from error
    repeats = len(re.findall(r"[*+]|\{\d*,\d*\}", pattern))
    if _RUNAWAY.search(pattern) or repeats > _MOST_REPEATS or len(pattern) > _LONGEST_SELECTOR:
        raise BadInstructions(
            f"{where}: {pattern!r} repeats too much: no repeated groups, at most {_MOST_REPEATS} repeats"
        )
