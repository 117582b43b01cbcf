"""Documents as one HTML page to read: the outline at the side, connections in the margin beside their passages.

The page is one file that needs no network. Everything that comes from a document is escaped, and the page's own policy
forbids every script and style but its own.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template

from onceward_apps.documents.excerpts import excerpt
from onceward_apps.documents.outline import Heading
from onceward_apps.documents.passages import Passage, Tie
from onceward_apps.documents.reading import About
from onceward_apps.documents.rendering import rendered
from onceward_apps.documents.words import told_words

MOST_BESIDE, ROOM = 3, 450
"""Beside a passage stands one connection for so many of its characters, and three at most; the others are folded."""
QUOTED = 150
"""So many characters of the other passage are quoted."""


@dataclass(frozen=True, slots=True)
class Book:
    """A document with all that is shown of it."""

    document: str
    title: str
    about: About
    words: int
    markdown: str
    outline: Sequence[Heading]
    passages: Sequence[Passage]
    ties: Sequence[Tie]


def page(books: Sequence[Book], names: Mapping[str, str]) -> Iterator[str]:
    """The page, piece by piece. `names` are the titles of all documents, also of those that are not on the page."""
    style, script, frame = _file("page.css"), _file("page.js"), _file("page.html")
    head, rest = frame.split("$outline")
    between, end = rest.split("$text")
    title = books[0].title if len(books) == 1 else f"{len(books)} documents"
    languages = {(book.about.language or "en").strip() for book in books}
    yield Template(head).substitute(
        title=escape(title),
        language=escape(languages.pop() if len(languages) == 1 else "en"),
        style=style,
        style_hash=_hash(style),
        script_hash=_hash(script),
    )
    for book in books:
        yield _outline(book, is_open=len(books) == 1)
    yield between
    here = {book.document for book in books}
    for book in books:
        yield from _article(book, names, here)
    yield Template(end).substitute(script=script)


def _file(name: str) -> str:
    return files(__package__).joinpath("reader", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _heading_id(document: str, start: int) -> str:
    return f"h-{document}-{start}"


def _outline(book: Book, *, is_open: bool) -> str:
    lines = [f"<details{' open' if is_open else ''}><summary>{escape(book.title)}</summary><ol>"]
    path: list[Heading] = []
    for heading in book.outline:
        path = [*(above for above in path if above.level < heading.level), heading]
        whole = escape(" › ".join(one.title for one in path))
        target = escape(_heading_id(book.document, heading.start))
        lines.append(
            f'<li><a class="l{heading.level}" href="#{target}" data-path="{whole}">{escape(heading.title)}</a></li>'
        )
    if not book.outline:
        lines.append(f'<li><a class="l1" href="#{escape(book.document)}">{escape(book.title)}</a></li>')
    return "".join([*lines, "</ol></details>\n"])


def _article(book: Book, names: Mapping[str, str], here: Set[str]) -> Iterator[str]:
    facts = [
        ", ".join(book.about.creators),
        (book.about.published or "").partition("T")[0],
        f"{book.words:,} words",
        _counted(len(book.passages), "passage"),
        _counted(len(book.ties), "connection"),
    ]
    is_titled = bool(book.outline) and book.outline[0].title == book.title  # it begins with its own title
    title = "" if is_titled else f"<h1>{escape(book.title)}</h1>"
    yield (
        f'<article id="{escape(book.document)}"><header class="about">{title}'
        f"<p>{escape(' · '.join(fact for fact in facts if fact))}</p></header>\n"
    )
    beside = _by_passage(book.ties)
    headings = {heading.start for heading in book.outline}
    end = 0
    for passage in book.passages:
        runs_on = bool(end) and "\n\n" not in book.markdown[end : passage.start]
        end = passage.end
        notes = _notes(passage, beside.get(passage.chunk, ()), names, here)
        yield _passage(book, passage, notes, headings, runs_on=runs_on)
    yield "</article>\n"


def _by_passage(ties: Sequence[Tie]) -> dict[str, list[Tie]]:
    found: dict[str, list[Tie]] = defaultdict(list)
    for tie in ties:
        found[tie.left.chunk].append(tie)
        found[tie.right.chunk].append(tie)
    return found


def _passage(book: Book, passage: Passage, notes: str, headings: Set[int], *, runs_on: bool) -> str:
    kinds = ["passage", *(["runs-on"] if runs_on else []), *(["has-notes"] if notes else [])]

    def heading_id(offset: int) -> str | None:
        start = passage.start + offset
        return _heading_id(book.document, start) if start in headings else None

    words = rendered(passage.text, heading_id)
    return (
        f'<section class="{" ".join(kinds)}" id="{escape(passage.chunk)}"><div class="words">{words}</div>'
        f"{notes}</section>\n"
    )


def _notes(passage: Passage, ties: Sequence[Tie], names: Mapping[str, str], here: Set[str]) -> str:
    if not ties:
        return ""
    notes = [_note(passage, tie, names, here) for tie in ties]
    beside = min(MOST_BESIDE, max(1, len(passage.text) // ROOM))
    folded = notes[beside:]
    more = f"<details><summary>{len(folded)} more</summary><ol>{''.join(folded)}</ol></details>" if folded else ""
    return f'<aside class="notes" aria-label="Connections"><ol>{"".join(notes[:beside])}</ol>{more}</aside>'


def _note(passage: Passage, tie: Tie, names: Mapping[str, str], here: Set[str]) -> str:
    other = tie.other(passage.chunk)
    title = names[other.document]
    chapter = other.heading.rpartition(" › ")[2] or f"passage {other.position + 1:,}"
    place = escape(chapter if other.document == passage.document else f"{title} › {chapter}")
    quote = excerpt(other.text, told_words(passage.text) & told_words(other.text), QUOTED)
    is_here = other.document in here
    whole = escape(other.heading or title)
    named = (
        f'<a href="#{escape(other.chunk)}" title="{whole}">{place}</a>'
        if is_here
        else f'<span class="unlinked" title="{whole}">{place}</span>'
    )
    return f'<li>{named}<q>{escape(quote)}</q><span class="why">{escape(tie.why)} · {tie.score:.2f}</span></li>'


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
