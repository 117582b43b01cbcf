"""The text of a PDF's page as markdown: lines joined to paragraphs, words joined at line ends, headings marked."""

from __future__ import annotations

import re
import unicodedata
from itertools import groupby
from typing import NamedTuple

import pypdfium2

from onceward_apps.documents.cleaning import clean

_FROM_THE_RIGHT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_HYPHENATED = re.compile(r"(?<=[^\W\d_])[-‐]\n(?=[a-zß-öø-ÿ])")
_MARKUP = re.compile(r"#{1,6}(\s|$)|[=-]+\s*$|`{3}|~{3}|>")
_NUMBER = re.compile(r"(?:[\divxlcdm]|chapter|part|section|appendix){0,16}", re.IGNORECASE)
_NOT_COUNTED = re.compile(r"[\W_]+")
_SHORT = 0.75
"""A line that fills less of the usual width ends a paragraph."""
_LONGEST_TITLE = 3
"""Lines that a heading may take."""


class Bookmark(NamedTuple):
    """An entry of the outline that leads to a page."""

    level: int
    title: str


def text_of(page: pypdfium2.PdfTextPage) -> str:
    """The text of a page in reading order, with its line ends."""
    text: str = page.get_text_range()
    if not _FROM_THE_RIGHT.search(text):
        return text
    # PDFium turns around what runs from right to left. Where one sign stands for many letters (they all have its box)
    # they were in order before, and are turned back.
    signs = [(page.get_text_range(index, 1), page.get_charbox(index)) for index in range(page.count_chars())]
    pieces: list[str] = []
    for _, group in groupby(signs, key=lambda sign: sign[1]):
        letters = [letter for letter, _ in group]
        is_turned = sum(bool(_FROM_THE_RIGHT.match(letter)) for letter in letters) > 1
        pieces += (" ", *reversed(letters), " ") if is_turned and " " in letters else letters[:: -1 if is_turned else 1]
    return "".join(pieces)


def markdown_of_page(text: str, bookmarks: list[Bookmark]) -> str:
    """Paragraphs and headings of a page. A heading whose words are not on the page stands at its top."""
    lines = [line for line in (" ".join(one.split()) for one in _HYPHENATED.sub("", clean(text)).split("\n")) if line]
    titles, unseen = _titles(lines, bookmarks)
    blocks = [f"{'#' * one.level} {one.title}" for one in unseen]
    usual = sorted(len(line) for line in lines)[len(lines) * 85 // 100] if lines else 0
    paragraph: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if number in titles:
            level, length = titles[number]
            blocks += [" ".join(paragraph)] if paragraph else []
            blocks.append(f"{'#' * level} {' '.join(lines[number : number + length])}")
            paragraph = []
            number += length
            continue
        paragraph.append(f"\\{line}" if not paragraph and _MARKUP.match(line) else line)
        number += 1
        follows = lines[number] if number < len(lines) else ""
        if number == len(lines) or number in titles or (len(line) < usual * _SHORT and not follows[0].islower()):
            blocks.append(" ".join(paragraph))
            paragraph = []
    return unicodedata.normalize("NFC", "\n\n".join(blocks))


def _titles(lines: list[str], bookmarks: list[Bookmark]) -> tuple[dict[int, tuple[int, int]], list[Bookmark]]:
    """Where on a page the titles of its bookmarks stand: line → level and number of lines; and those that don't."""
    titles: dict[int, tuple[int, int]] = {}
    unseen: list[Bookmark] = []
    begin = 0
    for bookmark in bookmarks:
        found = next(
            (
                (number, length)
                for number in range(begin, len(lines))
                for length in range(1, _LONGEST_TITLE + 1)
                if _is_title(" ".join(lines[number : number + length]), bookmark.title)
            ),
            None,
        )
        if found is None:
            unseen.append(bookmark)
        else:
            titles[found[0]] = (bookmark.level, found[1])
            begin = sum(found)
    return titles, unseen


def _is_title(line: str, title: str) -> bool:
    """Whether a line says what a bookmark says, perhaps with a number before it."""
    said, wanted = (_NOT_COUNTED.sub("", one).casefold() for one in (line, title))
    return bool(wanted) and said.endswith(wanted) and bool(_NUMBER.fullmatch(said.removesuffix(wanted)))
