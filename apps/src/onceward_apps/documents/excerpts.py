"""A few words of a passage: without the marks of markdown, and of a length that fits beside something else."""

from __future__ import annotations

import re
from collections.abc import Set

from onceward_apps.documents.words import sentences, told_words

_MARKS = re.compile(
    r"^\s{0,3}(?:#{1,6}|>|[*+-]|\d{1,3}[.)])\s+|!?\[([^\]]*)\]\([^)]*\)|\[\^\w+\]:?|[*_`]{1,3}|\\(?=[!-/:-@\[-`{-~])",
    re.M,
)


def printable(text: str) -> str:
    """A text in one line, in which a terminal finds nothing to obey."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.split()))


def plain(markdown: str) -> str:
    """The text of some markdown in one line."""
    return printable(_MARKS.sub(lambda found: found[1] or "", markdown))


def shortened(text: str, most: int) -> str:
    """A text, cut between two words where it is too long."""
    if len(text) <= most:
        return text
    cut = text[: most - 1]
    return (cut.rpartition(" ")[0] or cut).rstrip(" ,;:.") + "…"


def excerpt(markdown: str, wanted: Set[str], most: int) -> str:
    """The part of a passage, from the beginning of a sentence on, that has most of some words."""
    places = sentences(markdown)
    texts = [markdown[start : start + most] for start, _ in places]
    if not texts:
        return shortened(plain(markdown), most)
    values = [len(told_words(text) & wanted) for text in texts]
    best = values.index(max(values))
    return ("… " if best and plain(markdown[: places[best][0]]) else "") + shortened(
        plain(markdown[places[best][0] :]), most
    )
