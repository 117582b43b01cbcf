"""Named places in the code where a test may make a worker die.

In production a point is one look at a module variable. `onceward.testing` and the fault tests set `hook`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

POINTS = (
    "after claim",
    "before <stage>",
    "after <stage>",
    "before commit",
    "inside commit",
    "after commit",
    "before release",
    "during reclaim",
)
"""Every point; `<stage>` is the name of a stage."""

VARIABLE = "ONCEWARD_CRASH_POINT"

hook: Callable[[str], None] | None = None


def reach(point: str) -> None:
    """Say that the code has come to a point."""
    if hook is not None:
        hook(point)


def arm_from_environment() -> None:
    """Die by SIGKILL at the n-th arrival at a point, as in `ONCEWARD_CRASH_POINT="after commit:3"`."""
    global hook
    wanted, _, count = os.environ.get(VARIABLE, "").partition(":")
    if not wanted:
        return
    left = [int(count or 1)]

    def die(point: str) -> None:
        if point == wanted:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    hook = die
