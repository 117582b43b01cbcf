"""Pay, as pay for a year."""

from __future__ import annotations

import math
import re

_PER_YEAR = (("hour", 2_080), ("day", 260), ("dai", 260), ("week", 52), ("month", 12), ("year", 1), ("annual", 1))


def yearly(amount: object, interval: str | None) -> float | None:
    """An amount for an interval ("1 YEAR", "per-hour-wage", …) as one for a year; None if either is unclear."""
    number = _number(amount)
    if number is None:
        return None
    said = (interval or "year").lower()
    for word, times in _PER_YEAR:
        if word in said:
            return number * times
    return None


def _number(amount: object) -> float | None:
    if isinstance(amount, str):
        try:
            amount = float(re.sub(r"[,\s]", "", amount))
        except ValueError:
            return None
    if isinstance(amount, bool) or not isinstance(amount, int | float):
        return None
    try:
        number = float(amount)
    except OverflowError:  # JSON may have a number of any length
        return None
    return number if math.isfinite(number) and number > 0 else None
