"""Markdown and text, as they are."""

from __future__ import annotations

from onceward_apps.documents.cleaning import clean
from onceward_apps.documents.encoding import decoded
from onceward_apps.documents.limits import ReadingLimits
from onceward_apps.documents.outline import outline_of
from onceward_apps.documents.readers.one_part import OnePart
from onceward_apps.documents.reading import About, Document
from onceward_apps.documents.snapshot import Snapshot


def open_markdown(snapshot: Snapshot, warnings: tuple[str, ...], limits: ReadingLimits) -> Document:
    """The Markdown in a snapshot; its first heading of the highest level is its title."""
    markdown = clean(decoded(snapshot.data)).strip("\n")
    highest = min(outline_of(markdown), key=lambda heading: heading.level, default=None)
    return OnePart(About(format="markdown", title=highest.title if highest else None, warnings=warnings), markdown)


def open_text(snapshot: Snapshot, warnings: tuple[str, ...], limits: ReadingLimits) -> Document:
    """The text in a snapshot. Blank lines part its paragraphs."""
    return OnePart(About(format="text", warnings=warnings), clean(decoded(snapshot.data)).strip("\n"))
