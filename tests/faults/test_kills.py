"""Worker processes killed at random, again and again: every task succeeds and every row is there once."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress

import pytest

from onceward import Event
from tests.faults.fleet import Fleet, wait_until
from tests.faults.work import STAGES, Steps
from tests.proof.tally import SEED, Tally

PROCESSES = 4


def test_random_kills_lose_nothing_and_double_nothing(fleet: Fleet) -> None:
    kill_at_random(fleet, tasks=300, kills=10, longest_ms=50)


@pytest.mark.torture
def test_a_hundred_random_kills_lose_nothing_and_double_nothing(fleet: Fleet) -> None:
    kill_at_random(fleet, tasks=2_000, kills=100, longest_ms=300)


def kill_at_random(fleet: Fleet, *, tasks: int, kills: int, longest_ms: int) -> None:
    """Kill children of a supervisor while they work; work that they could run out of is handed in bit by bit."""
    dice = random.Random(SEED * tasks)
    worker = fleet.start(processes=PROCESSES, settings={"concurrency": 8})
    portion = max(1, tasks // kills)
    ids: list[int] = []
    killed: set[int] = set()
    while len(killed) < kills:
        if len(ids) < tasks:
            ids += fleet.enqueue(Steps(number, longest_ms) for number in range(min(portion, tasks - len(ids))))
        alive = wait_until(lambda: _most_are_there(fleet, killed), "most children are there", fleet.state)
        pid = dice.choice(sorted(alive))
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        killed.add(pid)
        time.sleep(min(0.5, dice.expovariate(1 / 0.1)))
    ids += fleet.enqueue(Steps(number, longest_ms) for number in range(tasks - len(ids)))
    wait_until(lambda: fleet.ended() == len(ids), "every task has ended", fleet.state, limit_s=60 + kills)
    worker.send(signal.SIGTERM)
    assert worker.end() == 0

    fleet.all_succeeded(ids)
    fleet.exactly_once((task, stage) for task in ids for stage in STAGES)
    fleet.verified()
    reclaims = fleet.events(Event.RECLAIMED) + fleet.events(Event.CRASHED)
    assert reclaims > 0, "no kill has hit anything"
    Tally(
        matrix="F01",
        fault="worker killed at random",
        store=fleet.app.dialect,
        faults=len(killed),
        accepted=len(ids),
        commits=len(ids) * len(STAGES),
        refused=fleet.events(Event.LOST),
    ).keep()


def _most_are_there(fleet: Fleet, killed: set[int]) -> set[int]:
    """The children that can be killed, unless there are so few that no work would ever be done."""
    alive = set(fleet.living_pids()) - killed
    return alive if len(alive) >= PROCESSES - 1 else set()
