"""Cleaning up what reading has left: lost headings and the noise of scanned pages, by a model that must not rewrite.

A text goes to the model in pieces that end with a paragraph. A piece that comes back cut off, much shorter or much
longer is not trusted: the piece stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator

from onceward_apps.documents.provider import Answer

LONGEST_PIECE = 8_000
SHORTEST, LONGEST = 0.7, 1.3
"""How much shorter or longer than before a cleaned piece may be."""
INSTRUCTION = (
    "You are given a piece of a document as markdown, made by a program. Repair it: mark headings as headings, join"
    " words that were hyphenated at the end of a line, remove page numbers and running heads, correct characters that a"
    " scanner has misread. Change nothing else: no word of the author is added, left out, translated or explained."
    " Answer with the repaired markdown alone."
)


def pieces(markdown: str) -> Iterator[str]:
    """A text in pieces of at most so many characters where its paragraphs allow it; joined they are the text."""
    held = ""
    for paragraph in markdown.split("\n\n"):
        joined = f"{held}\n\n{paragraph}" if held else paragraph
        if held and len(joined) > LONGEST_PIECE:
            yield held
            held = paragraph
        else:
            held = joined
    if held:
        yield held


def trusted(piece: str, answer: Answer) -> str:
    """The cleaned piece, or the piece as it was if the model has done more than clean."""
    cleaned = answer.text.strip()
    is_like_it = SHORTEST * len(piece) <= len(cleaned) <= LONGEST * len(piece)
    return cleaned if answer.is_whole and is_like_it else piece
