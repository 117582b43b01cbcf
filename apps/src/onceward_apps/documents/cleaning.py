"""Text as it is stored: without characters that a database refuses or that are invisible."""

from __future__ import annotations

import re

_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029\x0b\x0c\x85]")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f\u00ad\u2060\ufeff\ufffe\uffff\ud800-\udfff]")
"""Control characters, soft hyphens, word joiners, marks of byte order, halves of characters."""


def clean(text: str) -> str:
    """The same words, with plain line ends and without unseen characters. PostgreSQL stores no zero character."""
    return _UNSEEN.sub("", _LINE_ENDS.sub("\n", text))
