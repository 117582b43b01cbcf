"""A file by which a worker process shows that it lives and what it is running.

The process holds a lock on it, so that any process on the same machine notices at once when it has died. It keeps the
tasks whose stages are running in it, with their time limits, so that the one who finds it dead knows what ran.

The database says where the file of a worker is. Who can write there must not be able to have any other file opened,
read or deleted: a file counts only if it lies in the folder of this database and is called as such files are.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import re
import stat
import struct
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from onceward.errors import StoreError

_SLOT = struct.Struct("<qqq")
_NAME = re.compile(r"\d{1,10}-[0-9a-f]{12}")
_LIMIT = struct.Struct("<q")
NO_LIMIT = 0
KILL_MARGIN_MS = 500
"""How long after its time limit a stage may take to be stopped from inside, before its process is killed."""
COMPUTING_WATCHED_S = 0.2
COMPUTING_TICKS = 5
"""A thread that computed for so many hundredths of a second in that time was at work, not waiting for its turn."""


@dataclass(frozen=True, slots=True)
class RunningStage:
    """A stage that runs: its task, when its time is up on this machine's monotonic clock, and its thread."""

    task: int
    limit_at: int
    thread: int


class Presence:
    """The file of this process."""

    def __init__(self, path: Path, slots: int) -> None:
        self.path = path
        self._descriptor = _created(path)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            _make_room(self._descriptor, 0, slots * _SLOT.size)
        except OSError:
            path.unlink(missing_ok=True)
            os.close(self._descriptor)
            raise
        self._map = mmap.mmap(self._descriptor, slots * _SLOT.size)
        self._free = list(range(slots))
        self._growing = threading.Lock()

    def enter(self, task: int, limit_at: int, thread: int) -> int:
        """A stage begins in a thread, known by its native id; returns its slot."""
        try:
            slot = self._free.pop()
        except IndexError:
            slot = self._one_more()
        _SLOT.pack_into(self._map, slot * _SLOT.size, task, limit_at, thread)
        return slot

    def _one_more(self) -> int:
        """More may run at once than when this process began: the file grows to twice its size."""
        with self._growing:
            if not self._free:
                slots = len(self._map) // _SLOT.size
                _make_room(self._descriptor, slots * _SLOT.size, 2 * slots * _SLOT.size)
                self._map = mmap.mmap(self._descriptor, 2 * slots * _SLOT.size)
                self._free.extend(range(slots, 2 * slots))
            return self._free.pop()

    def extend(self, slot: int, limit_at: int) -> None:
        """The time limit of a stage begins anew."""
        _LIMIT.pack_into(self._map, slot * _SLOT.size + _LIMIT.size, limit_at)

    def leave(self, slot: int) -> None:
        """A stage has ended."""
        _SLOT.pack_into(self._map, slot * _SLOT.size, 0, 0, 0)
        self._free.append(slot)

    def remove(self) -> None:
        """The process ends in good order."""
        self.path.unlink(missing_ok=True)
        self._map.close()
        os.close(self._descriptor)
        with suppress(OSError):  # others are still there
            self.path.parent.rmdir()


def _make_room(descriptor: int, first: int, size: int) -> None:
    """Let a file be so large, empty from a place on, and take its space now: on a disk that has become full the system
    kills a process that writes to a page that has none."""
    while first < size:
        first += os.pwrite(descriptor, bytes(size - first), first)


def _created(path: Path) -> int:
    while True:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _refuse_folder_of_others(path.parent)
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue  # the last worker has just taken the folder away


def _refuse_folder_of_others(folder: Path) -> None:
    """Strangers who can write to the folder could put files there, or take them away, and with them the sign that
    a worker lives. A group that shares a database may share it."""
    found = folder.stat()
    owners = (os.geteuid(), 0, folder.parent.stat().st_uid)
    if found.st_uid not in owners or found.st_mode & stat.S_IWOTH:
        raise StoreError(
            f"others can write to {folder}, where workers show that they live: "
            "make it a folder of your own with mode 0700, or delete it"
        )


def new_path(folder: Path) -> Path:
    """Where the presence of a new process goes."""
    return folder / f"{os.getpid()}-{uuid.uuid4().hex[:12]}"


def recorded(path: str | None, folder: Path | None) -> Path | None:
    """The file of a worker as the database names it; None if that is not one of this folder."""
    if path is None or folder is None:
        return None
    found = Path(path)
    return found if found.parent == folder and _NAME.fullmatch(found.name) else None


def _opened(path: Path) -> int:
    """A descriptor of a file that is what it should be: no link, no pipe, no device."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise FileNotFoundError(path)


def slots_of(path: Path) -> int | None:
    """Return how many stages there is room for in a file: those that may run at once, and one for each thread."""
    try:
        return path.stat().st_size // _SLOT.size
    except OSError:
        return None


def running(path: Path) -> list[RunningStage] | None:
    """What runs, or ran when it died, in the process of a file; None if the file is gone."""
    try:
        with open(_opened(path), "rb") as file:
            data = file.read()
    except OSError:
        return None
    return [RunningStage(*slot) for slot in _SLOT.iter_unpack(data[: len(data) // _SLOT.size * _SLOT.size]) if slot[0]]


def overdue(path: Path) -> list[RunningStage]:
    """The stages that have ignored their time limits for longer than a process may take to stop them."""
    now = monotonic_ms()
    return [one for one in running(path) or () if one.limit_at != NO_LIMIT and now > one.limit_at + KILL_MARGIN_MS]


def culprits(late: Sequence[RunningStage], pid: int | None) -> frozenset[int]:
    """Which of the stages that are late keep their process from stopping them; none if that cannot be told.

    One that holds the interpreter makes its innocent neighbours late too. It is the only one that gets to compute.
    """
    if len(late) > 1 and pid is not None:
        before = {one.thread: _computed(pid, one.thread) for one in late}
        time.sleep(COMPUTING_WATCHED_S)
        late = [one for one in late if _computed(pid, one.thread) - before[one.thread] >= COMPUTING_TICKS]
    return frozenset(one.task for one in late) if len(late) == 1 else frozenset()


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal; not one that a debugger holds, nor where there is no telling."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def _computed(pid: int, thread: int) -> int:
    """How long a thread has computed, in the ticks of the kernel; 0 where there is no telling."""
    try:
        after_name = Path(f"/proc/{pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(after_name[11]) + int(after_name[12])


def is_dead(path: Path) -> bool:
    """Whether the process of a file has died: its lock is free. A stopped process still does.

    A missing file proves nothing: its process may not have begun yet, or the file was removed.
    """
    try:
        descriptor = _opened(path)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def monotonic_ms() -> int:
    """The clock of time limits: one for all processes of a machine."""
    return time.monotonic_ns() // 1_000_000
