"""Ways in which a stage ends its own process, or never ends."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
MEMORY_LIMIT = 64 << 20
OUT_OF_MEMORY = "out of memory in "
"""Followed by the folder of the cgroup."""


def die(how: str) -> None:
    """End this process without a word."""
    match how:
        case "exit":
            os._exit(1)
        case "exit as if all were well":
            os._exit(0)
        case "segfault":
            ctypes.string_at(0)
        case "stack overflow":
            sys.setrecursionlimit(1 << 30)
            _recurse_in_c(0)
    if how.startswith(OUT_OF_MEMORY):
        _take_all_memory(Path(how.removeprefix(OUT_OF_MEMORY)))
    raise ValueError(how)


def _recurse_in_c(depth: int) -> list[object]:
    return [*map(_recurse_in_c, [depth + 1])]


def _take_all_memory(cgroup: Path) -> None:
    """Until the kernel ends this process: what it takes from here on is counted in a small cgroup."""
    (cgroup / "cgroup.procs").write_text(str(os.getpid()))
    taken = []
    while True:
        taken.append(bytearray(1 << 20))


@contextmanager
def small_cgroup(name: str) -> Iterator[Path | None]:
    """A cgroup with little memory; None where this process may not make one."""
    for parent, limit in ((CGROUPS / "memory", "memory.limit_in_bytes"), (CGROUPS, "memory.max")):
        folder = parent / name
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / limit).write_text(str(MEMORY_LIMIT))
        except OSError:
            folder.rmdir()
            continue
        try:
            yield folder
        finally:
            folder.rmdir()
        return
    yield None
