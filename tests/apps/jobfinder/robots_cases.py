"""The conformance cases for robots.txt, which are written as text protocol buffers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FIELD = re.compile(r'(robotstxt|testurl|useragent)\s*:\s*((?:"(?:\\.|[^"\\])*"\s*)+)|(expected_outcome)\s*:\s*(\w+)')
_TEXT = re.compile(r'"((?:\\.|[^"\\])*)"')
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{1,2})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v", b"f": b"\f"}


@dataclass(frozen=True)
class Case:
    """Whether an agent may fetch an address under a robots.txt."""

    file: str
    robots: bytes
    url: str
    agent: str
    is_allowed: bool


def cases(path: Path) -> Iterator[Case]:
    """Every case of a file."""
    values: dict[str, bytes] = {}
    for field in _FIELD.finditer(path.read_text()):
        if field[3]:
            yield Case(
                path.stem,
                values["robotstxt"],
                values["testurl"].decode(),
                values["useragent"].decode(),
                field[4] == "ALLOWED",
            )
        else:
            values[field[1]] = b"".join(_unescaped(text) for text in _TEXT.findall(field[2]))


def _unescaped(text: str) -> bytes:
    def one(match: re.Match[bytes]) -> bytes:
        if match[1]:
            return bytes([int(match[1], 8)])
        return bytes([int(match[2], 16)]) if match[2] else _LETTERS.get(match[3], match[3])

    return _ESCAPE.sub(one, text.encode())
