"""What stands between SQLite and the operating system, so that tests can count, refuse or remember what goes through.

SQLite asks its operating system through a table of C functions, its VFS. The table that apsw's SQLite uses by default
is found through a connection, and the functions that read or change something are replaced by ones that ask a `Disk`
first. So every connection of the process is caught, whoever opens it, and an error has the form in which SQLite meets a
real one: a number, which it may as well ignore. (An exception raised in a VFS that is a class of apsw comes out of the
statement, ignored by SQLite or not.)
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char_p, c_int, c_int64, c_void_p
from functools import cache
from typing import Any, cast

import apsw

Go = Callable[[], int]
"""Does what was asked for, and returns SQLite's number for what came of it."""

_Read = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Write = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_Truncate = ctypes.CFUNCTYPE(c_int, c_void_p, c_int64)
_Sync = ctypes.CFUNCTYPE(c_int, c_void_p, c_int)
_ShmMap = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int, c_void_p)
_ShmLock = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_int)
_Open = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_Delete = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)
_OpenFolder = ctypes.CFUNCTYPE(c_int, c_char_p, POINTER(c_int))
_GetSystemCall = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_char_p)
_SetSystemCall = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`: what can be asked of an open file."""

    _fields_ = (
        ("version", c_int),
        *((name, c_void_p) for name in ("close", "read", "write", "truncate", "sync", "file_size")),
        *((name, c_void_p) for name in ("lock", "unlock", "check_reserved_lock", "file_control")),
        *((name, c_void_p) for name in ("sector_size", "device_characteristics")),
        *((name, c_void_p) for name in ("shm_map", "shm_lock", "shm_barrier", "shm_unmap", "fetch", "unfetch")),
    )


class _File(ctypes.Structure):
    """`sqlite3_file`: an open file, of which only the beginning is anybody's business."""

    _fields_ = (("methods", POINTER(_Methods)),)


class _Vfs(ctypes.Structure):
    """`sqlite3_vfs`: what can be asked of an operating system."""

    _fields_ = (
        *((name, c_int) for name in ("version", "size_of_file", "longest_path")),
        *((name, c_void_p) for name in ("next", "name", "app_data", "open", "delete", "access", "full_path")),
        *((name, c_void_p) for name in ("dl_open", "dl_error", "dl_sym", "dl_close", "randomness", "sleep")),
        *((name, c_void_p) for name in ("current_time", "last_error", "current_time_64")),
        *((name, c_void_p) for name in ("set_system_call", "get_system_call", "next_system_call")),
    )


class Disk:
    """Lets everything through. What inherits from it may count, refuse, or remember.

    A `file` is the path as SQLite has it. Every method returns 0 or an error code of SQLite.
    """

    def open(self, file: str, is_journal: bool, go: Go) -> int:
        """A file is to be opened, and made if it is not there."""
        return go()

    def delete(self, file: str, go: Go) -> int:
        """A file is to be deleted."""
        return go()

    def read(self, file: str, go: Go) -> int:
        """Bytes are to be read from a file."""
        return go()

    def write(self, file: str, offset: int, data: Callable[[], bytes], go: Go) -> int:
        """Bytes are to be written somewhere in a file."""
        return go()

    def truncate(self, file: str, size: int, go: Go) -> int:
        """The length of a file is to be set."""
        return go()

    def sync(self, file: str, go: Go) -> int:
        """What was written is to be on the platters."""
        return go()

    def folder_synced(self, folder: str) -> None:
        """The names in a folder are about to be on the platters."""

    def shm_map(self, file: str, go: Go) -> int:
        """A part of the index of the WAL is to be had as shared memory."""
        return go()

    def shm_lock(self, file: str, go: Go) -> int:
        """A lock in shared memory is to be taken; to give one back never fails."""
        return go()


_disk = Disk()
_names: dict[int, str] = {}
"""Open files by their address."""
_kept: list[Any] = []
"""What C still points to."""


@contextmanager
def standing_between(disk: Disk) -> Iterator[None]:
    """Everything that SQLite does in this process goes through a disk of ours."""
    global _disk
    _stand_between()
    _disk = disk
    try:
        yield
    finally:
        _disk = Disk()


@cache
def _stand_between() -> None:
    """Replace the functions, once and for ever: files that are open go on using them."""
    vfs = _default_vfs()
    was_open, was_delete = _Open(vfs.open), _Delete(vfs.delete)
    tables: dict[int, _Methods] = {}

    def opening(itself: int, name: int | None, file: int, flags: int, out: int) -> int:
        methods = _File.from_address(file)
        methods.methods = POINTER(_Methods)()  # SQLite must not close what was never opened
        path = "" if name is None else ctypes.string_at(name).decode()
        is_journal = bool(flags & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL))
        code = _disk.open(path, is_journal, lambda: was_open(itself, name, file, flags, out))
        if code == apsw.SQLITE_OK:
            _names[file] = path
            real = ctypes.addressof(methods.methods.contents)
            if real not in tables:
                tables[real] = _wrapped(methods.methods.contents)
            methods.methods = ctypes.pointer(tables[real])
        return code

    def deleting(itself: int, name: bytes, syncs_folder: int) -> int:
        return _disk.delete(name.decode(), lambda: was_delete(itself, name, syncs_folder))

    vfs.open, vfs.delete = _pointer(_Open(opening)), _pointer(_Delete(deleting))
    _watch_folders(vfs)


def _watch_folders(vfs: _Vfs) -> None:
    """A folder is opened by SQLite for one purpose only: to be synced."""
    was = _OpenFolder(_GetSystemCall(vfs.get_system_call)(ctypes.addressof(vfs), b"openDirectory"))

    def opening(name: bytes, descriptor: Any) -> int:
        _disk.folder_synced(name.decode())
        return was(name, descriptor)

    now = _pointer(_OpenFolder(opening))
    _SetSystemCall(vfs.set_system_call)(ctypes.addressof(vfs), b"openDirectory", now)


def _wrapped(real: _Methods) -> _Methods:
    """A table like the real one, which asks our disk before it reads or changes anything."""
    was_read, was_write, was_truncate, was_sync = (
        _Read(real.read),
        _Write(real.write),
        _Truncate(real.truncate),
        _Sync(real.sync),
    )

    def read(file: int, into: int, amount: int, offset: int) -> int:
        return _disk.read(_names[file], lambda: was_read(file, into, amount, offset))

    def write(file: int, data: int, amount: int, offset: int) -> int:
        def go() -> int:
            return was_write(file, data, amount, offset)

        return _disk.write(_names[file], offset, lambda: ctypes.string_at(data, amount), go)

    def truncate(file: int, size: int) -> int:
        return _disk.truncate(_names[file], size, lambda: was_truncate(file, size))

    def sync(file: int, flags: int) -> int:
        return _disk.sync(_names[file], lambda: was_sync(file, flags))

    table = _Methods.from_buffer_copy(real)
    table.read, table.write = _pointer(_Read(read)), _pointer(_Write(write))
    table.truncate, table.sync = _pointer(_Truncate(truncate)), _pointer(_Sync(sync))
    if real.version >= 2 and real.shm_map:
        was_map, was_lock = _ShmMap(real.shm_map), _ShmLock(real.shm_lock)

        def shm_map(file: int, page: int, size: int, extends: int, out: int) -> int:
            return _disk.shm_map(_names[file], lambda: was_map(file, page, size, extends, out))

        def shm_lock(file: int, offset: int, count: int, flags: int) -> int:
            if not flags & apsw.SQLITE_SHM_LOCK:
                return was_lock(file, offset, count, flags)
            return _disk.shm_lock(_names[file], lambda: was_lock(file, offset, count, flags))

        table.shm_map, table.shm_lock = _pointer(_ShmMap(shm_map)), _pointer(_ShmLock(shm_lock))
    return table


def _default_vfs() -> _Vfs:
    """The table of functions that connections use where nothing else is said."""
    found = c_void_p()
    connection = apsw.Connection(":memory:")
    connection.file_control("main", apsw.SQLITE_FCNTL_VFS_POINTER, ctypes.addressof(found))
    connection.close()
    return _Vfs.from_address(cast(int, found.value))


def _pointer(function: Any) -> int:
    """The address of a function for C, which must live as long as the process."""
    _kept.append(function)
    return cast(int, ctypes.cast(function, c_void_p).value)
