"""What a board is: an address, and a reader that turns one page into listings and the next request.

A reader fetches nothing. It says what to ask first, and with each answer what was found and what to ask next; so a
stage may fetch through its source, checkpoint between two pages, and go on elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, Protocol
from urllib.parse import urlsplit, urlunsplit

import msgspec

from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.pages import Page, Request

Confidence = Literal["high", "medium", "low"]

Hosts = Mapping[str, str]
"""Where to send what is meant for a host: `{"api.lever.co": "http://127.0.0.1:8000"}`. `*.x.y` stands for all below."""

NO_HOSTS: Hosts = MappingProxyType({})


class BoardKind(StrEnum):
    """The kinds of boards that can be read."""

    GREENHOUSE = "greenhouse"
    LEVER = "lever"
    WORKDAY = "workday"
    SMARTRECRUITERS = "smartrecruiters"
    ASHBY = "ashby"
    WORKABLE = "workable"
    JOBVITE = "jobvite"
    FEED = "feed"
    JSONLD = "jsonld"
    GENERIC = "generic"


CONFIDENCE: Mapping[BoardKind, Confidence] = MappingProxyType({
    BoardKind.GREENHOUSE: "high",
    BoardKind.WORKDAY: "high",
    BoardKind.FEED: "high",
    BoardKind.LEVER: "medium",
    BoardKind.JOBVITE: "medium",
    BoardKind.SMARTRECRUITERS: "medium",
    BoardKind.ASHBY: "medium",
    BoardKind.WORKABLE: "medium",
    BoardKind.JSONLD: "medium",
    BoardKind.GENERIC: "low",
})  # fmt: skip
"""How far an address of each kind is trusted before it was tested."""


class BoardAddress(msgspec.Struct, frozen=True):
    """A board: its kind, whose it is, and where a person would look at it.

    The token of a Workday board is `tenant/instance/site` (`acme/wd5/Careers`), of a feed, JSON-LD or generic page its
    address without the scheme.
    """

    kind: BoardKind
    token: str
    url: str
    confidence: Confidence


class SoFar(msgspec.Struct, frozen=True, kw_only=True):
    """What the pages before gave. It can be stored as JSON."""

    pages: int = 0
    seen: frozenset[str] = frozenset()
    """Ids of the listings that were read, for boards that repeat themselves."""
    items: int = 0
    """How many items the board has answered, those too that are known or can't be read."""
    total_said: int | None = None
    company_name: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_short(self) -> bool:
        """Whether the board has answered fewer items than it says there are."""
        return self.total_said is not None and self.items < self.total_said


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """What one page gave: listings that are new, what to ask next, and what would complete the listings."""

    listings: tuple[Listing, ...] = ()
    next: Request | None = None
    details: tuple[Request, ...] = ()
    so_far: SoFar = SoFar()
    """With this page counted in: hand it to the next reading."""


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """All that a reader may know beside the page: which board, what was asked, what came before, and the day."""

    address: BoardAddress
    request: Request
    today: date
    so_far: SoFar = SoFar()
    hosts: Hosts = NO_HOSTS


class Board(Protocol):
    """A reader of one kind of board."""

    def first(self, address: BoardAddress, hosts: Hosts = NO_HOSTS) -> Request:
        """What to ask first."""

    def read(self, page: Page, reading: Reading) -> Step:
        """What a page of the list gives. Raises Drifted."""

    def complete(self, listing: Listing, page: Page, reading: Reading) -> Listing:
        """The listing with what the page about it adds. Raises Drifted."""


def placed(url: str, hosts: Hosts) -> str:
    """The address to ask in its stead, if one is set for its host."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    base = (
        hosts.get(host) or hosts.get(f"*.{host.partition('.')[2]}") or hosts.get(f"*.{'.'.join(host.split('.')[-2:])}")
    )
    if base is None:
        return url
    stead = urlsplit(base)
    return urlunsplit((stead.scheme, stead.netloc, stead.path.rstrip("/") + parts.path, parts.query, parts.fragment))
