"""A process opens a database file through one SQLite library only (R12).

POSIX locks belong to the process, so two SQLite libraries in one process do not see each other's: both get the write
lock, and committed rows vanish. The engine uses apsw, programs use sqlite3. This module knows:

- every `sqlite3.connect`, by an audit hook, before it opens the file;
- what was opened before that, by the descriptors of the process, where the system lists them; they also tell when
  a file has been closed again. Where they are not listed, a file opened through sqlite3 stays sqlite3's;
- which files the engine has taken for apsw, because it asks here before every open.

A worker keeps its files for apsw. A client gives way: before sqlite3 opens the file, every session that has it open
through apsw is asked to change, and goes on through sqlite3.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit
from weakref import WeakMethod

import apsw

from onceward.errors import TwoSqliteLibraries

Library = Literal["apsw", "sqlite3"]
ChangeTo = Callable[[Library], None]
_DESCRIPTORS = "/proc/self/fd"
_OPENING_S = 5.0
"""How long an allowed `sqlite3.connect` counts as opening; a failed one is not reported."""


class _Process:
    """The files that this process has open, by library."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.taken: set[str] = set()
        """Files that belong to apsw."""
        self.leaving: Counter[str] = Counter()
        """Those of them that threads are giving to sqlite3, counted; no thread opens them through apsw any more."""
        self.announced: dict[int, tuple[list[str], float]] = {}
        """By thread: the file that sqlite3 is opening there right now, and until when that counts."""
        self.seen: list[str] = []
        """Files that sqlite3 has ever opened; only where the system lists no descriptors."""
        self.sharers: list[tuple[str, WeakMethod[ChangeTo]]] = []
        self.workers = 0


_process = _Process()
_watching = threading.Lock()


def watch() -> None:
    """Observe every `sqlite3.connect` from now on."""
    if _watching.acquire(blocking=False):  # once: an audit hook cannot be removed
        sys.addaudithook(_hook)


def opening_with_apsw(path: str) -> None:
    """Take a file for apsw, before every open; refused while the process has it open through another library."""
    files = _files(path)
    if not files:
        return
    with _process.lock:
        if uses_standard_library(path):
            raise TwoSqliteLibraries(
                f"{path} is already open in this process, and not through apsw. Two SQLite libraries in one process "
                "do not see each other's locks, and committed rows would vanish: close that connection first. "
                "Stages use ctx.write and ctx.read instead of a connection of their own"
            )
        _process.taken.add(files[0])


def uses_standard_library(path: str) -> bool:
    """Whether this process has a file open through sqlite3, so that a client must use sqlite3 too."""
    watch()
    files = _files(path)
    if not files:
        return False
    with _process.lock:
        if taken := _taken_among(files):
            return any(_process.leaving[file] for file in taken)
        if _is_being_opened(files):
            return True
        if "_sqlite3" not in sys.modules:
            return False
        if not os.path.isdir(_DESCRIPTORS):
            return any(_is_among(file, files) for file in _process.seen)
        return _is_open(files[0]) and not _is_open_through_apsw(files, if_busy=False)


def on_change(path: str, change_to: ChangeTo) -> None:
    """Register a bound method to be called before a file changes to another library.

    The method closes its object's connection through the old library, or raises. The thread that makes the change
    calls it. The object is held weakly.
    """
    for file in _files(path)[:1]:
        with _process.lock:
            _process.sharers = [sharer for sharer in _process.sharers if sharer[1]() is not None]
            _process.sharers.append((file, WeakMethod(change_to)))


def insist_on_apsw() -> None:
    """Note a worker: from now on sqlite3 may not open a file that was taken for apsw."""
    watch()
    # A client session that had given way comes back, so that only the program's own connections are in the way.
    _ask_to_change([file for file, _ in _process.sharers], "apsw")
    with _process.lock:
        _process.workers += 1


def insist_no_longer() -> None:
    """Note the end of a worker, once for every `insist_on_apsw`."""
    with _process.lock:
        _process.workers -= 1


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if event == "sqlite3.connect":
        _before_sqlite3_opens(arguments[0])
    elif event == "sqlite3.connect/handle":
        _process.announced.pop(threading.get_ident(), None)


def _before_sqlite3_opens(database: object) -> None:
    """Give a file to sqlite3, or raise, which makes `connect` fail with that error."""
    files = _files(database)
    if not files:
        return
    with _process.lock:
        wanted = _taken_among(files)
        if wanted and _process.workers:
            raise TwoSqliteLibraries(
                f"{min(wanted)} is open in this worker through apsw; opened through sqlite3 as well it would lose "
                "committed rows. Write with ctx.write and read with ctx.read: they use the engine's own connection"
            )
        # sqlite3 has not opened the file yet, and from here on no thread opens it through apsw.
        _process.leaving.update(wanted)
        _process.announced[threading.get_ident()] = (files, math.inf)
    try:
        if wanted:
            _ask_to_change(files, "sqlite3")
        with _process.lock:
            if any(_is_open(file) for file in wanted) and _is_open_through_apsw(files, if_busy=True):
                raise TwoSqliteLibraries(
                    f"{min(wanted)} is open in this process through apsw; opened through sqlite3 as well it would lose "
                    "committed rows. Close the apsw connection first, or use apsw here too"
                )
            _process.taken -= wanted
            _process.announced[threading.get_ident()] = (files, time.monotonic() + _OPENING_S)
            if not os.path.isdir(_DESCRIPTORS) and not any(_is_among(file, files) for file in _process.seen):
                _process.seen.append(files[0])
    except BaseException:
        _process.announced.pop(threading.get_ident(), None)
        raise
    finally:
        with _process.lock:
            _process.leaving.subtract(wanted)


def _taken_among(files: list[str]) -> set[str]:
    """The files taken for apsw among these; one whose folder is gone is forgotten."""
    wanted = [found for file in files if (found := _file_status(file))]
    same: set[str] = set()
    for file in list(_process.taken):
        found = _file_status(file)
        if file in files or (found and any(os.path.samestat(found, one) for one in wanted)):
            same.add(file)
        elif found is None and not os.path.isdir(os.path.dirname(file)):
            _process.taken.discard(file)
    return same


def _ask_to_change(files: list[str], library: Library) -> None:
    for file, method in list(_process.sharers):
        change_to = method()
        if change_to is not None and _is_among(file, files):
            change_to(library)


def _is_being_opened(files: list[str]) -> bool:
    here, now = threading.get_ident(), time.monotonic()
    return any(
        thread != here and now < until and any(_is_among(file, files) for file in announced)
        for thread, (announced, until) in list(_process.announced.items())
    )


def _is_open(file: str) -> bool:
    """Whether the process has a descriptor of the file; True where the system does not list them."""
    wanted = _file_status(file)
    if wanted is None:
        return False
    try:
        descriptors = os.listdir(_DESCRIPTORS)
    except OSError:
        return True
    for descriptor in descriptors:
        try:
            if os.path.samestat(os.fstat(int(descriptor)), wanted):
                return True
        except OSError:  # closed since it was listed
            continue
    return False


def _is_open_through_apsw(files: list[str], *, if_busy: bool) -> bool:
    """Whether an apsw connection, of the engine or the program, has the file open; `if_busy` for a busy one."""
    for connection in apsw.connections():
        try:
            if _is_among(connection.filename, files):
                return True
        except apsw.ThreadingViolationError:
            if if_busy:
                return True
        except apsw.ConnectionClosedError:
            continue
    return False


def _files(database: object) -> list[str]:
    """The real paths that a name given to `connect` may mean; none for a database in memory.

    A name that begins with `file:` may be a URI or a strange file name; the hook is not told which.
    """
    if not isinstance(database, str | bytes | os.PathLike):
        return []
    name = os.fsdecode(database)
    if name in ("", ":memory:"):
        return []
    names = [name]
    if name.startswith("file:"):
        parts = urlsplit(name)
        path, options = unquote(parts.path), parse_qs(parts.query)
        if path in ("", ":memory:") or options.get("mode") == ["memory"] or options.get("vfs") == ["memdb"]:
            return []
        names = [path, name]
    return [os.path.realpath(name) for name in names if "\0" not in name]


def _is_among(file: str, files: list[str]) -> bool:
    """Whether a path is the same file as one of others, by name or as a link."""
    return file in files or any(_is_link(file, other) for other in files)


def _is_link(file: str, other: str) -> bool:
    found, wanted = _file_status(file), _file_status(other)
    return found is not None and wanted is not None and os.path.samestat(found, wanted)


def _file_status(file: str) -> os.stat_result | None:
    """The file's status; None if it is not there."""
    try:
        return os.stat(file)
    except OSError:
        return None


def _forget() -> None:
    """In a forked child forget all: it has opened nothing, and must not close its parent's files."""
    global _process
    _process = _Process()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
