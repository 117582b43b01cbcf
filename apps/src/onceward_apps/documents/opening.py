"""From a path to an open document, whatever its format, or to the reason why there is none."""

from __future__ import annotations

from pathlib import Path

from onceward_apps.documents.limits import STANDARD, ReadingLimits
from onceward_apps.documents.readers.epub import open_epub
from onceward_apps.documents.readers.html import open_html
from onceward_apps.documents.readers.office import open_docx, open_odt
from onceward_apps.documents.readers.pdf import open_pdf
from onceward_apps.documents.readers.text import open_markdown, open_text
from onceward_apps.documents.reading import Document, Reason, Unreadable
from onceward_apps.documents.snapshot import Snapshot, take_snapshot
from onceward_apps.documents.sniffing import Format, sniff

_OPEN = {
    Format.EPUB: open_epub,
    Format.PDF: open_pdf,
    Format.HTML: open_html,
    Format.MARKDOWN: open_markdown,
    Format.TEXT: open_text,
    Format.DOCX: open_docx,
    Format.ODT: open_odt,
}


def open_document(path: Path, *, limits: ReadingLimits = STANDARD, content_hash: str | None = None) -> Document:
    """Open a file for reading part by part. It is read into memory first: what happens to it later changes nothing.

    With a `content_hash` the file must still be the one that had it, so that a reader that goes on after a crash
    never joins the parts of two versions. Raises Unreadable.
    """
    snapshot = take_snapshot(path, limits=limits)
    if content_hash is not None and snapshot.content_hash != content_hash:
        raise Unreadable(Reason.CHANGED, "it is another file than the one whose reading was begun")
    return document_in(snapshot, limits=limits)


def document_in(snapshot: Snapshot, *, limits: ReadingLimits = STANDARD) -> Document:
    """The document in a file that was read before."""
    found, warnings = sniff(snapshot, limits=limits)
    return _OPEN[found](snapshot, warnings, limits)
