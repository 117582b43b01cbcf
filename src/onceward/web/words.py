"""How the pages write numbers, times, money and keys: as the command line does, so that both can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from shlex import quote
from typing import Any, NamedTuple

from onceward.harmless import one_line
from onceward.model.decide import wait_text
from onceward.model.status import Status

KEY_SHOWN = 64
"""How many characters of a key a row has room for; a longer one is cut in its middle."""
UNKNOWN = "–"


def number(value: Any) -> str:
    """Write a count with commas: 1,284; nothing known is a dash."""
    return UNKNOWN if value is None else f"{value:,}"


def span(ms: float | None) -> str:
    """Write a length of time: 173ms, 4.2s, 1m20s, 7h01m, 3d; a clock that is off shows 0ms."""
    if ms is None:
        return UNKNOWN
    ms = max(ms, 0)
    if ms < 1_000:
        return f"{ms:.0f}ms"
    if ms < 10_000:
        return f"{ms / 1_000:.1f}s"
    seconds = int(ms / 1_000)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3_600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 48 * 3_600:
        return f"{seconds // 3_600}h{seconds % 3_600 // 60:02}m"
    return f"{seconds // 86_400}d"


def since(at: datetime | None, now_ms: int) -> str:
    """Write how long ago something was: 2m."""
    return UNKNOWN if at is None else span(now_ms - at.timestamp() * 1_000)


def until(at: datetime | None, now_ms: int) -> str:
    """Write how long something is still to come: 2m."""
    return UNKNOWN if at is None else span(at.timestamp() * 1_000 - now_ms)


def exact(at: datetime | None) -> str:
    """Write a moment as a person reads it in a title: 2026-11-17 16:58:20.125 UTC."""
    return UNKNOWN if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1_000:03} UTC"


def daytime(at: datetime | None) -> str:
    """Write the time of day of a moment, to the millisecond: 16:58:20.125."""
    return UNKNOWN if at is None else f"{at.astimezone(UTC):%H:%M:%S}.{at.microsecond // 1_000:03}"


def minute(at: datetime) -> str:
    """Write the time of day of a moment, to the minute: 16:58."""
    return f"{at.astimezone(UTC):%H:%M}"


def clock(ms: int) -> str:
    """Write a moment in milliseconds, to the second: 2026-11-17 16:58:20."""
    return f"{datetime.fromtimestamp(ms / 1_000, UTC):%Y-%m-%d %H:%M:%S}"


def iso(at: datetime) -> str:
    """Write a moment for `<time datetime>`."""
    return at.astimezone(UTC).isoformat()


def money(amount: Decimal | float | None, places: int = 4) -> str:
    """Write money without its currency: four decimals for what was spent, two for limits."""
    return UNKNOWN if amount is None else f"{amount:,.{places}f}"


def pace(count: float) -> str:
    """Write how many a minute: 1,168, 3.1, 0."""
    return f"{count:,.0f}" if count >= 20 or count == 0 else f"{count:.1f}"


def share(part: float | None, of: float | None = 1) -> str:
    """Write a part of a whole as 42.4%; of nothing, a dash."""
    return UNKNOWN if part is None or not of else f"{100 * part / of:.1f}%"


def size(count: int | None) -> str:
    """Write a number of bytes: 512 B, 1.4 kB, 3.0 MB."""
    if count is None:
        return UNKNOWN
    if count < 1_000:
        return f"{count} B"
    for unit, factor in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if count < 1_000 * factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count / 1e12:.1f} TB"


class KeyParts(NamedTuple):
    """A key as a row shows it: its head may give way, its tail stays."""

    head: str
    tail: str


def key_parts(key: str, most: int = KEY_SHOWN) -> KeyParts:
    """Cut a key in its middle, for its end tells as much as its beginning; `https://` is left out."""
    text = key.removeprefix("https://")
    if len(text) <= 24:
        return KeyParts(text, "")
    tail = min(16, len(text) // 2)
    return KeyParts(text[: most - tail - 1] + "…" if len(text) > most else text[:-tail], text[-tail:])


def short(text: str, most: int = 1_000) -> str:
    """Cut a text for a title: no person reads five million letters."""
    return text if len(text) <= most else f"{text[:most]}…"


def spark_line(values: Sequence[float], width: float = 120, height: float = 30) -> str:
    """Draw values over time as a path, the largest at the top; an SVG has it in an attribute."""
    if not values:
        return ""
    largest, step = max(values) or 1, width / max(len(values) - 1, 1)
    points = (f"{at * step:.1f} {height - 2 - (height - 6) * value / largest:.1f}" for at, value in enumerate(values))
    return "M" + " L".join(points)


def spark_area(values: Sequence[float], width: float = 120, height: float = 30) -> str:
    """Draw the area below such a line."""
    line = spark_line(values, width, height)
    return f"{line} L{width:g} {height:g} L0 {height:g}Z" if line else ""


def glyph(status: Status | str) -> str:
    """Return the name of the mark of a status: the word of the status itself."""
    return status.word if isinstance(status, Status) else status


def waits(waiting_for: str | None) -> str:
    """Write what a parked task waits for."""
    return "" if waiting_for is None else f"waits for {wait_text(waiting_for)}"


FILTERS = {
    "waits": waits,
    "number": number,
    "pace": pace,
    "one_line": one_line,
    "quoted": quote,
    "span": span,
    "clock": clock,
    "daytime": daytime,
    "minute": minute,
    "exact": exact,
    "iso": iso,
    "money": money,
    "share": share,
    "short": short,
    "bytes": size,
    "key_parts": key_parts,
    "glyph": glyph,
    "spark_area": spark_area,
    "spark_line": spark_line,
}
