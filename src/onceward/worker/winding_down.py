"""The end of a worker's work: no new claims, a grace period for the stages that run, and the rest given back."""

from __future__ import annotations

import time
from collections.abc import Callable

from onceward.store.drivers.availability import database
from onceward.worker.event_loop import first_of
from onceward.worker.runner import TICK_S, Runner

LAST_COMMITS_S = 10.0
"""How long the last commits may take, those that give leases back."""
LOOK_S = 0.005


async def wind_down(runner: Runner, grace_s: float, is_urgent: Callable[[], bool]) -> None:
    """Let running stages end for a while, then give back what is left; `is_urgent`, and nothing is waited for."""
    runner.stop_claiming()
    deadline = time.monotonic() + grace_s
    while not runner.is_drained and not is_urgent() and time.monotonic() < deadline:
        await first_of(None, runner.changed, TICK_S)
        runner.changed.clear()
        runner.tick()
    runner.release_all()
    last = time.monotonic() + LAST_COMMITS_S
    while not runner.is_drained and time.monotonic() < last:
        if database.is_away and is_urgent():
            break
        await first_of(None, runner.changed, LOOK_S)
        runner.changed.clear()
