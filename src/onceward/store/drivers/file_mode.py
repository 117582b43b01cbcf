"""New database files are readable by their owner alone, whatever the umask says."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress


def make_private(path: str) -> None:
    """Create a missing database file with mode 0600; an existing file keeps its mode.

    SQLite gives `-wal` and `-shm` the mode of the file itself. The file is created under another name and linked:
    closing a file that another thread of this process has opened meanwhile would drop that thread's locks on it. Errors
    of the folder are left for SQLite to report; file systems without links, as FAT, have no modes either.
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
