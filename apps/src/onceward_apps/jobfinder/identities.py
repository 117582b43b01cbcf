"""What makes companies, sources and listings the same: one spelling of addresses, names and places for each."""

from __future__ import annotations

import hashlib
import re
from urllib.parse import urlsplit

from onceward.urls import canonical
from onceward_apps.jobfinder.boards.board import BoardKind

PAGES = frozenset({BoardKind.FEED, BoardKind.JSONLD, BoardKind.GENERIC})
"""Kinds of boards that stand on a company's own site: their tokens are addresses."""
_OF_A_SITE = frozenset({
    "about", "about-us", "company", "careers", "jobs", "home", "index.html", "index.htm", "index.php", "en", "en-us",
    "en-gb", "us", "contact",
})  # fmt: skip
"""Paths that are pages of a company's site, and not whose site it is."""
_LEGAL = re.compile(r"[,\s]+(?:inc|incorporated|llc|ltd|limited|gmbh|ag|corp|corporation|co|plc|sa|bv|pbc)\.?$")
_BETWEEN = re.compile(r"[^\w+#]+")
_LONGEST_NAME = 200
"""Characters of a company's name that are compared."""


def website_of(url: str) -> str:
    """The website of a company, in one spelling: `https`, no `www.`, no page of it. PayloadError if it is none."""
    parts = urlsplit(canonical(url if "://" in url else f"https://{url}"))
    host = parts.netloc.removeprefix("www.")
    path = parts.path.strip("/")
    first = path.partition("/")[0].lower()
    return f"https://{host}/" if first in _OF_A_SITE or not path else f"https://{host}/{path}"


def company_id(website: str) -> str:
    """What a company is called in the tables: `acme.com`."""
    return website_of(website).removeprefix("https://").rstrip("/")


def source_id(kind: str, token: str) -> str:
    """What a source is called in the tables, and the key of its readings: `greenhouse:acme`.

    Boards of many companies write tokens in any case; the address of a page is what it is.
    """
    known = BoardKind(kind)
    return f"{known.value}:{token if known in PAGES else token.lower()}"


def listing_key(url: str) -> str:
    """The address of a listing in one spelling: the key of its task."""
    return canonical(url)


def listing_id(url: str) -> str:
    """What a listing is called in the tables: 16 hex digits that follow from its address."""
    return hashlib.sha256(listing_key(url).encode()).hexdigest()[:16]


def folded_name(name: str) -> str:
    """The name of a company for comparisons: without case, signs and `Inc.`"""
    plain = " ".join(name[:_LONGEST_NAME].casefold().split())
    while (shorter := _LEGAL.sub("", plain)) != plain and shorter:
        plain = shorter
    return _BETWEEN.sub(" ", plain).strip() or plain


def twin_of(company: str | None, title: str, location: str | None) -> str | None:
    """What the same position has in common on two sources: company, title and place. None without a company."""
    if not company:
        return None
    words = (folded_name(company), _plain(title), _plain(location or ""))
    return hashlib.sha256("\x00".join(words).encode()).hexdigest()[:16]


def _plain(text: str) -> str:
    return _BETWEEN.sub(" ", text.casefold()).strip()
