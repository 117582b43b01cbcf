"""`onceward-docs export`: documents out of the library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from onceward import App, ConfigError
from onceward.terminal import print_json, print_pieces, show
from onceward_apps.documents import reads
from onceward_apps.documents.app import opened
from onceward_apps.documents.choosing import chosen
from onceward_apps.documents.cli.speaking import OWN_LIBRARY, Where
from onceward_apps.documents.exporting import book, file_names, json_lines, write_file
from onceward_apps.documents.reader_page import Book, page
from onceward_apps.documents.reads import Entry
from onceward_apps.speaking import FINE, NOTHING_SAID, Flag, Output

Format = Literal["markdown", "jsonl", "html"]


def export(
    *documents: Annotated[
        str, Parameter(name="DOC", help="Documents: ids, file names or parts of titles.", negative="")
    ],
    all: Annotated[bool, Flag, Parameter(help="All documents that can be searched.")] = False,
    format: Annotated[
        Format,
        Parameter(
            name=("--format", "-f"),
            help="markdown: the text. jsonl: a line for each passage, with its connections. html: a page to read.",
        ),
    ] = "markdown",
    to: Annotated[
        Path | None,
        Parameter(
            name=("--output", "-o"),
            help="The file to write; for several documents as markdown a folder. Without it all goes to stdout.",
        ),
    ] = None,
    where: Where = OWN_LIBRARY,
    output: Output = NOTHING_SAID,
) -> int:
    """Write documents as markdown, as JSON lines, or as one HTML page with their connections in the margin."""
    if bool(documents) == all:
        raise ConfigError("name the documents to export, or give --all")
    with opened(where.library) as app:
        every = {entry.document: entry for entry in app.read(reads.entries) if entry.generation > 0}
        wanted = [*every] if all else [*dict.fromkeys(chosen(app, document) for document in documents)]
        if unready := [document for document in wanted if document not in every]:
            raise ConfigError(f"{', '.join(unready)} can't be exported: there is no text yet; see onceward-docs status")
        entries = [every[document] for document in wanted]
        if not entries:
            raise ConfigError("the library has no document that can be exported")
        written = _written(app, entries, every, format, to)
    if to is not None:
        if output.json:
            print_json({"written": [str(path) for path in written], "documents": wanted})
        else:
            show(*(f"wrote {path}" for path in written))
    return FINE


def _written(
    app: App, entries: Sequence[Entry], every: dict[str, Entry], format: Format, to: Path | None
) -> list[Path]:
    """Write what was asked for; returns the files."""
    books = (book(app, entry) for entry in entries)
    if format == "markdown" and to is not None and (len(entries) > 1 or to.is_dir()):
        if to.exists() and not to.is_dir():
            raise ConfigError(f"{to} is a file; give a folder for several documents")
        names = file_names(entries, ".md")
        return [_put(to / names[one.document], [one.markdown, "\n"]) for one in books]
    pieces = _pieces(books, {document: entry.name for document, entry in every.items()}, format)
    if to is None:
        print_pieces(pieces)
        return []
    if to.is_dir():
        raise ConfigError(f"{to} is a folder; give the name of a file")
    return [_put(to, pieces)]


def _pieces(books: Iterable[Book], names: dict[str, str], format: Format) -> Iterator[str]:
    if format == "html":
        yield from page([*books], names)
    elif format == "jsonl":
        yield from json_lines(books, names)
    else:
        for one in books:
            yield one.markdown
            yield "\n"


def _put(path: Path, pieces: Iterable[str]) -> Path:
    write_file(path, pieces)
    return path
