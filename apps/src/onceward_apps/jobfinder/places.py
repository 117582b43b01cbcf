"""Places and ways of working, as listings and companies write them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

REMOTE = re.compile(r"\b(?:remote|anywhere|work(?:ing)? from home|telecommut\w+|distributed)\b", re.IGNORECASE)
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
