"""A worker dies by SIGKILL at each named point of the code, once, and another one finishes what it had begun."""

from __future__ import annotations

import signal
from functools import partial

from onceward.worker.points import POINTS
from tests.faults.fleet import Fleet, Fleets
from tests.faults.work import STAGES, Steps

TASKS = 5
STAGE = {"sqlite": "second", "postgres": "third"}
"""The stage of the points that name one: on one store it runs in a thread, on the other on the event loop."""
LATER_ARRIVAL = {"before commit": 3, "inside commit": 3, "after commit": 3}
"""The first commits of a worker only claim; by the third something was done."""


def test_a_worker_that_dies_at_any_point_leaves_nothing_lost_and_nothing_double(fleets: Fleets) -> None:
    fleets.on_each_store(*(partial(die_at, point) for point in POINTS))


def die_at(point: str, fleet: Fleet) -> None:
    """Have a worker die at a point, and another one do the rest."""
    tasks = fleet.enqueue(Steps(number, longest_ms=2) for number in range(TASKS))
    if point == "during reclaim":
        assert fleet.start(crash_at="after claim").end() == -signal.SIGKILL
    told = f"{point.replace('<stage>', STAGE[fleet.app.dialect])}:{LATER_ARRIVAL.get(point, 1)}"
    doomed = fleet.start(until_idle=True, crash_at=told)
    assert doomed.end() == -signal.SIGKILL, f"it never came to {point!r}\n{doomed.said()}"
    fleet.run_dry()
    fleet.all_succeeded(tasks)
    fleet.exactly_once((task, stage) for task in tasks for stage in STAGES)
