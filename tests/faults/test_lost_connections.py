"""A connection that is lost holds up its worker for as long as it takes to open another one, and no longer."""

from __future__ import annotations

import random
import threading
import time

import psycopg
import pytest

from tests.faults.fleet import Fleet, wait_until
from tests.faults.test_postgres_faults import terminate_one
from tests.faults.work import Plain
from tests.proof.tally import SEED

JOBS_A_SECOND = 600
KILLS_A_SECOND = 2
LONGEST_P99_MS = 300
SECONDS = 30


@pytest.mark.torture
def test_two_killed_backends_a_second_hold_up_no_start_for_long(own_fleet: Fleet) -> None:
    """What is measured is more than the time to the start: from the request to the commit that ends the task."""
    fleet = own_fleet
    fleet.start(settings={"concurrency": 50})
    wait_until(lambda: len(fleet.living_pids()) == 1, "the worker is there", fleet.state)
    before = set(fleet.enqueue(Plain(number) for number in range(200)))
    wait_until(lambda: fleet.ended() == len(before), "it has warmed up", fleet.state)
    is_over = threading.Event()
    kills = 0

    def kill() -> None:
        nonlocal kills
        dice = random.Random(SEED)
        with psycopg.connect(fleet.url, autocommit=True) as connection:
            while not is_over.wait(1 / KILLS_A_SECOND):
                kills += terminate_one(connection, dice)

    killer = threading.Thread(target=kill)
    killer.start()
    asked = _ask_steadily(fleet, seconds=SECONDS)
    is_over.set()
    killer.join()
    wait_until(lambda: fleet.ended() == len(before) + asked, "all of it is done", fleet.state)
    rows = fleet.sql("SELECT id, ended_at - created_at FROM onceward_task")
    taken_ms = sorted(row[1] for row in rows if row[0] not in before)
    p50, p99, longest = (taken_ms[int((len(taken_ms) - 1) * share)] for share in (0.5, 0.99, 1))
    print(f"{kills} backends killed, {asked} tasks: p50 {p50} ms, p99 {p99} ms, longest {longest} ms")
    assert kills >= 1.5 * SECONDS
    assert p99 < LONGEST_P99_MS
    fleet.verified()


def _ask_steadily(fleet: Fleet, *, seconds: float) -> int:
    """Ask for tasks at the rate that is wanted, past connections of our own that are killed; returns for how many."""
    began, asked = time.monotonic(), 0
    while (elapsed := time.monotonic() - began) < seconds:
        due = int(elapsed * JOBS_A_SECOND) - asked
        if due:
            fleet.enqueue(Plain(asked + number) for number in range(due))
            asked += due
        time.sleep(0.005)
    return asked
