"""Testing pipelines without a server, a sleep or a mock.

    harness = Harness(app)                  # the app on an in-memory database, with a clock that you move
    task = harness.enqueue(Listing(url))
    harness.crash("after scrape")           # the worker dies there, once
    harness.drain()                         # everything that can happen has happened
    assert harness.task(task).status is Status.SUCCEEDED

`run_stage(stage, payload, results={…})` calls one stage with a context of values.
"""

from __future__ import annotations

from onceward.testing.clock import FakeClock
from onceward.testing.harness import Drained, Harness
from onceward.testing.stages import StageRun, run_stage
from onceward.worker.crash_points import POINTS

__all__ = ["POINTS", "Drained", "FakeClock", "Harness", "StageRun", "run_stage"]
