"""Texts from outside, without the signs that a terminal or a reader would obey.

Names of files, titles, errors and answers of servers may hold escape sequences, C1 controls, and marks that turn the
direction of a line around. Every text that commands show and every line of the log goes through this module.
"""

from __future__ import annotations

import json
import re
from typing import Any

_OBEYED_IN_JSON = re.compile(
    "[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""What JSON may hold as it is and a terminal or a reader would obey; a lone surrogate cannot be written at all."""


_COMPUTED = re.compile(r"(^|[;\t\r\n])([\s\"']*)([=+\-@\uff0b\uff0d\uff1d\uff20])")
"""What makes a spreadsheet compute a cell: also behind a sign that it may take for the end of the cell before."""


def harmless(text: str) -> str:
    """A text in which signs that a terminal would obey are shown as escapes, line ends too."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def harmless_lines(text: str) -> str:
    """A text of several lines in which signs that a terminal would obey are shown as escapes; tabs become spaces."""
    return "\n".join(map(harmless, text.expandtabs().split("\n")))


def harmless_cell(text: str) -> str:
    """A text as a cell of a spreadsheet: a formula gets a `'` in front, and is shown instead of computed."""
    return _COMPUTED.sub(r"\1\2'\3", harmless_lines(text))


def one_line(text: str) -> str:
    """A harmless text in one line: white space runs together."""
    return harmless(" ".join(text.split()))


def json_text(document: Any, *, indent: int | None = 2) -> str:
    """A document as JSON that a terminal can show; read back, it is the same document."""
    text = json.dumps(document, ensure_ascii=False, indent=indent, default=str)
    return _OBEYED_IN_JSON.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
