"""SIGTERM where it hurts: during a claim, again and again, to a process that is PID 1, with a second of grace."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from onceward import Status
from tests.faults.counting import keep
from tests.faults.fleet import Fleet, Fleets, Worker, compiling_once, wait_until
from tests.faults.signalling import ONCE, SIGNAL
from tests.faults.test_stopping import begin, nothing_is_held_and_nothing_burned, open_the_gate, the_rest_is_done_once
from tests.faults.work import DATABASE, STAGES, Gate, Steps
from tests.nursery import ROOT
from tests.proof.tally import SEED

POINTS = ("after claim", "before commit", "inside commit", "after commit", "before second", "after third")


def test_a_signal_at_the_worst_moment_loses_nothing_and_burns_nothing(fleets: Fleets) -> None:
    fleets.take_turns(
        *(partial(stop_at_a_point, point=point) for point in POINTS),
        stop_within_grace,
        partial(storm, stops=4, workers=2),
    )


@pytest.mark.torture
def test_signals_at_all_moments_lose_nothing_and_burn_nothing(fleets: Fleets) -> None:
    fleets.on_each_store(*(partial(stop_at_a_point, point=point) for point in POINTS), stop_within_grace)
    fleets.on_each_store(partial(storm, stops=300, workers=6), at_once=1)


def stop_at_a_point(fleet: Fleet, point: str) -> None:
    """A worker hears SIGTERM while it claims, commits, begins or ends a stage."""
    tasks = fleet.enqueue(Steps(number, longest_ms=2) for number in range(30))
    file = fleet.folder / "signalled"
    worker = fleet.start(settings={"concurrency": 4}, environment={SIGNAL: f"SIGTERM at {point}", ONCE: str(file)})
    assert worker.end() == 0, worker.said()
    assert file.exists()
    nothing_is_held_and_nothing_burned(fleet)
    fleet.run_dry()
    fleet.all_succeeded(tasks)
    fleet.exactly_once((task, stage) for task in tasks for stage in STAGES)
    keep(fleet.app, "F08", f"SIGTERM {point}", faults=1)


def stop_within_grace(fleet: Fleet) -> None:
    """What does not end within a second of grace is given back, and the process ends."""
    worker, tasks, _ = begin(fleet, None, grace="1s")
    asked_at = time.monotonic()
    worker.send(signal.SIGTERM)
    assert worker.end() == 0, worker.said()
    assert time.monotonic() - asked_at < 1 + 9
    nothing_is_held_and_nothing_burned(fleet)
    assert fleet.rows().total() == 0
    open_the_gate(fleet)
    the_rest_is_done_once(fleet, tasks)
    keep(fleet.app, "F08", "SIGTERM with 1 s of grace", faults=1)


def storm(fleet: Fleet, *, stops: int, workers: int) -> None:
    """Workers are stopped at random, some of them twice, and replaced. None of them leaves anything to take back."""
    dice = random.Random(f"{SEED} {stops} {fleet.app.dialect}")
    ids: list[int] = []
    stopped: list[Worker] = []
    settings = {"concurrency": 4, "grace": "1s"}
    living = [fleet.start(settings=settings) for _ in range(workers)]
    while len(stopped) < stops:
        if len(ids) - fleet.ended() < 5 * workers:
            ids += fleet.enqueue(Steps(number, longest_ms=100) for number in range(10 * workers))
        at_work = wait_until(partial(_at_work, fleet, living), "somebody is at work", fleet.state)
        time.sleep(min(0.5, dice.expovariate(1 / 0.05)))
        victim = dice.choice(at_work)
        signals = [signal.SIGTERM]
        if dice.random() < 0.3:  # two in the same moment, of two kinds: two of one kind would be one
            signals = [signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT]
        for number in signals:
            victim.send(number)
        living.remove(victim)
        stopped.append(victim)
        living.append(fleet.start(settings=settings))
    wait_until(lambda: fleet.ended() == len(ids), "every task has ended", fleet.state, limit_s=60 + stops / 4)
    pids = {worker.pid for worker in living}
    wait_until(lambda: pids <= set(fleet.living_pids()), "the last ones have begun", fleet.state)
    for worker in living:
        worker.send(signal.SIGTERM)
    assert {worker.end() for worker in [*stopped, *living]} == {0}
    nothing_is_held_and_nothing_burned(fleet)
    fleet.all_succeeded(ids)
    fleet.exactly_once((task, stage) for task in ids for stage in STAGES)
    keep(fleet.app, "F08", "storm of SIGTERM", faults=stops + workers)


def _at_work(fleet: Fleet, workers: list[Worker]) -> list[Worker]:
    busy = set(fleet.busy_pids())
    return [worker for worker in workers if worker.pid in busy]


def test_a_supervisor_that_is_pid_1_stops_in_good_order(fleets: Fleets) -> None:
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode
    ):
        pytest.skip("this machine lets us make no process namespace")
    fleets.try_all([("sqlite", be_pid_1)])


@pytest.mark.torture
def test_supervisors_that_are_pid_1_stop_in_good_order(fleets: Fleets) -> None:
    fleets.on_each_store(*[be_pid_1] * 5, at_once=2)


def be_pid_1(fleet: Fleet) -> None:
    """As in a container: nobody is above it, and a signal that it does not handle would not reach it."""
    tasks = fleet.enqueue(Gate(number, str(fleet.folder)) for number in range(30))
    command = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-m", "tests.faults.worker"]
    variables = {DATABASE: fleet.url, "ONCEWARD_THREADS": "2", "ONCEWARD_CONCURRENCY": "8", "ONCEWARD_GRACE": "20s"}
    with (fleet.folder / "pid-1.log").open("wb") as log:
        outer = subprocess.Popen(
            [*command, "--processes", "1"],
            cwd=ROOT,
            env={**compiling_once(), **variables},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: len(list(fleet.folder.glob("inside-*"))) == 2, "stages stand at the gate", fleet.state)
        [inner] = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        os.kill(int(inner), signal.SIGTERM)
        wait_until(lambda: fleet.counts().get(Status.RUNNING, 0) == 2, "the rest is given back", fleet.state)
        open_the_gate(fleet)
        assert outer.wait(60) == 0
    finally:
        outer.kill()
        outer.wait()
    nothing_is_held_and_nothing_burned(fleet)
    assert fleet.rows().total() == 2
    the_rest_is_done_once(fleet, tasks)
    keep(fleet.app, "F08", "SIGTERM to a supervisor that is PID 1", faults=1)
