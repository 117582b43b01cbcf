"""Values as a person at a terminal reads them: times, ages, and texts of others made harmless."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any


def one_line(text: str) -> str:
    """A text in one line: white space runs together, and what a terminal would obey is shown instead."""
    return harmless(" ".join(text.split()))


def harmless(text: str) -> str:
    """A text in which nothing is left that a terminal would obey: such signs are shown instead."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def shortened(text: str, most: int) -> str:
    """A text in one line, cut to a length."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


def as_json_text(value: Any) -> str:
    """A plain value in one line of JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def age(span: timedelta) -> str:
    """How long something is: "0.4s", "12s", "5m", "1h30m", "3d2h"."""
    seconds = max(0.0, span.total_seconds())
    if seconds < 10:
        return f"{seconds:.1f}s"
    rest = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append((count, unit))
    return "".join(f"{count}{unit}" for count, unit in parts[:2] if count)


def time_of(at: datetime, now: datetime) -> str:
    """A time on this machine's clock: of today without its date."""
    local, today = at.astimezone(), now.astimezone()
    if local.date() == today.date():
        return f"{local:%H:%M:%S}"
    return f"{local:%Y-%m-%d %H:%M}"
