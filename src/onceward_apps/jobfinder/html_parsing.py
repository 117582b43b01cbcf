"""HTML, parsed in time that grows with its length: what nests deeper than any page is cut off first.

The rules of HTML make a parser look back through all open elements, so a page of nothing but opening tags takes time
by the square of its length.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborHTMLParser

DEEPEST = 1_000
_SHORT = 4_000
"""Whatever a text of this length contains, it is parsed at once."""
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_NEVER_OPEN = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    "p", "li", "dt", "dd", "option", "tr", "td", "th",
})  # fmt: skip
"""Elements that have no end, or whose end need not be written: they are not counted."""


def parsed_html(source: str) -> LexborHTMLParser:
    """The document of a source, whatever it is."""
    return LexborHTMLParser(source if len(source) <= _SHORT else _shallow(source))


def _shallow(source: str) -> str:
    depth = 0
    for tag in _TAG.finditer(source):
        if tag[2].lower() in _NEVER_OPEN:
            continue
        if tag[1]:
            depth = max(0, depth - 1)
        else:
            depth += 1
            if depth > DEEPEST:
                return source[: tag.start()]
    return source
