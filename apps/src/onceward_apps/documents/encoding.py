"""From bytes to text: what the bytes themselves show, then what they declare, then UTF-8, and Windows-1252 last."""

from __future__ import annotations

import codecs
import re

from onceward_apps.documents.reading import Reason, Unreadable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARED = re.compile(
    rb"""<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{2,40})|<meta[^>]{0,500}?charset\s*=\s*["']?\s*([\w.:-]{2,40})""",
    re.IGNORECASE,
)
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\x80-\x9f]")
_LETTERS_OF_WINDOWS = re.compile("[\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u00ffŠšŽžŒœŸ‘’“”‚„‹›–—…•€£§©®°·´½¡¿ªº«»\u00a0]")
_NOT_OF_TEXT = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape", "utf-7"})
"""What Python knows as an encoding, and what no page is written in: they fail in ways of their own, or change it."""
_HEAD = 4096


def decoded(data: bytes) -> str:
    """The text of a file. Raises Unreadable if no encoding makes it one."""
    text = _text(data)
    if len(_CONTROL.findall(text)) > len(text) // 200:
        raise Unreadable(Reason.ENCODING, "it holds control characters where text should be")
    return text


def _text(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decode(data[len(mark) :], encoding)
    if (wide := _wide(data)) is not None:
        return _decode(data, wide)
    if (declared := _declared(data)) is not None:
        try:
            return data.decode(declared)
        except UnicodeDecodeError:
            pass  # many pages declare what they are not
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _flawed(data) or _windows(data)


def _decode(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(Reason.ENCODING, f"it begins as {encoding} but is not, at byte {error.start:,}") from error


def _wide(data: bytes) -> str | None:
    """UTF-16 without a mark: every second byte of mostly Latin text is zero."""
    head = data[:_HEAD]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if len(head) % 2 or len(head) < 4:
        return None
    if odd > len(head) // 4 and even == 0:
        return "utf-16-le"
    return "utf-16-be" if even > len(head) // 4 and odd == 0 else None


def _declared(data: bytes) -> str | None:
    """The encoding that a page of HTML or XML names, if Python knows it as one of text."""
    if (found := _DECLARED.search(data[:_HEAD])) is None:
        return None
    try:
        name = codecs.lookup((found[1] or found[2]).decode("ascii")).name
        if name.replace("_", "-") in _NOT_OF_TEXT:
            return None
        b" ".decode(name)
    except (LookupError, UnicodeDecodeError):
        return None
    # A page whose declaration can be read byte by byte is not in UTF-16, whatever it says.
    return None if name.startswith(("utf-16", "utf-32")) else name


def _flawed(data: bytes) -> str | None:
    """UTF-8 with a wrong byte here and there, which stands as �; None if it is not UTF-8 for the most part."""
    text = data.decode("utf-8", errors="replace")
    flaws = text.count("\ufffd")
    beyond = sum(character > "\x7f" for character in text) - flaws
    return text if flaws * 20 <= beyond else None


def _windows(data: bytes) -> str:
    """Windows-1252, where that is plausible: few characters beyond ASCII, nearly all of them letters or quotes."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError as error:
        raise Unreadable(Reason.ENCODING, "it is neither UTF-8 nor Windows-1252, and declares nothing else") from error
    beyond = sum(character > "\x7f" for character in text)
    usual = len(_LETTERS_OF_WINDOWS.findall(text))
    if beyond > len(text) // 5 or usual < beyond * 0.9:
        raise Unreadable(Reason.ENCODING, "it is not UTF-8, and read as Windows-1252 it is no text")
    return text
