"""From paths, as people give them, to files with their contents."""

from __future__ import annotations

import glob
import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from onceward_apps.documents.admitting import File
from onceward_apps.documents.reading import Reason, Unreadable
from onceward_apps.documents.sniffing import EXTENSIONS

KINDS_NAMED = 12
"""How many kinds of files that are passed over are named, the most frequent first."""


@dataclass(slots=True)
class Found:
    """The files that some paths mean, and what was passed over in their folders."""

    files: list[Path] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)
    """How many files of each kind are not read: `.png`, or without an extension."""
    links: list[Path] = field(default_factory=list)
    """Links that lead out of their folder and were not followed."""
    unmatched: list[str] = field(default_factory=list)
    """Patterns that no file matches."""

    def passed_over_told(self) -> list[str]:
        """What was passed over, one sentence each for kinds and links; none if there was nothing."""
        told = []
        if self.passed_over:
            total = self.passed_over.total()
            named = [f"{count:,} {kind}" for kind, count in self.passed_over.most_common(KINDS_NAMED)]
            if (others := len(self.passed_over) - KINDS_NAMED) > 0:
                named.append(f"and {others} more kinds")
            told.append(f"passed over {total:,} {_files(total)} of kinds that are not read: {', '.join(named)}")
        if self.links:
            names = ", ".join(path.name for path in self.links[:KINDS_NAMED])
            more = f" and {len(self.links) - KINDS_NAMED:,} more" if len(self.links) > KINDS_NAMED else ""
            kind = "link that leads" if len(self.links) == 1 else "links that lead"
            told.append(f"passed over {len(self.links):,} {kind} out of the folder: {names}{more} (--follow-links)")
        return told


def found(paths: Sequence[str], *, follow_links: bool = False) -> Found:
    """The files that are meant, each once: files, folders with all that is below them, patterns.

    Links that lead out of a folder are followed only with `follow_links`; one that is named itself is.
    """
    result = Found()
    seen: set[Path] = set()
    for given in paths:
        for path in _meant(given, result, follow_links=follow_links):
            absolute = Path(os.path.abspath(path))
            if absolute not in seen:
                seen.add(absolute)
                result.files.append(absolute)
    return result


def _meant(given: str, result: Found, *, follow_links: bool) -> Iterator[Path]:
    path = Path(given).expanduser()
    if path.is_dir():
        yield from _below(path, path, result, follow_links=follow_links)
    elif path.exists() or not glob.has_magic(given):
        yield path
    else:
        matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]
        if not matches:
            result.unmatched.append(given)
        folder = _folder_of(path)
        for match in matches:
            if not follow_links and _leads_out(match, folder):
                result.links.append(match)
            elif match.is_dir():
                yield from _below(match, folder, result, follow_links=follow_links)
            else:
                yield match


def _folder_of(pattern: Path) -> Path:
    """The folder below which a pattern looks: what stands before its first part with a special character."""
    plain = []
    for part in pattern.parts:
        if glob.has_magic(part):
            break
        plain.append(part)
    return Path(*plain)


def _below(folder: Path, root: Path, result: Found, *, follow_links: bool) -> Iterator[Path]:
    """The files below a folder that are read. Links out of `root` are passed over, and no folder is visited twice."""
    visited: set[str] = set()
    for where, folders, names in os.walk(folder, followlinks=follow_links):
        if follow_links and (real := os.path.realpath(where)) in visited:
            folders.clear()
            continue
        elif follow_links:
            visited.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inner = frozenset(folders)
        for name in sorted(name for name in [*folders, *names] if not name.startswith(".")):
            path = Path(where, name)
            if not follow_links and path.is_symlink() and _leads_out(path, root):
                result.links.append(path)
            elif name in inner:
                continue
            elif (ending := path.suffix.lower()) in EXTENSIONS:
                yield path
            else:
                result.passed_over[ending or "without an extension"] += 1


def _leads_out(path: Path, root: Path) -> bool:
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))


def _files(count: int) -> str:
    return "file" if count == 1 else "files"


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
