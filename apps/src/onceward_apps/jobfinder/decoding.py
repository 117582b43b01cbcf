"""From the bytes of a body to its text: by its byte-order mark, else its header, its own word, or a guess."""

from __future__ import annotations

import codecs
import re

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEADER = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_INSIDE = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]+)|^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", re.I
)
_SAFE = re.compile(
    r"utf-?8|utf-?16(-?[lb]e)?|(us-)?ascii|latin-?1|iso-?8859-\d\d?|(windows|cp)-?125\d|koi8-[ru]|"
    r"gb(2312|k|18030)|big5(-hkscs)?|shift[-_]?jis|(windows-)?31j|euc-(jp|kr)|iso-2022-jp|tis-620|macintosh",
    re.IGNORECASE,
)
"""What is believed. Python knows codecs besides that no page is written in, and that do harm."""
_LATIN = re.compile(r"(us-)?ascii|latin-?1|iso-?8859-1", re.IGNORECASE)


def text_of(body: bytes, content_type: str = "") -> str:
    """The text of a body; what cannot be decoded becomes U+FFFD."""
    for mark, marked in _MARKS:
        if body.startswith(mark):
            return body[len(mark) :].decode(marked, "replace")
    said = _HEADER.search(content_type)
    if said and (encoding := _codec(said[1])):
        return body.decode(encoding, "replace")
    inside = _INSIDE.search(body[:2_048])
    if inside and (encoding := _codec((inside[1] or inside[2]).decode("ascii"))):
        # A body that could be searched as ASCII is not UTF-16, whatever it says of itself.
        return body.decode("utf-8" if encoding.startswith("utf-16") else encoding, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("cp1252", "replace")


def _codec(label: str) -> str | None:
    if not _SAFE.fullmatch(label):
        return None
    if _LATIN.fullmatch(label):
        return "cp1252"  # as every browser does
    try:
        return codecs.lookup(label.replace("windows-31j", "cp932")).name
    except LookupError:
        return None
