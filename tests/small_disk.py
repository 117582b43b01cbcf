"""A disk with a few megabytes: a file system in memory, which takes the right to mount one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Meanwhile a folder is a disk of its own. Where that cannot be, the test is skipped."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "onceward-test", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no program to mount a disk with")
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(file: Path) -> None:
    """Write a file until the disk is full."""
    with file.open("ab", buffering=0) as filling:
        for size in (1 << 16, 1 << 10, 1):
            with suppress(OSError):
                while filling.write(bytes(size)) == size:
                    pass
    assert os.statvfs(file).f_bavail == 0
