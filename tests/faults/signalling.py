"""Signals that a worker process of the fault tests sends itself where the engine comes to a named point.

`FAULTS_SIGNAL="SIGTERM at after claim"` is for each time; `"SIGSTOP at after first then before commit"` for each time
that it comes to one point and later to another. With `FAULTS_SIGNAL_ONCE`, a path, only the first process that comes
there does it, once: it leaves a file.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from onceward.worker import crash_points

SIGNAL = "FAULTS_SIGNAL"
ONCE = "FAULTS_SIGNAL_ONCE"


def arm_from_environment() -> None:
    """Do as the environment says."""
    name, *places = os.environ.get(SIGNAL, "").replace(" at ", " then ").split(" then ")
    once = os.environ.get(ONCE)
    reached = 0
    if not name:
        return

    def send(point: str) -> None:
        nonlocal reached
        if point == places[reached]:
            reached += 1
            if reached == len(places):
                reached = 0
                if once is None or _is_first(Path(once)):
                    os.kill(os.getpid(), signal.Signals[name])

    crash_points.hook = send


def _is_first(file: Path) -> bool:
    try:
        file.open("x").close()
    except FileExistsError:
        return False
    return True
