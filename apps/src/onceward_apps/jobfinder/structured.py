"""Structured data in pages: schema.org objects in blocks of JSON-LD, found whatever else the page says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from onceward_apps.jobfinder.html_parsing import parsed_html
from onceward_apps.jobfinder.listing import held

MOST_NODES = 20_000


def objects(html: str, *types: str) -> Iterator[dict[str, Any]]:
    """All objects of these types. A block that cannot be read is passed over."""
    for script in parsed_html(html).css('script[type="application/ld+json"]'):
        try:
            block = json.loads(script.text(), strict=False)
        except (ValueError, RecursionError):
            continue
        yield from _of_types(block, frozenset(types))


def text_of(value: Any, deepest: int = 20) -> str | None:
    """A text in whatever shape: a string, a number, an object with a name or a value, the first of a list."""
    if deepest == 0:
        return None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return held(" ".join(str(value).split())) or None
    if isinstance(value, list):
        return next((found for one in value if (found := text_of(one, deepest - 1))), None)
    if isinstance(value, dict):
        told = (value.get(name) for name in ("name", "value", "@value"))
        return next((found for one in told if (found := text_of(one, deepest - 1))), None)
    return None


def _of_types(block: Any, types: frozenset[str]) -> Iterator[dict[str, Any]]:
    waiting, seen = [block], 0
    while waiting and seen < MOST_NODES:
        node = waiting.pop(0)
        seen += 1
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            kinds = node.get("@type")
            if types & frozenset([kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else ()):
                yield node
            waiting.extend(value for value in node.values() if isinstance(value, dict | list))
