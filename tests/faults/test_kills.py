"""Worker processes killed at random, again and again: every task succeeds and every row is there once."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from functools import partial

import pytest

from onceward import Status
from tests.faults.counting import keep, recovered_s, taken_back
from tests.faults.fleet import Fleet, Fleets, Worker, wait_until
from tests.faults.work import STAGES, Steps
from tests.killing import kill_a_busy_one
from tests.proof.tally import SEED

PROCESSES = 4
NEVER_SUSPECTED = 1_000_000
"""Nobody can tell a killed worker from one that its task has killed; here it is always the former."""


def test_random_kills_lose_nothing_and_double_nothing(fleet: Fleet) -> None:
    kill_children(fleet, tasks=90, kills=3, longest_ms=50)


@pytest.mark.torture
def test_a_hundred_random_kills_lose_nothing_and_double_nothing(fleet: Fleet) -> None:
    kill_children(fleet, tasks=2_000, kills=100, longest_ms=300)


def kill_children(fleet: Fleet, *, tasks: int, kills: int, longest_ms: int) -> None:
    """Kill children of a supervisor, rather those that hold work; work that they could run out of is handed in bit by
    bit."""
    dice = random.Random(SEED * tasks)
    worker = fleet.start(processes=PROCESSES, settings={"concurrency": 8})
    portion = max(1, tasks // kills)
    ids: list[int] = []
    killed: dict[int, float] = {}
    while len(killed) < kills:
        if len(ids) < tasks:
            ids += fleet.enqueue(Steps(number, longest_ms) for number in range(min(portion, tasks - len(ids))))
        alive = wait_until(lambda: _most_are_there(fleet, set(killed)), "most children are there", fleet.state)
        if (pid := kill_a_busy_one(partial(fleet.busy_pids, alive), dice, patience_s=0.1)) is None:
            pid = dice.choice(sorted(alive))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed[pid] = time.time()
        time.sleep(min(0.5, dice.expovariate(1 / 0.1)))
    ids += fleet.enqueue(Steps(number, longest_ms) for number in range(tasks - len(ids)))
    wait_until(lambda: fleet.ended() == len(ids), "every task has ended", fleet.state, limit_s=60 + kills)
    worker.send(signal.SIGTERM)
    assert worker.end() == 0
    judge(fleet, ids)
    keep(
        fleet.app,
        "F01",
        "child of a supervisor killed at random",
        faults=len(killed),
        recovery_s=recovered_s(fleet.app, killed),
    )


def _most_are_there(fleet: Fleet, killed: set[int]) -> set[int]:
    """The children that can be killed, unless there are so few that no work would ever be done."""
    alive = set(fleet.living_pids()) - killed
    return alive if len(alive) >= PROCESSES - 1 else set()


def judge(fleet: Fleet, ids: list[int]) -> None:
    """Nothing is lost, nothing double, and somebody was hit."""
    fleet.all_succeeded(ids)
    fleet.exactly_once((task, stage) for task in ids for stage in STAGES)
    fleet.verified()
    assert taken_back(fleet.app) > 0, "no kill has hit anything"


# Workers without a supervisor: they start at once, so that many can be killed in a short time.


def test_lone_workers_killed_in_quick_succession_lose_nothing_and_double_nothing(fleets: Fleets) -> None:
    fleets.take_turns(partial(kill_lone_workers, kills=12, workers=4), first="sqlite")


@pytest.mark.torture
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_thousand_lone_workers_killed_lose_nothing_and_double_nothing(fleets: Fleets, store: str) -> None:
    fleets.try_all([(store, partial(kill_lone_workers, kills=1_000, workers=8))])


def kill_lone_workers(fleet: Fleet, *, kills: int, workers: int, mean_s: float = 0.05, longest_ms: int = 100) -> None:
    """Kill one that holds work after another, at random intervals; a new one takes its place. There is always work."""
    dice = random.Random(f"{SEED} {kills} {fleet.app.dialect}")
    begun_at = time.monotonic()
    ids: list[int] = []
    killed: dict[int, float] = {}

    def start() -> Worker:
        return fleet.start(lease="5s", settings={"concurrency": 3, "max_lost_workers": NEVER_SUSPECTED})

    living = {worker.pid: worker for worker in (start() for _ in range(workers))}
    while len(killed) < kills:
        if len(ids) - fleet.ended() < 4 * workers:
            ids += fleet.enqueue(Steps(number, longest_ms) for number in range(8 * workers))
        busy = wait_until(lambda: sorted(set(fleet.busy_pids()) & set(living)), "somebody holds work", fleet.state)
        time.sleep(min(10 * mean_s, dice.expovariate(1 / mean_s)))
        pid = dice.choice(busy)
        killed[pid] = fleet.kill(living.pop(pid))
        new = start()
        living[new.pid] = new
    took_s = time.monotonic() - begun_at
    wait_until(lambda: fleet.ended() == len(ids), "every task has ended", fleet.state, limit_s=60 + kills / 10)
    for worker in living.values():
        worker.send(signal.SIGTERM)
    assert {worker.end() for worker in living.values()} == {0}
    assert fleet.counts() == {Status.SUCCEEDED: len(ids)}
    judge(fleet, ids)
    print(f"\n{fleet.app.dialect}: {kills / took_s * 3_600:,.0f} kills an hour")
    keep(
        fleet.app,
        "F01",
        "worker killed at random",
        faults=len(killed),
        recovery_s=recovered_s(fleet.app, killed),
    )
