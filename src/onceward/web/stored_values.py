"""Stored values as a page shows them: JSON over several lines, its names set apart, cut where it is long."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

MOST_SHOWN = 8_000
"""How many characters of a value a page shows; the whole has an address of its own."""
LARGEST_READ = 1 << 20
"""Above so many bytes a value is not laid out anew, but shown as it is."""
_NAME = re.compile(r'^(\s*)("(?:[^"\\]|\\.)*")(: )(.*)$', re.S)


class Line(NamedTuple):
    """A line of a value: its indent, the name if it begins with one, and the rest."""

    indent: str
    name: str
    rest: str


class Shown(NamedTuple):
    """A value, ready to be shown."""

    lines: tuple[Line, ...]
    bytes: int
    is_cut: bool


def shown_value(data: bytes) -> Shown:
    """Lay a stored value out for people; what is no JSON is shown as the text that it is."""
    text = pretty(data)
    cut = text[:MOST_SHOWN]
    lines = []
    for line in cut.split("\n"):
        found = _NAME.match(line)
        lines.append(Line(found[1], found[2], found[3] + found[4]) if found else Line("", "", line))
    return Shown(tuple(lines), len(data), len(text) > MOST_SHOWN)


def pretty(data: bytes) -> str:
    """Return a stored value as text over several lines."""
    text = data.decode("utf-8", "replace")
    if len(data) > LARGEST_READ:
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text
