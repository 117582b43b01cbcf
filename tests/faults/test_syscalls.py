"""Processes killed by strace at their n-th write, sync or message, for one n after another."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial

import psycopg
import pytest

from tests.faults.counting import keep, recovered_s
from tests.faults.fleet import Fleet, Fleets, compiling_once
from tests.faults.work import DATABASE, STAGES, Steps
from tests.nursery import ROOT
from tests.proof.tally import SEED

CALLS = {"sqlite": "pwrite64,fdatasync,ftruncate,unlink", "postgres": "sendto"}
"""The calls by which something reaches the database."""
ENQUEUE = """
from tests.faults.work import Plain, app
for number in range(20):
    print(app.enqueue(Plain(number)).id, flush=True)
"""


@pytest.fixture(autouse=True)
def _needs_strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")


def killing_at(store: str, number: int) -> list[str]:
    """The program under which a process dies at its n-th call, before that is carried out."""
    calls = CALLS[store]
    return ["strace", "-f", "-o", "/dev/null", "-e", f"trace={calls}",
            "-e", f"inject={calls}:signal=KILL:when={number}"]  # fmt: skip


def test_a_process_killed_at_a_call_into_the_system_loses_nothing_and_doubles_nothing(fleets: Fleets) -> None:
    dice = random.Random(SEED)
    fleets.take_turns(
        partial(kill_workers, numbers=dice.sample(range(5, 25), 2)),
        partial(kill_clients, numbers=[dice.randint(8, 20)]),
    )


@pytest.mark.torture
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_processes_killed_at_each_call_into_the_system_lose_nothing_and_double_nothing(
    fleets: Fleets, store: str
) -> None:
    fleets.try_all(
        [
            (store, partial(kill_workers, numbers=range(1, 70))),
            (store, partial(kill_clients, numbers=range(1, 60))),
            *((store, partial(kill_migrations, number=number)) for number in range(1, 60, 2)),
        ],
        at_once=2,
    )


def kill_workers(fleet: Fleet, *, numbers: Iterable[int]) -> None:
    """A worker after another dies at its n-th call; each finds what the one before has left."""
    store = fleet.app.dialect
    tasks: list[int] = []
    killed: dict[int, float] = {}
    settings = {"max_lost_workers": 1_000_000}
    for number in numbers:
        tasks += fleet.enqueue(Steps(one, longest_ms=2) for one in range(3))
        doomed = fleet.start(until_idle=True, settings=settings, under=killing_at(store, number))
        code = doomed.end()
        assert code in (0, -signal.SIGKILL), doomed.said()
        if code:
            killed[_last_pid(fleet)] = time.time()
    fleet.run_dry(settings=settings)
    fleet.all_succeeded(tasks)
    fleet.exactly_once((task, stage) for task in tasks for stage in STAGES)
    fleet.verified()
    fault = f"worker killed at its n-th call of {CALLS[store].replace(',', ', ')}"
    keep(fleet.app, "F03", fault, faults=len(killed), recovery_s=recovered_s(fleet.app, killed))


def _last_pid(fleet: Fleet) -> int:
    rows = fleet.sql("SELECT pid FROM onceward_worker ORDER BY id DESC LIMIT 1")
    return int(rows[0][0]) if rows else 0


def kill_clients(fleet: Fleet, *, numbers: Iterable[int]) -> None:
    """Whoever enqueues dies at its n-th call: every task that it was told of is there, and at most one more."""
    store = fleet.app.dialect
    killed = 0
    for number in numbers:
        [(before,)] = fleet.sql("SELECT count(*) FROM onceward_task")
        done = subprocess.run(
            [*killing_at(store, number), sys.executable, "-c", ENQUEUE],
            cwd=ROOT,
            env={**compiling_once(), DATABASE: fleet.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        killed += done.returncode != 0
        told = {int(line) for line in done.stdout.split()}
        there = {task for (task,) in fleet.sql("SELECT id FROM onceward_task")}
        assert told <= there, "a task was confirmed and is not there"
        assert len(there) - before - len(told) in (0, 1)
    fleet.run_dry()
    tasks = [task for (task,) in fleet.sql("SELECT id FROM onceward_task")]
    fleet.all_succeeded(tasks)
    fleet.exactly_once((task, "do") for task in tasks)
    fleet.verified()
    keep(fleet.app, "F03", "client killed at its n-th call while it enqueues", faults=killed)


def kill_migrations(fleet: Fleet, *, number: int) -> None:
    """Whoever makes the tables dies at its n-th call; the next one makes them whole."""
    url = _new_database(fleet)
    migrate = [sys.executable, "-m", "onceward", "migrate", "--db", url]
    ran = partial(subprocess.run, cwd=ROOT, env=compiling_once(), capture_output=True, text=True, timeout=60)
    first = ran([*killing_at(fleet.app.dialect, number), *migrate])
    assert first.returncode in (0, -signal.SIGKILL), first.stderr
    second = ran(migrate)
    assert second.returncode == 0, second.stderr
    with fleet.app.on(url) as app:
        app.enqueue(Steps(1), root=True)  # beside us, another one may have a worker in this process
        app.run(until_idle=True)
        assert app.verify().ok
        if first.returncode:
            keep(app, "F03", "migration killed at its n-th call", faults=1)


def _new_database(fleet: Fleet) -> str:
    if fleet.app.dialect == "sqlite":
        return f"sqlite:///{fleet.folder / 'new.db'}"
    before, _, number = fleet.url.rpartition("fleet_")
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA new_{number}")
    return f"{before}new_{number}"
