"""Places and ways of working, as listings and companies write them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal

from onceward_apps.jobfinder.regions import countries_of, holds, lies_in

_MUST_LIVE = re.compile(
    r"\b(?:must|need to|required to|have to|should)\s+(?:currently\s+)?(?:be\s+(?:based|located|residing|resident)"
    r"|reside|live|work)\s+(?:with)?in\s+(?:the\s+)?"
    r"([A-Z][\w. ]{1,40})"
)
_LONGEST_TEXT = 30_000
REMOTE = re.compile(
    r"\b(?:remote|anywhere|work(?:ing)? from home|telecommut\w+|teletrabajo|remoto|remota|home\s?office|distributed)\b",
    re.IGNORECASE,
)
NOT_REMOTE = re.compile(
    r"\b(?:not\s+(?:a\s+)?remote|no\s+remote|on[\s-]?site\s+only|in[\s-]office\s+only|must\s+be\s+on[\s-]?site)\b",
    re.IGNORECASE,
)
HYBRID = re.compile(r"\bhybrid\b", re.IGNORECASE)
ON_SITE = re.compile(r"\b(?:on[\s-]?site|in[\s-]office|in[\s-]person)\b", re.IGNORECASE)
REMOTE_FIRST = re.compile(
    r"\b(?:remote[\s-]first|fully[\s-]remote|100\s?%\s?remote|all[\s-]remote|remote[\s-]only|(?:fully\s+)?distributed"
    r"\s+(?:team|company)|work\s+from\s+anywhere)\b",
    re.IGNORECASE,
)

Way = Literal["remote", "hybrid", "on site"]


def names_place(text: str | None, place: str) -> bool:
    """Whether a text names a place, as a whole word."""
    return bool(text and place) and _whole_word(place).search(text or "") is not None


def has_office_in(text: str, place: str) -> bool:
    """Whether a text says that there is an office in a place: beside a word for one, in an address, or in a list of
    places. A place that is only mentioned, as that of a customer, is none."""
    if not place:
        return False
    for found in islice(_whole_word(place).finditer(text), _MOST_MENTIONS):
        start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.end())
        line = text[start : end if end >= 0 else len(text)].strip()
        near = text[max(start, found.start() - _NEAR) : found.end() + _NEAR].partition("\n")[0]
        if _OFFICE.search(near) or _ZIP.match(text[found.end() : found.end() + _NEAR]) or _is_list_of_places(line):
            return True
    return False


def _is_list_of_places(line: str) -> bool:
    """Whether a line is names alone, as a list of places has them: `Portland, OR`."""
    words = re.findall(r"[^\W\d_]+", line)
    return len(words) <= _MOST_NAMES and all(word[0].isupper() or word in ("and", "or", "of") for word in words)


_NEAR, _MOST_MENTIONS, _MOST_NAMES = 60, 100, 8
_OFFICE = re.compile(
    r"\b(?:offices?|headquarter\w*|hq|hubs?|studios?|campus|address|locations?|located|based (?:in|out of)|visit us"
    r"|find us|contact us|where we work|oficinas?|sede|standorte?|bureaux?)\b",
    re.IGNORECASE,
)
_ZIP = re.compile(r",?\s+(?:[A-Z]{2}|[A-Z][a-z]+),?\s+\d{5}\b")


def is_in(location: str | None, wanted: Sequence[str]) -> str | None:
    """The first of the places that are wanted in which a location lies; None if it lies in none of them."""
    return next((place for place in wanted if location and lies_in(location, place)), None)


def bound_to(location: str | None, description: str | None) -> str | None:
    """Where one has to live for work that is remote: what the location names, or what the text says one must."""
    if location and countries_of(location):
        return location
    said = _MUST_LIVE.search((description or "")[:_LONGEST_TEXT])
    return said[1].strip() if said and countries_of(said[1].strip()) else None


def is_open_to(bound: str | None, wanted: Sequence[str]) -> bool:
    """Whether remote work that is bound to a place can be done from the places that are wanted, as far as one knows."""
    theirs = countries_of(bound) if bound else frozenset()
    mine = frozenset(country for place in wanted for country in countries_of(place))
    return not theirs or not mine or any(holds(one, other) for one in theirs for other in mine)


def is_remote_first(text: str) -> bool:
    """Whether a company says that it works remotely first."""
    return REMOTE_FIRST.search(text) is not None


def way_of(remote: bool | None, location: str | None, description: str | None) -> Way | None:
    """How one works there; None if nothing says so. What the board states counts before the text."""
    where = location or ""
    text = description or ""
    if NOT_REMOTE.search(where) or NOT_REMOTE.search(text):
        return "on site"
    if HYBRID.search(where):
        return "hybrid"
    if remote is True or REMOTE.search(where):
        return "remote"
    if remote is False or ON_SITE.search(where):
        return "hybrid" if HYBRID.search(text) else "on site"
    if is_remote_first(text):
        return "remote"
    if HYBRID.search(text):
        return "hybrid"
    return "on site" if ON_SITE.search(text) else None


@lru_cache(maxsize=1_000)
def _whole_word(place: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(place)}(?!\w)", re.IGNORECASE)
