"""The day on which something was posted, however a board writes it."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime

_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")
_AGO = re.compile(r"(?<!\d)(\d{1,9})\s{0,3}\+?\s{0,3}(minute|hour|day|week|month|year)s?\b", re.IGNORECASE)
_DAYS = {"minute": 0, "hour": 0, "day": 1, "week": 7, "month": 30, "year": 365}
_EARLIEST, _LATEST = date(1990, 1, 1), date(2200, 1, 1)
_MILLISECONDS_FROM = 100_000_000_000


def day_of(value: object, today: date) -> date | None:
    """The day that a value means: ISO 8601, RFC 822, seconds or milliseconds since 1970, or words like "3 days ago".

    "30+ days ago" is taken for 30: the latest it can be. None for what cannot be read, or is no sensible day.
    """
    try:
        found = _read(value, today)
    except (ValueError, OverflowError, OSError):
        return None
    return found if found is not None and _EARLIEST <= found < _LATEST else None


def _read(value: object, today: date) -> date | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        seconds = value / 1_000 if abs(value) >= _MILLISECONDS_FROM else value
        return datetime.fromtimestamp(seconds, UTC).date()
    if not isinstance(value, str):
        return None
    text = value.strip()
    if _ISO.match(text):
        return date.fromisoformat(text[:10])
    lowered = text.lower()
    if "today" in lowered or "just posted" in lowered:
        return today
    if "yesterday" in lowered:
        return today - timedelta(days=1)
    ago = _AGO.search(lowered)
    if ago and ("ago" in lowered or "posted" in lowered):
        return today - timedelta(days=int(ago[1][:6]) * _DAYS[ago[2].lower()])
    return parsedate_to_datetime(text).date()
