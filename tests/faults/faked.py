"""Clocks that are wrong: processes under libfaketime, whose wall clock is off, runs too fast, or is set by a test."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
"""None where libfaketime is not installed."""


def wrong_clock(says: str) -> dict[str, str]:
    """Variables for a process whose wall clock is wrong, as libfaketime has it: `"+3600s"`, `"-3600s"`, `"+0 x10"`.

    Its monotonic clock stays right: one cannot set it, and a machine has only one.
    """
    return _variables({"FAKETIME": says})


class SteppedClock:
    """A wall clock that a test sets while a process goes by it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)
        self.variables = _variables({"FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"})

    def set(self, offset_s: int) -> None:
        """Let it be off by so much from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{offset_s:+d}s\n")
        new.chmod(0o644)  # the process may be another user's
        new.replace(self._file)

    def offset_s(self) -> float:
        """How much it is off, by a process that goes by it."""
        return measured_offset_s(self.variables)


def measured_offset_s(variables: Mapping[str, str]) -> float:
    """How much the clock is off of a process with these variables, right after its start."""
    said = subprocess.run(["date", "+%s.%N"], env=dict(variables), capture_output=True, text=True, check=True).stdout
    return float(said) - time.time()


def under(variables: Mapping[str, str]) -> list[str]:
    """The program under which a process goes by such a clock."""
    return ["env", *(f"{name}={value}" for name, value in variables.items())]


def _variables(more: Mapping[str, str]) -> dict[str, str]:
    return {"LD_PRELOAD": str(LIBRARY), "FAKETIME_DONT_FAKE_MONOTONIC": "1", **more}


def mend_sleep() -> None:
    """Under libfaketime `time.sleep` fails: it mistakes a moment of the monotonic clock for one of the wall clock."""
    if "faketime" in os.environ.get("LD_PRELOAD", ""):
        time.sleep = lambda seconds, /: select.select([], [], [], float(seconds)) and None
