"""Chunks of a document's markdown: passages of about a thousand characters, with exact offsets and lasting ids."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from hashlib import sha256

import msgspec
from semantic_text_splitter import MarkdownSplitter

from onceward_apps.documents.outline import Heading, outline_of, word_count

__all__ = ["Chunk", "Heading", "chunks_of", "outline_of", "word_count"]

SMALLEST, LARGEST = 900, 1200
"""Characters. A chunk grows until it is as long as the first, and never beyond the second."""
LONE, JOINED = 150, 1400
"""A chunk shorter than the first is joined to one beside it if both have no more characters than the second."""
ENDLESS = 20_000
"""Characters. A longer line is cut before it is split, between words if it has any."""
STEP = " › "
"""Between the headings of a path."""
_LINE = re.compile(r"[^\n]+")
_NO_TEXT = " \t\n=-"
"""What may stand between two headings that follow each other: blank lines, and what a heading is underlined with."""


class Chunk(msgspec.Struct, frozen=True):
    """A passage: `markdown[start:end] == text`. The same document, place and text always have the same id."""

    chunk: str
    position: int
    start: int
    end: int
    heading: str
    text: str


def chunks_of(document: str, markdown: str) -> list[Chunk]:
    """The passages of a document in order. What lies between two of them is white space, and nothing else."""
    headings = outline_of(markdown)
    paths = _Paths(markdown, headings)
    return [
        Chunk(chunk_id(document, start, end, text), position, start, end, paths.over(start, end), text)
        for position, (start, end) in enumerate(_spans(markdown, headings))
        for text in [markdown[start:end]]
    ]


def chunk_id(document: str, start: int, end: int, text: str) -> str:
    """The id of a passage, from nothing but what it is."""
    return "c" + sha256(f"{document}\n{start}\n{end}\n{text}".encode()).hexdigest()[:23]


def _spans(markdown: str, headings: list[Heading]) -> list[tuple[int, int]]:
    """Where the passages are. A lone heading goes with the text below it, a last line with the text above it."""
    splitter = MarkdownSplitter((SMALLEST, LARGEST))
    titles = {heading.start for heading in headings}
    spans: list[tuple[int, int]] = []
    for begin, stretch in _stretches(markdown):
        for offset, text in splitter.chunk_indices(stretch):
            start, end = begin + offset, begin + offset + len(text)
            is_rest = end - start < LONE and start not in titles
            if spans and (is_rest or spans[-1][1] - spans[-1][0] < LONE) and end - spans[-1][0] <= JOINED:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
    return spans


def _stretches(markdown: str) -> Iterator[tuple[int, str]]:
    """The text in pieces, and where they begin: whole, unless it has lines that would take the splitter minutes."""
    begin = 0
    for line in _LINE.finditer(markdown):
        if line.end() - line.start() <= ENDLESS:
            continue
        yield begin, markdown[begin : line.start()]
        begin = line.start()
        while line.end() - begin > ENDLESS:
            space = markdown.rfind(" ", begin + ENDLESS // 2, begin + ENDLESS)
            cut = space if space >= 0 else begin + ENDLESS
            yield begin, markdown[begin:cut]
            begin = cut
    yield begin, markdown[begin:]


class _Paths:
    """The headings above each passage, for passages asked for in order."""

    def __init__(self, markdown: str, headings: list[Heading]) -> None:
        self._markdown = markdown
        self._ahead = deque(headings)
        self._path: list[Heading] = []

    def over(self, start: int, end: int) -> str:
        """The path of headings that the text of a passage stands under; a passage may begin with headings."""
        text_at = start
        while self._ahead and (heading := self._ahead[0]).start < end:
            if self._markdown[text_at : heading.start].strip(_NO_TEXT):
                break
            self._path = [above for above in self._path if above.level < heading.level]
            self._path.append(self._ahead.popleft())
            line_end = self._markdown.find("\n", heading.start)
            text_at = max(text_at, line_end if line_end >= 0 else len(self._markdown))
        return STEP.join(heading.title for heading in self._path)
