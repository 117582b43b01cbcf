"""Documents out of the library: as markdown, as JSON lines, or as a page to read."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from onceward import App
from onceward.harmless import json_text
from onceward_apps.documents import reads
from onceward_apps.documents.outline import Heading
from onceward_apps.documents.passages import passages_of, ties
from onceward_apps.documents.reader_page import Book
from onceward_apps.documents.reading import About
from onceward_apps.documents.reads import Entry

_NO_NAME = re.compile(r"[^\w-]+")
"""What is not put into the name of a file."""


def book(app: App, entry: Entry) -> Book:
    """A document with its passages and connections."""
    return Book(
        document=entry.document,
        title=entry.name,
        about=msgspec.json.decode(entry.about, type=About) if entry.about else About(format=""),
        words=entry.words or 0,
        markdown=app.read(reads.markdown, entry.document, entry.generation),
        outline=msgspec.json.decode(entry.outline, type=list[Heading]) if entry.outline else [],
        passages=app.read(passages_of, entry.document),
        ties=app.read(ties, entry.document),
    )


def json_lines(books: Iterable[Book], names: dict[str, str]) -> Iterator[str]:
    """One line for every passage, with its connections. `names` are the titles of all documents."""
    for one in books:
        beside: dict[str, list[dict[str, object]]] = {}
        for tie in one.ties:
            for chunk in (tie.left.chunk, tie.right.chunk):
                other = tie.other(chunk)
                beside.setdefault(chunk, []).append(
                    {
                        "chunk": other.chunk,
                        "document": other.document,
                        "title": names.get(other.document, ""),
                        "heading": other.heading,
                        "position": other.position,
                        "score": tie.score,
                        "why": tie.why,
                    }
                )
        for passage in one.passages:
            line = {
                "document": one.document,
                "title": one.title,
                "chunk": passage.chunk,
                "position": passage.position,
                "start": passage.start,
                "end": passage.end,
                "heading": passage.heading,
                "text": passage.text,
                "connections": beside.get(passage.chunk, []),
            }
            yield json_text(line, indent=None) + "\n"


def file_names(entries: Sequence[Entry], ending: str) -> dict[str, str]:
    """A name of a file for each document, made of its title; the id keeps two of the same title apart."""
    return {
        entry.document: f"{_NO_NAME.sub('-', entry.name).strip('-')[:80] or 'document'}-{entry.document}{ending}"
        for entry in entries
    }


def write_file(path: Path, pieces: Iterable[str]) -> None:
    """Write a file whole, or leave what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", dir=path.parent)
    try:
        with open(number, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(pieces)
        os.chmod(name, 0o666 & ~_mask())
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
