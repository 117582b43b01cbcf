"""All tests of the store and of the worker once more, with a store that has trouble all the time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.proof.tally import SEED
from tests.store.trouble import ASKED_FOR

ROOT = Path(__file__).parents[2]


@pytest.mark.torture
@pytest.mark.parametrize("folder", ["tests/store", "tests/worker"])
def test_every_test_passes_with_a_store_that_has_trouble(folder: str) -> None:
    """On both databases; those that are not for it say why (`untroubled`)."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "--dist",
        "loadgroup",
        "-m",
        "not torture and not alone",
    ]
    done = subprocess.run(
        [*command, folder],
        cwd=ROOT,
        env={**os.environ, ASKED_FOR: f"{SEED}:0.2"},
        capture_output=True,
        text=True,
        timeout=3_000,
    )
    assert done.returncode == 0, done.stdout[-8_000:]
