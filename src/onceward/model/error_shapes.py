"""Errors that are alike: what they say without what differs from task to task.

Coarser than the fingerprint by which a task gives up: addresses are holes, too, and how often it was tried is not part
of it. Pure, and made from the stored reason alone.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from onceward.model import codec
from onceward.model.fingerprints import CHANGING

URL_HOLE, HOLE = "url", "#"
_TRIED = re.compile(
    r"^(?:failed after \d+ retr(?:y|ies)|failed the same way (?:before \(task \d+\)|\d+ times in a row)"
    r"|\d+ \S+ tasks of this lineage have failed the same way): "
)
_URL = r"\b[a-z][a-z0-9+.\-]*://[^\s'\"<>`]*[^\s'\"<>`.,;:!?)\]}]"
_HOLES = re.compile(rf"(?P<url>{_URL})|(?:{CHANGING})", re.IGNORECASE)
LONGEST_SHAPE = 500


class Piece(NamedTuple):
    """A part of what alike errors say: text, or the name of a hole where they differ."""

    text: str
    is_hole: bool = False


class Shape(NamedTuple):
    """What alike errors have in common."""

    fingerprint: str
    """32 hexadecimal digits; `error:#…` in a filter finds the tasks."""
    pieces: tuple[Piece, ...]

    @property
    def message(self) -> str:
        """The pieces as one text, with holes in brackets."""
        return "".join(f"⟨{text}⟩" if is_hole else text for text, is_hole in self.pieces)


def shape_of(reason: str) -> Shape:
    """The shape of an error, from the reason that is stored with its task."""
    said = " ".join(_TRIED.sub("", reason).split())
    pieces: list[Piece] = []
    end = 0
    for hole in _HOLES.finditer(said):
        if hole.start() > end:
            pieces.append(Piece(said[end : hole.start()]))
        pieces.append(Piece(URL_HOLE if hole["url"] else HOLE, is_hole=True))
        end = hole.end()
    if end < len(said):
        pieces.append(Piece(said[end:]))
    whole = "\0".join(f"{int(is_hole)}{text}" for text, is_hole in pieces)
    return Shape(codec.digest128(whole.encode("utf-8", "replace")).hex(), tuple(pieces))
