"""A traceback as a page shows it: the error first, frames of the application open, those of libraries folded."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_FRAME = re.compile(r'^\s+File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_LIBRARY = re.compile(r"site-packages|dist-packages|/lib/python\d|<frozen ")
_PACKAGE = re.compile(r"(?:site-packages|dist-packages)/([\w-]+)|/lib/python[\d.]+/(?!site-|dist-)([\w-]+)")
_HEAD = "Traceback (most recent call last):"
_SHOWN = 3
"""How many parts of the path of a file are shown; all of it stands in the title."""


@dataclass(slots=True)
class Frame:
    """A place that an error has come through."""

    file: str
    line: str
    function: str
    code: list[str] = field(default_factory=list)

    @property
    def is_library(self) -> bool:
        """Whether it is code that the application only uses."""
        return _LIBRARY.search(self.file) is not None

    @property
    def place(self) -> str:
        """The end of its path, with the line."""
        return f"{'/'.join(self.file.split('/')[-_SHOWN:])}:{self.line}"


@dataclass(slots=True)
class Block:
    """Frames that are shown together: one of the application, or several that are folded; or a line in between."""

    frames: list[Frame]
    is_folded: bool
    said: str = ""

    @property
    def headline(self) -> str:
        """What stands there while they are folded, or instead of them."""
        if not self.frames:
            return self.said
        count = len(self.frames)
        names = list(dict.fromkeys(filter(None, (_package(one.file) for one in self.frames))))
        listed = ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1] if names else "libraries"
        return f"{count} frame{'' if count == 1 else 's'} of {listed}"


@dataclass(frozen=True, slots=True)
class Trace:
    """A traceback, cut into its parts."""

    error: str
    blocks: tuple[Block, ...]


def read_trace(text: str) -> Trace:
    """Cut a stored traceback into its error and its frames, innermost last; what is no frame stays as it is."""
    lines = text.splitlines()
    blocks: list[Block] = []
    error: list[str] = []
    frame: Frame | None = None
    for line in lines:
        found = _FRAME.match(line)
        if found is not None:
            frame = Frame(found["file"], found["line"], found["function"])
            error = []
            _add(blocks, frame)
        elif line.strip() == _HEAD or not line.strip():
            if error:
                blocks.append(Block([], False, " ".join(error)))
            frame, error = None, []
        elif line.startswith("    ") and frame is not None:
            if line.strip(" ~^"):
                frame.code.append(line.strip())
        elif line.startswith("  …"):
            blocks.append(Block([], True, line.strip(" …") or "frames that are not kept"))
            frame = None
        else:
            frame = None
            error.append(line)
    return Trace("\n".join(error) or (lines[-1] if lines else ""), tuple(blocks))


def _add(blocks: list[Block], frame: Frame) -> None:
    if frame.is_library and blocks and blocks[-1].is_folded and blocks[-1].frames:
        blocks[-1].frames.append(frame)
    else:
        blocks.append(Block([frame], frame.is_library))


def _package(file: str) -> str | None:
    found = _PACKAGE.search(file)
    return None if found is None else found[1] or found[2]
