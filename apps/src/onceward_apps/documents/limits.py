"""How much of a file is read before it is refused. A hostile file costs no more than these."""

from __future__ import annotations

import msgspec

MB = 1 << 20


class ReadingLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a file may ask for. What goes beyond is refused with a typed reason."""

    file_bytes: int = 256 * MB
    """The size of the file itself."""
    pages: int = 10_000
    """Pages of a PDF."""
    zip_entries: int = 20_000
    """Files in an EPUB."""
    unpacked_bytes: int = 512 * MB
    """What is unpacked of an EPUB in total, counted while unpacking."""
    unpacked_ratio: int = 100
    """How many times its own size an EPUB may unpack to; looked at from 10 MB on."""
    page_bytes: int = 32 * MB
    """One file inside an EPUB, and a file of HTML, Markdown or text."""


STANDARD = ReadingLimits()
"""What holds unless someone says otherwise."""
