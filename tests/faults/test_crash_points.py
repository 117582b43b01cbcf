"""Workers die by SIGKILL at each named point of the code, and another one finishes what they had begun."""

from __future__ import annotations

import random
import signal
import time
from functools import partial

import pytest

from onceward.worker.crash_points import POINTS
from tests.faults.counting import keep, recovered_s
from tests.faults.fleet import Fleet, Fleets
from tests.faults.work import STAGES, Steps
from tests.proof.tally import SEED

TASKS = 5
STAGE = {"sqlite": "second", "postgres": "third"}
"""The stage of the points that name one: on one store it runs in a thread, on the other on the event loop."""
LATER_ARRIVAL = {"before commit": 3, "inside commit": 3, "after commit": 3}
"""The first commits of a worker only claim; by the third something was done."""
LATEST_ARRIVAL = {"after <stage>": 5, "before <stage>": 5, "before commit": 10, "inside commit": 10, "after commit": 10}
"""Where a worker with these tasks comes to a point often, the last time that it surely comes."""


def test_a_worker_that_dies_at_any_point_leaves_nothing_lost_and_nothing_double(fleets: Fleets) -> None:
    fleets.take_turns(*(partial(die_at, point, LATER_ARRIVAL.get(point, 1)) for point in POINTS))


@pytest.mark.torture
def test_workers_that_die_at_any_point_again_and_again_leave_nothing_lost_and_nothing_double(fleets: Fleets) -> None:
    dice = random.Random(SEED)
    for times in (1, 2, 2, 2, 2, 3, 4, 4):
        fleets.on_each_store(
            *(partial(die_at, point, dice.randint(1, LATEST_ARRIVAL.get(point, 1)), times=times) for point in POINTS)
        )


def die_at(point: str, arrival: int, fleet: Fleet, *, times: int = 1) -> None:
    """Have workers die at a point, one after the other, and another one do the rest."""
    tasks: list[int] = []
    killed: dict[int, float] = {}
    settings = {"max_lost_workers": times + 2}
    if arrival > LATER_ARRIVAL.get(point, 1):
        settings["concurrency"] = 1  # stages that end at the same time share a commit, and then there are few
    for _ in range(times):
        tasks += fleet.enqueue(Steps(number, longest_ms=2) for number in range(TASKS))
        if point == "during reclaim":
            lost = fleet.start(crash_at="after claim")
            assert lost.end() == -signal.SIGKILL
            killed[lost.pid] = time.time()
        told = f"{point.replace('<stage>', STAGE[fleet.app.dialect])}:{arrival}"
        doomed = fleet.start(until_idle=True, crash_at=told, settings=settings)
        assert doomed.end() == -signal.SIGKILL, f"it never came to {told!r}\n{doomed.said()}"
        killed[doomed.pid] = time.time()
    fleet.run_dry(settings=settings)
    fleet.all_succeeded(tasks)
    fleet.exactly_once((task, stage) for task in tasks for stage in STAGES)
    fleet.verified()
    keep(fleet.app, "F02", f"worker killed {point}", faults=times, recovery_s=recovered_s(fleet.app, killed))
