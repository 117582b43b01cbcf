"""Killing a worker process while it surely holds something."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress

LOOK_EVERY_S = 0.005


def kill_a_busy_one(busy: Callable[[], Collection[int]], dice: random.Random, *, patience_s: float) -> int | None:
    """Kill one of the processes that hold work, by their pids; which one, or none if none was caught at it in time.

    What one held a moment ago may be done. So it is stopped, and looked at once more.
    """
    give_up_at = time.monotonic() + patience_s
    while time.monotonic() < give_up_at:
        if pids := sorted(busy()):
            pid = dice.choice(pids)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                holds = pid in busy()
                os.kill(pid, signal.SIGKILL if holds else signal.SIGCONT)
                if holds:
                    return pid
        time.sleep(LOOK_EVERY_S)
    return None
