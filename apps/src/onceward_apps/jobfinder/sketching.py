"""A page as a model is shown it: its elements with what selectors can name, without scripts, drawings and its frame."""

from __future__ import annotations

import re

from onceward_apps.jobfinder.extracting import slim
from onceward_apps.jobfinder.html_parsing import parsed_html

_NEEDLESS = "head, script, nav, header, footer, form, img, picture, video, audio, button, input, select"
_KEPT = frozenset({"class", "id", "href", "rel", "datetime", "role", "itemprop"})
_MOST_ELEMENTS = 20_000
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LONGEST_VALUE = 120


def sketch(url: str, html: str, longest: int) -> str:
    """The elements of a page and their words, at most so many characters of them."""
    tree = parsed_html(slim("", url, html).html)
    for node in tree.css(_NEEDLESS):
        node.decompose()
    for node in tree.css("*")[:_MOST_ELEMENTS]:
        for name, value in list(node.attributes.items()):
            if name not in _KEPT or len(value or "") > _LONGEST_VALUE:
                del node.attrs[name]
    body = tree.body
    shown = "" if body is None else body.html or ""
    return " ".join(_COMMENT.sub("", shown).split())[:longest]
