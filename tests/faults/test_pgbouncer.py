"""Behind PgBouncer in transaction mode: the same work, kills and terminations, and the whole conformance suite."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.faults.fleet import Fleet, Worker
from tests.faults.judging import judge
from tests.faults.work import Steps, make_app
from tests.nursery import ROOT
from tests.pooler import IS_BETWEEN, PROGRAM, PgBouncer
from tests.proof.tally import SEED, Tally

pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="there is no pgbouncer; Debian has it as a package of this name"),
    pytest.mark.skipif(IS_BETWEEN, reason="these have a pooler of their own"),
]
SUITE = ("tests/store", "tests/worker", "tests/property")


@pytest.fixture
def pooler(postgres_server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PgBouncer]:
    """A pooler with fewer connections than two workers would like to have; programs know that they are behind one."""
    monkeypatch.setenv("ONCEWARD_PREPARE", "false")
    with PgBouncer(postgres_server_url, pool_size=4) as pooler:
        yield pooler


def test_behind_a_pooler_terminated_backends_and_killed_workers_lose_nothing(
    pooler: PgBouncer, postgres_fleet: Fleet
) -> None:
    disturb(postgres_fleet, pooler, faults=12, tasks=120)


@pytest.mark.torture
def test_behind_a_pooler_hundreds_of_faults_lose_nothing(pooler: PgBouncer, postgres_fleet: Fleet) -> None:
    disturb(postgres_fleet, pooler, faults=400, tasks=6_000)


def disturb(fleet: Fleet, pooler: PgBouncer, *, faults: int, tasks: int) -> None:
    """Terminate backends, kill workers and kill the pooler itself, while everybody works through it."""
    dice = random.Random(SEED * tasks)
    direct, through = fleet.url, pooler.through(fleet.url)

    def start() -> Worker:
        fleet.url = through
        worker = fleet.start(settings={"concurrency": 20})
        fleet.url = direct
        return worker

    workers = [start(), start()]
    ids: list[int] = []
    terminated = kills = 0
    with psycopg.connect(direct, autocommit=True) as connection, make_app(through) as app:
        while terminated + kills < faults:
            if len(ids) < tasks:
                ids += [one.id for one in app.enqueue_many(Steps(number, 3) for number in range(tasks // faults))]
            what = dice.random()
            if what < 0.8:
                terminated += _terminate(connection, dice)
            elif what < 0.9:
                killed = workers.pop(dice.randrange(2))
                killed.send(signal.SIGKILL)
                killed.end()
                workers.append(start())
                kills += 1
            else:
                pooler.kill()
                pooler.start()
                kills += 1
            time.sleep(dice.uniform(0.02, 0.1))
    fault = "backend, worker or pooler killed, all behind PgBouncer"
    judge(fleet, workers, ids, matrix="F35", fault=fault, faults=terminated + kills)
    assert terminated, "no backend was terminated"
    assert kills, "nobody was killed"


def _terminate(connection: psycopg.Connection[tuple[int]], dice: random.Random) -> int:
    """Terminate a backend that works for somebody behind the pooler; returns how many that were."""
    found = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'onceward%%'"
        " AND pid <> pg_backend_pid() ORDER BY pid"
    ).fetchall()
    if found:
        connection.execute("SELECT pg_terminate_backend(%s)", dice.choice(found))
    return min(len(found), 1)


@pytest.mark.torture
def test_the_conformance_suite_passes_behind_a_pooler() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "postgres", *SUITE]
    environment = {**os.environ, "ONCEWARD_TEST_THROUGH": "pgbouncer"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-6_000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed is not None
    fault = "a test of the conformance suite, behind PgBouncer"
    Tally(matrix="F35", fault=fault, store="postgres", faults=int(passed[1])).keep()
