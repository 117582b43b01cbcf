"""EPUB: the pages of the spine, each a part, in reading order.

Pages outside the main line (`linear="no"`), such as notes, are read at their place in the spine, and once. The cover
and the list of contents are left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree

from onceward_apps.documents.limits import ReadingLimits
from onceward_apps.documents.outline import outline_of
from onceward_apps.documents.readers.archive import Archive
from onceward_apps.documents.readers.epub_package import Page, read_package
from onceward_apps.documents.readers.few_elements import name_of, purposes_of
from onceward_apps.documents.readers.prose import markdown_of
from onceward_apps.documents.readers.safe_xml import parsed_page
from onceward_apps.documents.reading import About, Document, Part, Reason, Unreadable
from onceward_apps.documents.snapshot import Snapshot

_LONGEST_COVER = 2000
"""Some books call their first chapter the cover, or have it beside the contents: what has more characters is read."""


def open_epub(snapshot: Snapshot, warnings: tuple[str, ...], limits: ReadingLimits) -> Document:
    """The book in a snapshot. Raises Unreadable."""
    archive = Archive(snapshot.data, limits)
    package = read_package(archive)
    about = About(
        format="epub",
        title=package.title,
        creators=package.creators,
        language=package.language,
        published=package.published,
        identifier=package.identifier,
        warnings=(*warnings, *package.warnings),
    )
    book = _Book(archive, package.pages, about)
    if not any(book.part(index).markdown for index in range(book.part_count)):
        raise Unreadable(Reason.NO_TEXT, "no page of its spine can be read and has text")
    return book


class _Book:
    """An open EPUB."""

    def __init__(self, archive: Archive, pages: tuple[Page, ...], about: About) -> None:
        self.about = about
        self.part_count = len(pages)
        self._archive = archive
        self._pages = pages

    def part(self, index: int) -> Part:
        page = self._pages[index]
        root = parsed_page(self._archive.read(page.name), page.name)
        body = next((one for one in root.iter() if name_of(one) == "body"), root)
        _remove(one for one in list(body.iter(etree.Element)) if _is_navigation(page, one) or _is_cover(one))
        if (page.is_navigation or page.is_cover) and _is_short(body):
            return Part(index, None, "")
        markdown = markdown_of(body)
        headings = outline_of(markdown)
        return Part(index, headings[0].title if headings else _page_title(root), markdown)

    def close(self) -> None:
        self._archive.close()


def _is_short(element: etree._Element) -> bool:
    length = 0
    for text in element.itertext():
        length += len(text)
        if length > _LONGEST_COVER:
            return False
    return True


def _is_navigation(page: Page, element: etree._Element) -> bool:
    """Whether an element is the list of contents. Lists of other kinds on other pages are text of the book."""
    return page.is_navigation and name_of(element) == "nav"


def _is_cover(element: etree._Element) -> bool:
    """Whether an element says that it is the cover, and is not longer than one."""
    return bool({"cover", "doc-cover"} & purposes_of(element)) and _is_short(element)


def _remove(elements: Iterable[etree._Element]) -> None:
    """Take elements out, and leave the text after them."""
    for element in elements:
        element.clear(keep_tail=True)


def _page_title(root: etree._Element) -> str | None:
    """What a page without headings is called."""
    titles = (one for one in root.iter() if name_of(one) == "title")
    return next((text for one in titles if (text := " ".join("".join(one.itertext()).split()))), None)
