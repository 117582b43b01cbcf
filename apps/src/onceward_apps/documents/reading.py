"""What reading a file gives: its parts in order, what is known about it, or the reason why it can't be read."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

import msgspec


class Reason(StrEnum):
    """Why a file is not in the library. Stored, and shown by `onceward-docs status`."""

    ENCRYPTED = "encrypted"
    NO_TEXT = "no text"
    EMPTY = "empty"
    BROKEN = "broken"
    TOO_LARGE = "too large"
    TOO_MANY_PAGES = "too many pages"
    ZIP_BOMB = "zip bomb"
    UNSAFE_XML = "unsafe XML"
    UNSAFE_PATH = "unsafe path"
    UNKNOWN_TYPE = "unknown type"
    WRONG_EXTENSION = "wrong extension"
    ENCODING = "unreadable encoding"
    CHANGED = "changed while it was read"
    MISSING = "missing"
    NOT_READABLE = "not readable"


class Unreadable(Exception):
    """A file that can't be read, and never will be as it is. Reading it again would end the same."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a document says of itself."""

    format: str
    title: str | None = None
    creators: tuple[str, ...] = ()
    language: str | None = None
    published: str | None = None
    identifier: str | None = None
    warnings: tuple[str, ...] = ()


class Part(msgspec.Struct, frozen=True):
    """A stretch of a document in reading order: a file of a book's spine, a run of pages, a file as a whole."""

    index: int
    title: str | None
    markdown: str


class Document(Protocol):
    """An open file, read part by part, so that a reader that dies goes on where it was."""

    about: About
    part_count: int

    def part(self, index: int) -> Part:
        """The part with this index, from 0. Its text may be empty. Raises Unreadable where it is broken."""

    def close(self) -> None:
        """Let go of the file."""


def joined(parts: Iterable[str]) -> str:
    """The markdown of a whole document, from that of its parts in order."""
    return "\n\n".join(part for part in parts if part)
