"""HTML: the main text of a page, without menus and adverts; all of it if it is a book or has no main text."""

from __future__ import annotations

from lxml import etree

from onceward_apps.documents.cleaning import clean
from onceward_apps.documents.encoding import decoded
from onceward_apps.documents.limits import ReadingLimits
from onceward_apps.documents.outline import word_count
from onceward_apps.documents.readers.few_elements import name_of
from onceward_apps.documents.readers.one_part import OnePart
from onceward_apps.documents.readers.prose import markdown_of
from onceward_apps.documents.readers.safe_xml import parsed_html
from onceward_apps.documents.reading import About, Document
from onceward_apps.documents.snapshot import Snapshot

_TOO_LITTLE = 50
"""Words. A main text of fewer is taken for a mistake if the page has twice as many."""
_SHARE = 10
"""A main text of less than one word in so many is one, too."""
_BOOK = 20_000
"""Words. A page that has more is a book, and all of it is read: nothing of it may get lost."""


def open_html(snapshot: Snapshot, warnings: tuple[str, ...], limits: ReadingLimits) -> Document:
    """The page in a snapshot. Raises Unreadable."""
    page = decoded(snapshot.data)
    root = parsed_html(page)
    about = _about(root, warnings)
    body = next((one for one in root.iter() if name_of(one) == "body"), root)
    whole = markdown_of(body)
    all_words = word_count(whole)
    main = _main_text(page) if all_words <= _BOOK else ""
    words = word_count(main)
    if words * _SHARE < all_words or (words < _TOO_LITTLE and words * 2 < all_words):
        return OnePart(about, whole)
    has_title = main.startswith("# ") or about.title is None
    return OnePart(about, main if has_title else f"# {about.title}\n\n{main}")


def _main_text(page: str) -> str:
    """What a reader came for, as far as can be told; "" if it can't."""
    import trafilatura  # takes a third of a second, which other formats need not wait for

    try:
        found = trafilatura.extract(page, output_format="markdown", include_comments=False, favor_recall=True)
    except (RecursionError, ValueError, etree.LxmlError):
        found = None
    return clean(found or "").strip()


def _about(root: etree._Element, warnings: tuple[str, ...]) -> About:
    """What the head of a page says."""
    said: dict[str, str] = {}
    title = language = None
    for one in root.iter():
        name = name_of(one)
        if name == "html":
            language = one.get("lang") or one.get("xml:lang") or None
        elif name == "title" and title is None:
            title = " ".join("".join(one.itertext()).split()) or None
        elif name == "meta":
            said.setdefault((one.get("name") or one.get("property") or "").lower(), one.get("content", "").strip())
        elif name == "body":
            break
    author = said.get("author") or said.get("article:author") or said.get("dc.creator")
    return About(
        format="html",
        title=said.get("og:title") or title,
        creators=(author,) if author else (),
        language=language,
        published=said.get("article:published_time") or said.get("date") or said.get("dc.date") or None,
        warnings=warnings,
    )
