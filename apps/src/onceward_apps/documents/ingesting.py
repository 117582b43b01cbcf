"""From paths, as people give them, to files with their contents."""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from onceward_apps.documents.admitting import File
from onceward_apps.documents.reading import Reason, Unreadable

ENDINGS = frozenset({".epub", ".pdf", ".html", ".htm", ".xhtml", ".md", ".markdown", ".txt"})
"""What is taken from a folder. A file that is named is taken whatever its ending is."""


def found(paths: Sequence[str]) -> Iterator[Path]:
    """The files that are meant, each once: files, folders with all that is below them, patterns."""
    seen: set[Path] = set()
    for given in paths:
        for path in _meant(given):
            absolute = Path(os.path.abspath(path))
            if absolute not in seen:
                seen.add(absolute)
                yield absolute


def _meant(given: str) -> Iterator[Path]:
    path = Path(given).expanduser()
    if path.is_dir():
        yield from _below(path)
    elif path.exists() or not glob.has_magic(given):
        yield path
    else:
        for match in sorted(glob.glob(str(path), recursive=True)):
            yield from _below(Path(match)) if Path(match).is_dir() else [Path(match)]


def _below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and Path(name).suffix.lower() in ENDINGS:
                yield Path(where, name)


def looked_at(path: Path) -> File:
    """A file with the hash of its content. Raises Unreadable if it isn't there, or can't be opened."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise Unreadable(Reason.NOT_READABLE, "its name is not written in Unicode") from None
    if not path.exists():
        raise Unreadable(Reason.MISSING, "there is no such file")
    if not path.is_file():
        raise Unreadable(Reason.NOT_READABLE, "it is no file with a content of its own")
    try:
        with path.open("rb") as file:
            return File(str(path), hashlib.file_digest(file, "sha256").hexdigest())
    except OSError as error:
        raise Unreadable(Reason.NOT_READABLE, error.strerror or type(error).__name__) from error
