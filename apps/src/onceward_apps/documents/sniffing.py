"""What a file is, by its content. Its name only decides between kinds of text."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import PurePath

from onceward_apps.documents.encoding import decoded
from onceward_apps.documents.limits import MB, ReadingLimits
from onceward_apps.documents.reading import Reason, Unreadable
from onceward_apps.documents.snapshot import Snapshot


class Format(StrEnum):
    """What the readers read."""

    EPUB = "epub"
    PDF = "pdf"
    HTML = "html"
    MARKDOWN = "markdown"
    TEXT = "text"
    DOCX = "docx"
    ODT = "odt"


EXTENSIONS = {
    ".epub": Format.EPUB,
    ".pdf": Format.PDF,
    ".html": Format.HTML,
    ".htm": Format.HTML,
    ".xhtml": Format.HTML,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".mdown": Format.MARKDOWN,
    ".mkd": Format.MARKDOWN,
    ".txt": Format.TEXT,
    ".text": Format.TEXT,
    ".docx": Format.DOCX,
    ".odt": Format.ODT,
}
"""What a name promises. A folder is searched for these."""

_ODT = b"mimetypeapplication/vnd.oasis.opendocument.text"
_FOREIGN = {
    b"\x89PNG\r\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"RIFF": "a picture, a sound or a film",
    b"\x1f\x8b": "a gzip archive",
    b"7z\xbc\xaf": "a 7z archive",
    b"Rar!": "a RAR archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ": "an xz archive",
    b"\xd0\xcf\x11\xe0": "an old Office document",
    b"{\\rtf": "a rich text document",
    b"%!PS": "a PostScript document",
    b"\x7fELF": "a program",
    b"MZ\x90": "a program",
    b"SQLite format 3\x00": "a database",
    b"ID3": "a sound",
    b"OggS": "a sound",
    b"\x00\x00\x00\x18ftyp": "a film",
    b"\x00\x00\x00\x20ftyp": "a film",
    b"AT&TFORM": "a DjVu document",
}
_PAGE = re.compile(
    r"\s*(<\?xml[^>]*>\s*)?(<!--((?!-->).)*-->\s*)*(<!doctype\s+html|<html[\s>])", re.IGNORECASE | re.DOTALL
)
_HEAD = 8192


def sniff(snapshot: Snapshot, *, limits: ReadingLimits) -> tuple[Format, tuple[str, ...]]:
    """What a file is to be read as, and what is odd about it. Raises Unreadable if it is none of ours."""
    extension = PurePath(snapshot.name).suffix.lower()
    promised = EXTENSIONS.get(extension)
    warnings = []
    found = _packed(snapshot.data, promised)
    if found is None:
        found, flaws = _written(snapshot.data, promised, extension, limits)
        if flaws:
            warnings.append(f"characters lost, because their bytes are not in its encoding: {flaws:,}")
    if promised is None:
        named = f"is named {extension}" if extension else "has no extension"
        warnings.append(f"it {named}, and was read as {found}")
    elif found is not promised:
        warnings.append(f"it is named {extension} but is {found}, and was read as that")
    return found, tuple(warnings)


def _packed(data: bytes, promised: Format | None) -> Format | None:
    """What begins as a book or a document that is no text: PDF, EPUB, .docx, .odt."""
    if b"%PDF-" in data[:1024]:
        return Format.PDF
    if data.startswith(b"PK"):
        if _ODT in data[:256]:
            return Format.ODT
        if b"word/document.xml" in data:
            return Format.DOCX
        is_book = b"application/epub+zip" in data[:256] or b"META-INF/container.xml" in data
        return Format.EPUB if is_book or promised is Format.EPUB else None
    return None


def _written(data: bytes, promised: Format | None, extension: str, limits: ReadingLimits) -> tuple[Format, int]:
    """What kind of text it is, and how many flaws it has. Raises Unreadable with the reason that helps most."""
    kind = "a zip archive" if data.startswith(b"PK") else _foreign(data)
    if kind is not None:
        if promised is None:
            raise Unreadable(Reason.UNKNOWN_TYPE, f"it is {kind}")
        raise Unreadable(Reason.WRONG_EXTENSION, f"it is named {extension} but is {kind}")
    if len(data) > limits.page_bytes:
        allowed = f"text and pages of up to {limits.page_bytes / MB:,.1f} MB are read"
        raise Unreadable(Reason.TOO_LARGE, f"{len(data) / MB:,.1f} MB; {allowed}")
    try:
        text = decoded(data)
    except Unreadable as error:
        if promised is None:
            raise Unreadable(Reason.UNKNOWN_TYPE, "it is neither a book, a page nor text") from error
        if promised in (Format.EPUB, Format.PDF, Format.DOCX, Format.ODT):
            raise Unreadable(Reason.BROKEN, f"it is named {extension} but does not begin as one") from error
        raise
    flaws = max(0, text.count("\ufffd") - data.count("\ufffd".encode()))
    if _PAGE.match(text[:_HEAD]):
        return Format.HTML, flaws
    return promised if promised in (Format.HTML, Format.MARKDOWN) else Format.TEXT, flaws


def _foreign(data: bytes) -> str | None:
    """The name of a kind of file that is known and not read."""
    return next((kind for magic, kind in _FOREIGN.items() if data.startswith(magic)), None)
