"""What makes two errors the same error: their type and their message, without what differs from time to time."""

from __future__ import annotations

import re

from onceward.model import codec

CHANGING = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # a UUID
    r"|0x[0-9a-f]+"  # an address
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"  # a hash, or an id in hexadecimal
    r"|\d+(?:[.:,]\d+)*"  # a number: a time, a size, a version
)
_CHANGING = re.compile(CHANGING, re.IGNORECASE)


def normalised(described: str) -> str:
    """An error in words, with a sign in place of every number and every id."""
    return " ".join(_CHANGING.sub("#", described).split())


def fingerprint(described: str) -> bytes:
    """The fingerprint of an error that is described as `ValueError: no such page`."""
    return codec.digest128(normalised(described).encode("utf-8", "replace"))
