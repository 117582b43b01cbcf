"""Database files that we make are for their owner alone, whatever the umask says."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress


def make_private(path: str) -> None:
    """Make a database file that is not there yet, with mode 0600. SQLite gives those beside it, `-wal` and `-shm`, the
    mode of the file itself. One that is there keeps the mode that its owner has given it.

    It is made under another name: to close a file that somebody else in this process may have opened meanwhile would
    take away the locks on it. What is wrong with the place is said by SQLite, in the same words as ever; where files
    cannot have two names, as on FAT, there are no modes either.
    """
    path = os.path.realpath(path)
    if os.path.exists(path):
        return
    new = f"{path}-{uuid.uuid4().hex}"
    with suppress(OSError):
        os.close(os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            os.link(new, path)
        finally:
            os.unlink(new)
