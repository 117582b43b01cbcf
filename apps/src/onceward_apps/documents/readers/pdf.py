"""PDF: runs of ten pages, each a part, with the headings of the outline where the file has one.

PDFium is native code and serves one thread at a time: read PDFs in a process of their own.
"""

from __future__ import annotations

import re
from itertools import islice

import pypdfium2

from onceward_apps.documents.limits import ReadingLimits
from onceward_apps.documents.readers.page_text import Bookmark, markdown_of_page, text_of
from onceward_apps.documents.reading import About, Document, Part, Reason, Unreadable
from onceward_apps.documents.snapshot import Snapshot

PAGES_PER_PART = 10
_MOST_BOOKMARKS = 20_000
_LOCKED = {pypdfium2.raw.FPDF_ERR_PASSWORD, pypdfium2.raw.FPDF_ERR_SECURITY}
_DATE = re.compile(r"D?:?(\d{4})(\d{2})?(\d{2})?")


def open_pdf(snapshot: Snapshot, warnings: tuple[str, ...], limits: ReadingLimits) -> Document:
    """The PDF in a snapshot. Raises Unreadable."""
    try:
        pdf = pypdfium2.PdfDocument(snapshot.data)
    except pypdfium2.PdfiumError as error:
        if error.err_code in _LOCKED:
            raise Unreadable(Reason.ENCRYPTED, "it needs a password") from error
        raise Unreadable(Reason.BROKEN, str(error)) from error
    if len(pdf) > limits.pages:
        raise Unreadable(Reason.TOO_MANY_PAGES, f"{len(pdf):,} pages; up to {limits.pages:,} are read")
    document = _Pdf(pdf, _about(pdf, warnings))
    if not any(document.has_text(page) for page in range(len(pdf))):
        raise Unreadable(Reason.NO_TEXT, "its pages are images; a text can be had by OCR")
    return document


class _Pdf:
    """An open PDF."""

    def __init__(self, pdf: pypdfium2.PdfDocument, about: About) -> None:
        self.about = about
        self.part_count = -(-len(pdf) // PAGES_PER_PART)
        self._pdf = pdf
        self._bookmarks = _bookmarks(pdf)

    def part(self, index: int) -> Part:
        first = index * PAGES_PER_PART
        last = min(first + PAGES_PER_PART, len(self._pdf))
        pages = [markdown_of_page(self._text(page), self._bookmarks.get(page, [])) for page in range(first, last)]
        title = f"pages {first + 1}–{last}" if last - first > 1 else f"page {last}"
        return Part(index, title, "\n\n".join(page for page in pages if page))

    def has_text(self, page: int) -> bool:
        """Whether a page has words, and not only a picture of some."""
        return any(character.isalnum() for character in self._text(page))

    def close(self) -> None:
        self._pdf.close()

    def _text(self, number: int) -> str:
        try:
            page = self._pdf[number]
            try:
                text = page.get_textpage()
                try:
                    return text_of(text)
                finally:
                    text.close()
            finally:
                page.close()
        except pypdfium2.PdfiumError as error:
            raise Unreadable(Reason.BROKEN, f"page {number + 1}: {error}") from error


def _about(pdf: pypdfium2.PdfDocument, warnings: tuple[str, ...]) -> About:
    said = {name: " ".join(value.split()) for name, value in pdf.get_metadata_dict().items()}
    date = _DATE.match(said.get("CreationDate", ""))
    return About(
        format="pdf",
        title=said.get("Title") or None,
        creators=(said["Author"],) if said.get("Author") else (),
        published="-".join(one for one in date.groups() if one) if date else None,
        warnings=warnings,
    )


def _bookmarks(pdf: pypdfium2.PdfDocument) -> dict[int, list[Bookmark]]:
    """The outline, by page."""
    found: dict[int, list[Bookmark]] = {}
    for one in islice(pdf.get_toc(), _MOST_BOOKMARKS):
        target = one.get_dest()
        page = target.get_index() if target is not None else None
        title = " ".join(one.get_title().split())
        if page is not None and title:
            found.setdefault(page, []).append(Bookmark(min(one.level + 1, 6), title))
    return found
