"""Power loss: a disk that remembers everything that was asked of it, and what is left if the power goes at some moment.

What was written since the last sync of a file may be there or not, sector by sector and in any order, and a sector may
be there in part. A file that was made or deleted since the last sync of its folder may be there or not. What was synced
is there: that is all that a disk promises.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import apsw

from tests.disk.disk import Disk, Go

SECTOR = 512


class Made(NamedTuple):
    """A name stands for a new, empty file."""

    name: str
    file: int


class Deleted(NamedTuple):
    """A name stands for nothing any more."""

    name: str


class Written(NamedTuple):
    """Bytes were written."""

    file: int
    offset: int
    data: bytes


class Cut(NamedTuple):
    """The length of a file was set."""

    file: int
    size: int


class Synced(NamedTuple):
    """All that was written to a file is on the platters."""

    file: int


class FolderSynced(NamedTuple):
    """The names are on the platters."""


class Acknowledged(NamedTuple):
    """The engine has told somebody that this transaction is durable."""

    receipt: bytes


Event = Made | Deleted | Written | Cut | Synced | FolderSynced | Acknowledged


class RememberingDisk(Disk):
    """Lets everything through to a folder that is empty at first, and remembers it in order."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._files: dict[str, int] = {}
        self._turn = threading.Lock()
        self.events: list[Event] = []

    def note(self, event: Event) -> None:
        """Something has happened."""
        with self._turn:
            self.events.append(event)

    def open(self, file: str, is_journal: bool, go: Go) -> int:
        code = go()
        if code == apsw.SQLITE_OK and file.startswith(self._folder) and file not in self._files:
            self._files[file] = len(self.events)
            self.note(Made(Path(file).name, self._files[file]))
        return code

    def delete(self, file: str, go: Go) -> int:
        code = go()
        if code == apsw.SQLITE_OK and self._files.pop(file, None) is not None:
            self.note(Deleted(Path(file).name))
        return code

    def write(self, file: str, offset: int, data: Callable[[], bytes], go: Go) -> int:
        if file in self._files:
            self.note(Written(self._files[file], offset, data()))
        return go()

    def truncate(self, file: str, size: int, go: Go) -> int:
        if file in self._files:
            self.note(Cut(self._files[file], size))
        return go()

    def sync(self, file: str, go: Go) -> int:
        code = go()
        if code == apsw.SQLITE_OK and file in self._files:
            self.note(Synced(self._files[file]))
        return code

    def folder_synced(self, folder: str) -> None:
        if folder.startswith(self._folder):
            self.note(FolderSynced())


@dataclass(slots=True)
class _File:
    """A file: what is certainly on the platters, and what has been asked for since."""

    certain: bytearray = field(default_factory=bytearray)
    asked: list[Written | Cut] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.asked:
            _apply(self.certain, change)
        self.asked.clear()

    def left(self, dice: random.Random) -> bytes:
        """What may be found after the power is back."""
        found = bytearray(self.certain)
        kept = dice.choice((0.0, 0.5, 0.9, 1.0))
        for change in self.asked:
            for part in [change] if isinstance(change, Cut) else _sectors(change):
                if dice.random() < kept:
                    _apply(found, _torn(part, dice))
        return bytes(found)


def left_after(events: Sequence[Event], dice: random.Random, folder: Path) -> set[bytes]:
    """Write into a folder what is left if the power goes after these events; returns the receipts of transactions that
    somebody was told of."""
    files: dict[int, _File] = {}
    certain: dict[str, int] = {}
    names: list[Made | Deleted] = []
    told: set[bytes] = set()
    for event in events:
        match event:
            case Made(_, file):
                files[file] = _File()
                names.append(event)
            case Deleted():
                names.append(event)
            case Written(file) | Cut(file):
                files[file].asked.append(event)
            case Synced(file):
                files[file].sync()
            case FolderSynced():
                _rename(certain, names)
                names.clear()
            case Acknowledged(receipt):
                told.add(receipt)
    _rename(certain, names[: dice.randint(0, len(names))])
    for old in folder.iterdir():
        old.unlink()
    for name, file in certain.items():
        (folder / name).write_bytes(files[file].left(dice))
    return told


def _rename(names: dict[str, int], changes: Sequence[Made | Deleted]) -> None:
    for change in changes:
        if isinstance(change, Made):
            names[change.name] = change.file
        else:
            names.pop(change.name, None)


def _sectors(written: Written) -> list[Written]:
    """A write, cut where sectors of the disk begin."""
    file, offset, data = written
    cuts = [0, *range(SECTOR - offset % SECTOR, len(data), SECTOR), len(data)]
    return [Written(file, offset + first, data[first:last]) for first, last in pairwise(cuts)]


def _torn(change: Written | Cut, dice: random.Random) -> Written | Cut:
    """The same, or now and then only its beginning."""
    if isinstance(change, Written) and dice.random() < 0.1:
        return Written(change.file, change.offset, change.data[: dice.randrange(len(change.data))])
    return change


def _apply(content: bytearray, change: Written | Cut) -> None:
    end = change.size if isinstance(change, Cut) else change.offset + len(change.data)
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if isinstance(change, Cut):
        del content[change.size :]
    else:
        content[change.offset : end] = change.data
