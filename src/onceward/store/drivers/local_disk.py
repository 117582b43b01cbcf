"""A SQLite file belongs on a disk of this machine.

Processes that use one file agree on its log in memory that they share (`-shm`). Other machines do not share it: where
two of them open a file over a network, each overwrites what the other has committed, and no error says so.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from onceward.errors import ConfigError

MOUNTS = Path("/proc/self/mountinfo")
"""Where Linux says what is mounted where. On other systems nothing is known, and nothing refused."""
OVER_A_NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "afs", "ocfs2", "gfs2",
    "orangefs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.juicefs",
})  # fmt: skip
"""File systems that other machines may have mounted at the same time."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def insist_on_local_disk(path: str) -> None:
    """Refuse a file that other machines may have open."""
    kind = file_system_of(path)
    if kind in OVER_A_NETWORK:
        raise ConfigError(
            f"the database file {path} is on a network file system ({kind}), where SQLite loses commits as soon as a "
            "second machine opens it: put it on a disk of this machine, or use PostgreSQL"
        )


def file_system_of(path: str) -> str | None:
    """The kind of file system that a file is on, or will be; None where the system does not say."""
    try:
        mounts = MOUNTS.read_bytes().splitlines()
    except OSError:
        return None
    place = os.fsencode(os.path.realpath(path))
    best, found = -1, None
    for mount in mounts:
        # What is mounted, and where; any number of fields, a hyphen; then what kind of file system it is.
        ours, _, its = mount.partition(b" - ")
        point = _ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), ours.split(b" ")[4])
        # Of two at one place the later one hides the other.
        if len(point) >= best and (place + b"/").startswith(point.rstrip(b"/") + b"/"):
            best, found = len(point), its.split(b" ", 1)[0].decode()
    return found
