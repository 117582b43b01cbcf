"""What a supervisor and its children owe each other, and what others on the same machine may conclude about them."""

from __future__ import annotations

import signal

from tests.faults.fleet import Fleet, wait_until
from tests.faults.work import SLOW_START, Plain


def test_a_child_that_takes_long_to_start_is_not_declared_dead_by_others(fleet: Fleet) -> None:
    other = fleet.start(lease="30s")
    wait_until(fleet.living_pids, "the other is there", fleet.state)
    supervisor = fleet.start(processes=1, lease="30s", environment={SLOW_START: "2.5"})
    wait_until(lambda: len(fleet.living_pids()) == 2, "the child has introduced itself", fleet.state)
    tasks = fleet.enqueue(Plain(number) for number in range(20))
    wait_until(lambda: fleet.ended() == 20, "all have ended", fleet.state)
    for worker in (other, supervisor):
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    fleet.all_succeeded(tasks)
    assert fleet.sql("SELECT DISTINCT ended_how FROM onceward_worker") == [("stopped",)]
