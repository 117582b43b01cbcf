"""A page that was fetched, and the request for one."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Kind = Literal["html", "json", "feed", "text"]
"""What a body may be; each kind has its content types and its size limit."""

Method = Literal["GET", "POST"]

MOST_REDIRECTS = 5
"""How often one fetch is led elsewhere."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to fetch. It can be stored as JSON, so that a stage may stop between two pages."""

    url: str
    method: Method = "GET"
    json: dict[str, Any] | None = None
    accept: str | None = None
    kinds: tuple[Kind, ...] = ("json",)
    is_api: bool = False
    """A published interface for programs: robots.txt, which speaks to crawlers, is not asked."""
    bot_checks: tuple[int, ...] = ()
    """Statuses by which this server doubts that we are a person: they say nothing about the page."""
    about: str | None = None
    """The `external_id` of the listing that this request completes."""
    state: dict[str, Any] = {}
    """What the board's reader has to remember until the answer is there."""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """What came back; `text` is the body decoded."""

    url: str
    final_url: str
    status: int
    content_type: str
    headers: dict[str, str]
    """Names in lower case; of a header that came twice, the values joined by a comma."""
    body: bytes
    text: str
    redirects: tuple[str, ...] = ()
    """Every address that was asked before `final_url`, in order."""
