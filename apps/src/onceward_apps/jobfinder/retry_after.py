"""When a server wants to be asked again."""

from __future__ import annotations

import math
from datetime import UTC
from email.utils import parsedate_to_datetime

LONGEST_S = 7 * 24 * 3_600.0
"""A longer wait is a mistake of the server, or a way to switch us off."""


def retry_after_s(value: str | None, now: float) -> float | None:
    """The seconds that a Retry-After asks for, be it a number or a date; None if it says nothing readable."""
    if value is None:
        return None
    value = value.strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        seconds = (until if until.tzinfo else until.replace(tzinfo=UTC)).timestamp() - now
    return None if math.isnan(seconds) else min(max(0.0, seconds), LONGEST_S)
