"""HTML, parsed in time and memory that grow with its length: a page is cut off where it nests deeper than any page.

The rules of HTML make a parser look back through all open elements, so a page of nothing but opening tags takes time
by the square of its length. And they have it open emphasis anew in every paragraph until it is closed: nine hundred
marks that are never closed, and a few thousand paragraphs, are millions of elements.
"""

from __future__ import annotations

import re
from collections import Counter

from selectolax.lexbor import LexborHTMLParser

DEEPEST = 1_000
_MOST_DOUBTFUL = 5_000
"""Elements without an end tag of their own: a parser may have closed them with the one around them, or not."""
_MOST_COPIES = 250_000
"""How many times emphasis that is open may be opened anew."""
_MOST_OPTIONS = 5_000
"""For each choice of a form the parser looks at all that came before it."""
_SHORT = 4_000
"""Whatever a text of this length contains, it is parsed at once."""
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_NEVER_OPEN = frozenset({
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr",
    "p", "li", "dt", "dd", "option", "tr", "td", "th",
})  # fmt: skip
"""Elements that have no end, or whose end need not be written: they are not counted."""

_EMPHASIS = frozenset({
    "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u",
})  # fmt: skip
"""What goes on in the next paragraph if its end did not come."""


def parsed_html(source: str) -> LexborHTMLParser:
    """The document of a source, whatever it is."""
    return LexborHTMLParser(source if len(source) <= _SHORT else _shallow(source))


def _shallow(source: str) -> str:
    inside: list[str] = []
    names: Counter[str] = Counter()
    emphasis: Counter[str] = Counter()
    doubtful = copies = options = 0
    for tag in _TAG.finditer(source):
        name = tag[2].lower()
        if tag[1]:
            if emphasis[name]:
                emphasis[name] -= 1
            if names[name]:  # the end of what is not open means nothing
                while (closed := inside.pop()) != name:
                    names[closed] -= 1
                    doubtful += 1
                names[name] -= 1
            continue
        if name not in _NEVER_OPEN:
            inside.append(name)
            names[name] += 1
        if name in _EMPHASIS:
            emphasis[name] = 1 if name == "a" else emphasis[name] + 1  # a link ends the one before it
        else:
            copies += emphasis.total()
        options += name == "option"
        if len(inside) > DEEPEST or doubtful > _MOST_DOUBTFUL or copies > _MOST_COPIES or options > _MOST_OPTIONS:
            return source[: tag.start()]
    return source
