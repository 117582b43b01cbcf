"""What is known well enough: companies, sources and listings, by the numbers in force."""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum
from typing import Any, Protocol

from onceward_apps.jobfinder.listing import Listing
from onceward_apps.jobfinder.settings import Numbers


class Known(IntEnum):
    """How well something is known."""

    TOO_LITTLE = 0
    MINIMAL = 1
    GOOD = 2


class Trust(IntEnum):
    """How far a source can be trusted."""

    INVALID = 0
    VALID = 1
    COMPLETE = 2


class CompanyTexts(Protocol):
    """What of a company is looked at."""

    @property
    def name(self) -> str | None: ...
    @property
    def about(self) -> str | None: ...
    @property
    def culture(self) -> str | None: ...


def company(website: str, texts: CompanyTexts, numbers: Numbers) -> Known:
    """Minimal: name, website, and something about it or its culture. Good: a good deal of both."""
    if not texts.name or not website:
        return Known.TOO_LITTLE
    about, culture = len(texts.about or ""), len(texts.culture or "")
    if about > numbers.company_about_good and culture > numbers.company_culture_good:
        return Known.GOOD
    if about > numbers.company_about_minimal or culture > numbers.company_culture_minimal:
        return Known.MINIMAL
    return Known.TOO_LITTLE


def is_fresh(known: Known, looked_at: datetime | None, now: datetime, numbers: Numbers) -> bool:
    """Whether a company need not be looked at again: it is known well, and not for too long."""
    return known is Known.GOOD and looked_at is not None and now - looked_at < numbers.company_fresh_for


def source(
    *, url: str, kind: str, token: str, base_url: str, selectors: Any, is_tested: bool, confidence: str
) -> Trust:
    """Valid: an address, a kind, and something to begin with. Complete: tested too, and of high confidence."""
    if not url or not kind or not (token or base_url or selectors):
        return Trust.INVALID
    return Trust.COMPLETE if is_tested and confidence == "high" else Trust.VALID


def listing(found: Listing, numbers: Numbers) -> Known:
    """Minimal: address, title, company and a description. Good: place, date and requirements too."""
    described = len(found.description or "") > numbers.listing_description_minimal
    if not (found.url and found.title and found.company and described):
        return Known.TOO_LITTLE
    return Known.GOOD if found.location and found.posted and found.requirements else Known.MINIMAL
