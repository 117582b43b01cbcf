"""Values as a person at a terminal reads them: times, ages, and texts cut to a length."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from onceward.harmless import one_line


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
