"""A disk that fails one call of its kind, or that one and everything after it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import apsw

from tests.disk.disk import Disk, Go

Kind = Literal["read", "write", "sync", "truncate", "open", "delete", "shm map", "shm lock"]
How = Literal["fails", "fails but lands", "is full"]
KINDS: tuple[Kind, ...] = ("read", "write", "sync", "truncate", "open", "delete", "shm map", "shm lock")

CODES: dict[Kind, int] = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "open": apsw.SQLITE_CANTOPEN,
    "delete": apsw.SQLITE_IOERR_DELETE,
    "shm map": apsw.SQLITE_IOERR_SHMMAP,
    "shm lock": apsw.SQLITE_IOERR_SHMLOCK,
}
"""What SQLite's own functions answer when the system fails such a call."""

WAYS: dict[Kind, tuple[How, ...]] = {
    "read": ("fails",),
    "write": ("fails", "fails but lands", "is full"),
    "sync": ("fails", "fails but lands"),
    "truncate": ("fails", "fails but lands"),
    "open": ("fails",),
    "delete": ("fails", "fails but lands"),
    "shm map": ("fails",),
    "shm lock": ("fails",),
}
"""How a call can fail: nothing is done; all is done, and an error all the same; there is no space."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The n-th call of a kind fails: alone, or the disk stays as it is then."""

    kind: Kind
    number: int
    how: How
    stays: bool

    def __str__(self) -> str:
        return f"{self.kind} {self.number} {self.how}{' from then on' if self.stays else ''}"


class FailingDisk(Disk):
    """Counts calls by kind, and fails as it is told. Calls for other files than the database's are let through."""

    def __init__(self, database: str, fault: Fault | None = None) -> None:
        self._database = database
        self._fault = fault
        self._turn = threading.Lock()
        self._is_watching = True
        self.counts = Counter[Kind]()
        self.hits = 0
        """How many calls have failed."""

    @contextmanager
    def healthy(self) -> Iterator[None]:
        """Meanwhile nothing fails, and nothing is counted."""
        self._is_watching = False
        try:
            yield
        finally:
            self._is_watching = True

    def open(self, file: str, is_journal: bool, go: Go) -> int:
        return self._asked("open", file, go)

    def delete(self, file: str, go: Go) -> int:
        return self._asked("delete", file, go)

    def read(self, file: str, go: Go) -> int:
        return self._asked("read", file, go)

    def write(self, file: str, offset: int, data: Callable[[], bytes], go: Go) -> int:
        return self._asked("write", file, go)

    def truncate(self, file: str, size: int, go: Go) -> int:
        return self._asked("truncate", file, go)

    def sync(self, file: str, go: Go) -> int:
        return self._asked("sync", file, go)

    def shm_map(self, file: str, go: Go) -> int:
        return self._asked("shm map", file, go)

    def shm_lock(self, file: str, go: Go) -> int:
        return self._asked("shm lock", file, go)

    def _asked(self, kind: Kind, file: str, go: Go) -> int:
        if not self._is_watching or not file.startswith(self._database):
            return go()
        with self._turn:
            self.counts[kind] += 1
            fault = self._fault
            fails = fault is not None and self._is_hit(fault, kind)
            self.hits += fails
        if fault is None or not fails:
            return go()
        if fault.how == "fails but lands" and kind == fault.kind:
            go()
        return apsw.SQLITE_FULL if fault.how == "is full" else CODES[kind]

    def _is_hit(self, fault: Fault, kind: Kind) -> bool:
        if kind == fault.kind and self.counts[kind] == fault.number:
            return True
        if not fault.stays or self.counts[fault.kind] < fault.number:
            return False
        return kind == fault.kind if fault.how == "is full" else True
