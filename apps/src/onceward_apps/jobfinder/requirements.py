"""What a listing asks for: the items of the lists that stand below a heading of that sense."""

from __future__ import annotations

import re

MOST = 40
_HEADING = re.compile(
    r"require(d|ment)|qualification|your (background|profile)|what you.{0,12}(need|bring|have)|you (have|bring|are)\b"
    r"|must.have|skills|experience|who you are|about you|we.{0,4}re looking for|what we.{0,12}look|nice to have"
    r"|preferred|bonus",
    re.IGNORECASE,
)
_LONGEST_HEADING = 80
_ITEM = re.compile(r"(?:[-*•·‣▪]|\d{1,2}[.)])\s+(.+)")


def requirements_in(text: str | None) -> tuple[str, ...]:
    """The requirements in a plain text, in order and each once."""
    found: dict[str, None] = {}
    wanted = False
    for line in (text or "").splitlines():
        item = _ITEM.match(line.strip())
        if item:
            if wanted:
                found[item[1].strip()] = None
        elif line.strip():
            wanted = len(line) <= _LONGEST_HEADING and bool(_HEADING.search(line))
    return tuple(found)[:MOST]
