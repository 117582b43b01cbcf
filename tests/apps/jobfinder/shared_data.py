"""Real answers, feeds, rules and addresses, read in place. They are not part of the source."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("ONCEWARD_DATA") or Path(__file__).resolve().parents[3].parent / "shared" / "data")
"""The folder of real answers: the variable names it, or it stands beside the repository."""


def shared_file(name: str) -> Path:
    """One file of the shared data; the test is skipped where it is absent."""
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"the shared data is not here: {name}")
    return path


def shared_files(folder: str) -> list[Path]:
    """All files below a folder of the shared data; the test is skipped where there are none."""
    found = sorted(path for path in (DATA / folder).rglob("*") if path.is_file())
    if not found:
        pytest.skip(f"the shared data is not here: {folder}")
    return found
