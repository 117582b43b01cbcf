"""The headings of a document's markdown, and its words."""

from __future__ import annotations

import re

import msgspec

LONGEST = 300
"""Characters of a heading that are kept."""
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HASHES = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_NO_PARAGRAPH = re.compile(r"\s*$| {4}|\t| {0,3}(?:[>|#]|[-*+][ \t]|\d{1,9}[.)][ \t]|(?:[-*_][ \t]*){3,}$)")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_MARKS = re.compile(r"(?<!\w)(\*{1,3}|_{1,3}|`+)(?=\S)(.+?)(?<=\S)\1(?!\w)")
_NOTE = re.compile(r"\[\^\w+\]")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_WORD = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"  # without spaces between words: each character counts
    "|[^\\W_\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+(?:['’][^\\W_]+)*"
)


class Heading(msgspec.Struct, frozen=True):
    """A heading: its level from 1 to 6, its words, and where its line begins in the markdown."""

    level: int
    title: str
    start: int


def outline_of(markdown: str) -> list[Heading]:
    """All headings in order: lines with hashes, and lines underlined with = or -. Code is passed over."""
    headings: list[Heading] = []
    fence = ""
    start = before_at = 0
    before: str | None = None
    for line in markdown.splitlines(keepends=True):
        bare = line.rstrip("\r\n")
        paragraph: str | None = None
        if fence:
            if bare.strip().startswith(fence) and not bare.strip().strip(fence[0]):
                fence = ""
        elif opened := _FENCE.match(bare):
            fence = opened[1]
        elif hashes := _HASHES.match(bare):
            if title := plain(_without_closing_hashes(bare[hashes.end() :])):
                headings.append(Heading(len(hashes[1]), title, start))
        elif before is not None and (line_below := _UNDERLINE.match(bare)):
            headings.append(Heading(1 if "=" in line_below[1] else 2, plain(before), before_at))
        elif not _NO_PARAGRAPH.match(bare):
            paragraph = bare
        before, before_at = paragraph, start
        start += len(line)
    return headings


def plain(words: str) -> str:
    """The words of a line of markdown, without its marks. Only as many as a heading may have."""
    text = _LINK.sub(r"\1", _NOTE.sub("", words.strip()[:LONGEST]))
    text = _MARKS.sub(r"\2", text)
    return " ".join(_ESCAPED.sub(r"\1", text).split())


def _without_closing_hashes(title: str) -> str:
    """`## Title ##` may be closed as it was opened."""
    title = title.strip()
    bare = title.rstrip("#")
    return bare if not bare or bare[-1] in " \t" else title


def word_count(markdown: str) -> int:
    """How many words a text has. In Chinese and Japanese each character counts as one."""
    return sum(1 for _ in _WORD.finditer(markdown))
