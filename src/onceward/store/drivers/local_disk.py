"""A SQLite file belongs on a disk of this machine.

Processes that use one file coordinate in shared memory (`-shm`), which machines do not share: if two machines open a
file over a network, each overwrites the other's commits without an error.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from onceward.errors import ConfigError

MOUNTS = Path("/proc/self/mountinfo")
"""Where Linux lists mounts; other systems have no such list, and nothing is refused there."""
OVER_A_NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "glusterfs", "lustre", "gpfs", "beegfs", "afs", "ocfs2", "gfs2",
    "orangefs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.juicefs",
})  # fmt: skip
"""File systems that other machines may have mounted at the same time."""
_ESCAPED = re.compile(rb"\\([0-7]{3})")


def insist_on_local_disk(path: str) -> None:
    """Refuse a database file on a network file system."""
    kind = file_system_of(path)
    if kind in OVER_A_NETWORK:
        raise ConfigError(
            f"the database file {path} is on a network file system ({kind}), where SQLite loses commits as soon as a "
            "second machine opens it: put it on a disk of this machine, or use PostgreSQL"
        )


def file_system_of(path: str) -> str | None:
    """The file system that holds a path, also of a file to come; None where the system does not say."""
    try:
        mounts = MOUNTS.read_bytes().splitlines()
    except OSError:
        return None
    place = os.fsencode(os.path.realpath(path))
    best, found = -1, None
    for mount in mounts:
        # A mount point among other fields, a hyphen, then the kind of file system.
        ours, _, its = mount.partition(b" - ")
        point = _ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), ours.split(b" ")[4])
        # Of two mounts at one point the later one hides the other.
        if len(point) >= best and (place + b"/").startswith(point.rstrip(b"/") + b"/"):
            best, found = len(point), its.split(b" ", 1)[0].decode()
    return found
