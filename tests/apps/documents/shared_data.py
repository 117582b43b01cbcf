"""Books and papers that lie beside the project. Tests read them in place, and are skipped where they are absent."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data"


def shared(folder: str) -> list[Path]:
    """The files of a folder of shared data."""
    return sorted((DATA / folder).glob("*"))


def shared_file(name: str) -> Path:
    """One of them."""
    if not (path := DATA / name).exists():
        pytest.skip(f"the shared data is not here: {name}")
    return path
