"""The bytes of a file as they were at one moment. A file that changes meanwhile is refused, never half read."""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from pathlib import Path

import msgspec

from onceward_apps.documents.limits import MB, STANDARD, ReadingLimits
from onceward_apps.documents.reading import Reason, Unreadable


class Snapshot(msgspec.Struct, frozen=True):
    """A file in memory."""

    name: str
    data: bytes
    content_hash: str
    """SHA-256 of the bytes, in hex."""


def take_snapshot(path: Path, *, limits: ReadingLimits = STANDARD) -> Snapshot:
    """Read a file whole. Raises Unreadable: missing, not readable, empty, too large, changed."""
    try:
        before = path.stat()
        if not stat.S_ISREG(before.st_mode):
            raise Unreadable(Reason.NOT_READABLE, "it is no regular file")
        if before.st_size > limits.file_bytes:
            raise Unreadable(
                Reason.TOO_LARGE,
                f"{before.st_size / MB:,.1f} MB; files of up to {limits.file_bytes / MB:,.1f} MB are read",
            )
        with path.open("rb") as file:
            opened = os.fstat(file.fileno())
            data = file.read(before.st_size + 1)  # one more than there should be, to see that there is no more
            read = os.fstat(file.fileno())
        after = path.stat()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise Unreadable(Reason.MISSING, "there is no such file") from error
    except OSError as error:
        raise Unreadable(Reason.NOT_READABLE, error.strerror or str(error)) from error
    if len({_version(one) for one in (before, opened, read, after)}) > 1 or len(data) != before.st_size:
        raise Unreadable(Reason.CHANGED, "its size, time or place changed; add it again when it is complete")
    if not data:
        raise Unreadable(Reason.EMPTY, "it has no bytes")
    return Snapshot(path.name, data, sha256(data).hexdigest())


def _version(status: os.stat_result) -> tuple[int, ...]:
    """What is another after a file was written to or replaced."""
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
