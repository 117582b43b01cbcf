"""The disk under the databases: how fast it syncs now, and whether it is a disk at all."""

import os
import time
from pathlib import Path

PAGE = b"z" * 4096


def syncs_per_second(directory: Path, seconds: float) -> float:
    """fdatasync after a 4 KiB append, again and again: what one durable commit costs here at this moment."""
    probe = directory / "fsync.probe"
    descriptor = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        began = time.perf_counter()
        count = 0
        while (passed := time.perf_counter() - began) < seconds:
            os.write(descriptor, PAGE)
            os.fdatasync(descriptor)
            count += 1
        return count / passed
    finally:
        os.close(descriptor)
        probe.unlink()


def filesystem(directory: Path) -> str:
    """The type of the file system that holds `directory`, `unknown` where the system does not tell."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    best, kind = "", "unknown"
    where = str(directory.resolve())
    for line in mounts.read_text().splitlines():
        _, point, this_kind, *_ = line.split(" ")
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, this_kind
    return kind
