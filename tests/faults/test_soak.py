"""A worker that is busy for long takes no more memory, files and threads than one that has just become busy."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.fleet import Fleet, wait_until
from tests.faults.work import STAGES
from tests.proof.tally import Tally

MOST_GROWTH = 1.05
"""By how much more memory it may have in the end than after a sixth of the time."""
MOST_THREADS = 28
"""Those for stages, which are begun when they are needed, and a few of the engine's own."""
PARTS = 6


class Taken(NamedTuple):
    """What a process takes of its machine."""

    memory_kb: int
    files: int
    threads: int

    @staticmethod
    def by(pid: int) -> Taken:
        """Look at it."""
        said = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        files = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return Taken(int(said["VmRSS"].split()[0]), files, int(said["Threads"]))


@pytest.mark.torture
def test_a_worker_that_is_busy_for_long_takes_no_more_than_before(fleet: Fleet) -> None:
    be_busy(fleet, seconds=480)


def be_busy(fleet: Fleet, *, seconds: float) -> None:
    """Keep a worker busy, and look at what it takes now and then."""
    worker = fleet.start(settings={"concurrency": 20, "threads": 16})
    wait_until(fleet.living_pids, "the worker is there", fleet.state)
    ids: list[int] = []
    taken: list[Taken] = []
    for _ in range(PARTS):
        ids += fleet.keep_busy(seconds / PARTS)
        taken.append(Taken.by(worker.pid))
    first, last = taken[0], taken[-1]
    assert last.memory_kb <= MOST_GROWTH * first.memory_kb, taken
    assert last.files <= first.files + 2, taken
    assert last.threads <= MOST_THREADS, taken
    worker.send(signal.SIGTERM)
    assert worker.end() == 0, worker.said()
    fleet.all_succeeded(ids)
    fleet.exactly_once((task, stage) for task in ids for stage in STAGES)
    Tally(
        matrix="F10",
        fault=f"busy for {seconds / 60:g} minutes: memory, files and threads do not grow",
        store=fleet.app.dialect,
        faults=1,
        accepted=len(ids),
        commits=len(ids) * len(STAGES),
    ).keep()
