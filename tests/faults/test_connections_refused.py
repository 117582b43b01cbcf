"""Connections that cannot be had: too many at once, and the one that listens for news."""

from __future__ import annotations

import signal
import time
import uuid
from collections.abc import Sequence
from functools import partial

import psycopg
import pytest

from tests.faults.fleet import Fleet, Worker, wait_until
from tests.faults.proxy import Proxy
from tests.faults.work import STAGES, Steps
from tests.proof.tally import Tally

MOST_ATTEMPTS_A_SECOND = 20
"""Of one process, to connect: it wants five connections, and pauses after every attempt that fails."""


def test_more_processes_than_connections_live_through_it(postgres_fleet: Fleet) -> None:
    storm(postgres_fleet, processes=5, connections=6, stay=4)


@pytest.mark.torture
def test_forty_processes_live_through_a_server_with_twenty_connections(postgres_fleet: Fleet) -> None:
    storm(postgres_fleet, processes=40, connections=20, stay=12)


def storm(fleet: Fleet, *, processes: int, connections: int, stay: int) -> None:
    """Start all at once, each of which wants about five connections, as a user who may have one for every other.

    Nobody gives up, and the work is done by those who have what they need. Whoever is asked to stop does so in good
    order, whatever it has; and when there is enough for those who stay, all of them have what they need.
    """
    role = f"storm_{uuid.uuid4().hex}"
    ids = fleet.enqueue(Steps(number, longest_ms=20) for number in range(5 * processes))
    with psycopg.connect(fleet.url, autocommit=True) as connection, Proxy(fleet.url) as proxy:
        connection.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT {connections}")
        for kind in ("TABLES", "SEQUENCES"):
            connection.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {role}")
        direct, fleet.url = fleet.url, proxy.url.replace("postgres:@", f"{role}:@", 1)
        began_at = time.monotonic()
        workers = [fleet.start(settings={"concurrency": 4, "poll": "100ms"}) for _ in range(processes)]
        fleet.url = direct
        wait_until(lambda: fleet.ended() == len(ids), "every task has ended", fleet.state, limit_s=120)
        wait_until(lambda: proxy.connections > 8 * processes, "many have asked in vain", fleet.state)
        attempts, seconds = proxy.connections, time.monotonic() - began_at
        assert [worker.process.poll() for worker in workers] == [None] * processes, f"some gave up\n{fleet.said()}"
        _stop(workers[stay:], fleet)
        connection.execute(f"ALTER ROLE {role} CONNECTION LIMIT -1")
        staying = {worker.pid for worker in workers[:stay]}
        wait_until(lambda: staying <= set(fleet.living_pids()), "all are there", fleet.state, limit_s=120)
        _stop(workers[:stay], fleet)
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")
    assert attempts / seconds / processes < MOST_ATTEMPTS_A_SECOND
    fleet.all_succeeded(ids)
    fleet.exactly_once((task, stage) for task in ids for stage in STAGES)
    fleet.verified()
    Tally(
        matrix="F34",
        fault="too many connections",
        store="postgres",
        faults=attempts - connections,
        accepted=len(ids),
        commits=len(ids) * len(STAGES),
    ).keep()


def _stop(workers: Sequence[Worker], fleet: Fleet) -> None:
    for worker in workers:
        worker.send(signal.SIGTERM)
    # Who has not even begun yet has nothing to put in order, and simply ends.
    assert {worker.end(limit_s=120) for worker in workers} <= {0, -signal.SIGTERM}, fleet.said()


def test_news_that_came_without_a_listener_is_found_as_soon_as_there_is_one_again(postgres_fleet: Fleet) -> None:
    rounds = 5
    fleet = postgres_fleet
    worker = fleet.start(settings={"poll": "1h"})  # only by listening is anything found in time
    ids: list[int] = []
    recovery_s = []
    for number in range(rounds):
        [(listener,)] = wait_until(lambda: _listeners(fleet, 0), "somebody listens", fleet.state)
        wait_until(partial(_have_ended, fleet, number), "nothing is left", fleet.state)
        fleet.sql(f"SELECT pg_terminate_backend({listener}, 10000)")
        began_at = time.monotonic()
        ids += fleet.enqueue([Steps(number, 1)])
        wait_until(partial(_have_ended, fleet, number + 1), "it is found", fleet.state, every_s=0.01)
        recovery_s.append(round(time.monotonic() - began_at, 3))
        wait_until(partial(_listeners, fleet, listener), "somebody listens again", fleet.state)
    worker.process.terminate()
    assert worker.end() == 0
    fleet.all_succeeded(ids)
    Tally(
        matrix="F40",
        fault="the connection that listens is lost",
        store="postgres",
        faults=rounds,
        accepted=len(ids),
        commits=len(ids) * len(STAGES),
        recovery_s=recovery_s,
    ).keep()


def _have_ended(fleet: Fleet, count: int) -> bool:
    return fleet.ended() == count


def _listeners(fleet: Fleet, gone: int) -> list[tuple[int]]:
    return [(pid,) for (pid,) in fleet.sql(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'onceward listener' AND query LIKE 'LISTEN%'"
        f" AND datname = current_database() AND pid <> {gone}"
    )]  # fmt: skip
