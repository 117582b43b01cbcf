"""Texts from outside that a terminal, a reader or the library that draws screens would obey."""

from __future__ import annotations

import re

OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
"""What no output may hold; a line end is not among it."""
HOSTILE = {
    "title": "a\x1b]0;OWNED\x07b",
    "clear": "a\x1b[2Jb",
    "link": "a\x1b]8;;https://evil.example\x1b\\b",
    "C1": "a\x9b31mb",
    "carriage return": "a\rb",
    "backspace": "a\x08\x7fb",
    "override": "a\u202eb",
    "isolate": "a\u2066b\u2069",
    "mark": "a\u200f\u061cb",
    "line": "a\u2028b",
    "tags": "a\U000e0041b",
    "markup": "[bold red]x[/nope][link=https://evil.example]",
}


def shown_as(text: str) -> str:
    """How a screen shows a text: signs that a terminal would obey are escapes."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
