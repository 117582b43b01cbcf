"""What is handed to feedparser: only what it can read in time.

It reads well-formed XML quickly. For anything else it guesses, in time that a large or hostile text makes minutes of,
and it expands entities: so large texts must be well-formed, none may nest without end, and entities stay small.
"""

from __future__ import annotations

import re
from xml.parsers import expat

from onceward_apps.jobfinder.errors import Drifted

DEEPEST = 200
GUESSED_BYTES = 256 * 1024
_LONGEST_ENTITY = 1_000
_START = 4_096
_DECLARATION = re.compile(r"^\s*<\?xml[^>]{0,500}\?>")
_ROOT = re.compile(r"<(?:\w{1,20}:)?(?:rss|feed|rdf|channel)\b", re.IGNORECASE)


def feed_source(text: str, where: str) -> bytes:
    """The text of a feed as UTF-8. Raises Drifted for what is no feed, or none that can be read in time."""
    if not _ROOT.search(text, 0, _START):
        raise Drifted(f"{where} is not a feed")
    source = _DECLARATION.sub("", text, count=1).encode("utf-8", "replace")
    if not _is_well_formed(source, where) and len(source) > GUESSED_BYTES:
        raise Drifted(f"{where} is not well-formed, and too large for guesses")
    return source


def _is_well_formed(source: bytes, where: str) -> bool:
    depth = 0

    def opened(_name: str, _attributes: object) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise Drifted(f"{where} nests more than {DEEPEST} elements")

    def closed(_name: str) -> None:
        nonlocal depth
        depth -= 1

    def declared(_name: str, _is_parameter: object, value: str | None, *_others: object) -> None:
        if value and ("&" in value or len(value) > _LONGEST_ENTITY):
            raise Drifted(f"{where} declares entities that grow")

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = opened, closed, declared
    try:
        parser.Parse(source, True)
    except expat.ExpatError:
        return False
    return True
