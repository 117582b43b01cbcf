"""The story of a book of 61 chunks with 106 connections, as files: the book, and the library that it comes to."""

from __future__ import annotations

from onceward_apps.documents import samples
from tests.apps.documents.shelf import Shelf

CHUNKS, CONNECTIONS = 61, 106
SHARED = CONNECTIONS // 2
"""Each of the two companions speaks of so many of the book's topics, once."""
CHAPTER = 5
"""So many sections are in a file of the book."""


def chapters(topics: range, variant: int = 0) -> list[list[tuple[str, str]]]:
    """Sections on topics, in chapters. Each section makes one chunk."""
    sections = [(samples.word(90_000 + topic).capitalize(), samples.passage(topic, variant)) for topic in topics]
    return [sections[place : place + CHAPTER] for place in range(0, len(sections), CHAPTER)]


def the_book() -> bytes:
    """The book of the story."""
    return samples.epub("The Story", chapters(range(CHUNKS)))


def add_companions(shelf: Shelf) -> list[str]:
    """Two books that are there before: each has one passage on every shared topic."""
    return [
        shelf.add(f"companion{variant}.epub", samples.epub(f"Companion {variant}", chapters(range(SHARED), variant)))
        for variant in (1, 2)
    ]


def assert_complete(shelf: Shelf, document: str) -> None:
    """All 61 chunks and all 106 connections are there, and nothing points at nothing."""
    entry = shelf.entry(document)
    assert (entry.state, entry.chunks, entry.connections) == ("ready", CHUNKS, CONNECTIONS)
    assert entry.connected_at is not None
    assert len(shelf.chunks(document)) == CHUNKS
    assert len(shelf.connections(document)) == CONNECTIONS
    shelf.assert_sound()
