"""What a supervisor and its children owe each other, and what others on the same machine may conclude about them."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from onceward.model.task import lane_of
from onceward.store.attempts.claims import claim_suspects
from onceward.store.attempts.workers import BuriedWorker, NewWorker, register, stop
from onceward.store.drivers.availability import Availability
from onceward.store.drivers.session_errors import ConnectionLost
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.lines.memory import LineMemory
from onceward.worker.supervisor import Supervisor
from tests.faults.counting import keep
from tests.faults.fleet import Fleet, Fleets, wait_until
from tests.faults.signalling import ONCE, SIGNAL
from tests.faults.work import DATABASE, SLOW_START, STAGES, Plain, Steps


def test_a_child_that_takes_long_to_start_is_not_declared_dead_by_others(fleets: Fleets) -> None:
    fleets.on_each_store(start_slowly)


def start_slowly(fleet: Fleet) -> None:
    """A child is registered before it runs; meanwhile another worker looks for the dead."""
    other = fleet.start(lease="5s")
    wait_until(fleet.living_pids, "the other is there", fleet.state)
    supervisor = fleet.start(processes=1, lease="5s", environment={SLOW_START: "1.2"})
    wait_until(lambda: len(fleet.living_pids()) == 2, "the child has introduced itself", fleet.state)
    tasks = fleet.enqueue(Plain(number) for number in range(20))
    wait_until(lambda: fleet.ended() == 20, "all have ended", fleet.state)
    for worker in (other, supervisor):
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    fleet.all_succeeded(tasks)
    assert fleet.sql("SELECT DISTINCT ended_how FROM onceward_worker") == [("stopped",)]


def test_a_child_stopped_inside_a_transaction_is_killed_after_its_lease_and_all_others_go_on(fleets: Fleets) -> None:
    fleets.take_turns(partial(stop_inside_a_transaction, times=1))


@pytest.mark.torture
def test_children_stopped_inside_transactions_are_killed_after_their_leases(fleets: Fleets) -> None:
    fleets.on_each_store(partial(stop_inside_a_transaction, times=20))


def stop_inside_a_transaction(fleet: Fleet, *, times: int) -> None:
    """On SQLite nobody can write meanwhile, on PostgreSQL nobody can take what it holds; and nobody else can end it."""
    for number in range(times):
        tasks = fleet.enqueue(Steps(one, longest_ms=20) for one in range(20))
        file = fleet.folder / f"stopped-{number}"
        environment = {SIGNAL: "SIGSTOP at after second then inside commit", ONCE: str(file)}
        supervisor = fleet.start(processes=2, lease="1s", until_idle=True, environment=environment)
        wait_until(file.exists, "a child is stopped", fleet.state)
        stopped_at = time.time()
        assert supervisor.end() == 0, supervisor.said()
        assert time.time() - stopped_at >= 1
        fleet.all_succeeded(tasks)
    everyone = [task for (task,) in fleet.sql("SELECT id FROM onceward_task")]
    fleet.exactly_once((task, stage) for task in everyone for stage in STAGES)
    ended = fleet.sql("SELECT ended_how FROM onceward_worker WHERE ended_how <> 'stopped'")
    assert ended == [("was killed: it was stopped for as long as its lease",)] * times
    fleet.verified()
    keep(fleet.app, "F05", "child stopped inside a transaction", faults=times)


def test_a_worker_that_has_run_suspects_finds_later_ones_that_stand_before_them(fleet: Fleet) -> None:
    """Suspects stand by the size of their company, so the next ones may stand before those seen last."""
    tasks = fleet.enqueue(Plain(number) for number in range(3))
    session = fleet.app._store.session()
    now = fleet.app._store.clock.now()
    lane = lane_of("default", "plain", suspect=True)
    memory = LineMemory((lane,), sweeps=session.dialect == "postgres")
    new = NewWorker("ant", "host", 7, None, "plain", "default", 300_000)
    worker = session.transact(lambda: register(new, now))
    found = []
    for task, company in zip(tasks, (8, 4, 1), strict=True):
        session.transact(lambda: put_in_line([Placement(task, lane, 2, company, now)], now))  # noqa: B023
        found.append([lease.task for lease in session.transact(lambda: claim_suspects(memory, worker, now)).leases])
    session.transact(lambda: stop(worker, "stopped", now))
    session.close()
    assert found == [[task] for task in tasks]


def supervising(fleet: Fleet, *, processes: int) -> Supervisor:
    where = "tests.faults.work:app"
    options = {"processes": processes, "queues": None, "until_idle": False, "name": None}
    return Supervisor(fleet.app._store, where, fleet.app._in_force, **options)  # type: ignore[arg-type]


class _DriverError(Exception):
    """An error that the engine has no name for."""


def test_a_supervisor_outlives_what_it_cannot_do_and_its_healthy_children_go_on(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child is killed while no process can be started, and while a duty raises what the engine has no name for."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv(DATABASE, fleet.url)
    monkeypatch.setattr(sys, "executable", str(python))
    supervisor = supervising(fleet, processes=2)
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        wait_until(lambda: len(fleet.living_pids()) == 2, "both children are there", fleet.state)
        killed, healthy = fleet.living_pids()
        step = supervisor._housekeeping.step

        def fail() -> None:
            raise _DriverError

        monkeypatch.setattr(supervisor._housekeeping, "step", fail)
        python.rename(tmp_path / "away")
        os.kill(killed, signal.SIGKILL)
        unstarted = "SELECT 1 FROM onceward_worker WHERE ended_how = 'could not be started'"
        wait_until(lambda: not thread.is_alive() or len(fleet.sql(unstarted)) >= 2, "it has tried in vain", fleet.state)
        assert thread.is_alive()
        assert fleet.living_pids() == [healthy]
        (tmp_path / "away").rename(python)
        monkeypatch.setattr(supervisor._housekeeping, "step", step)
        wait_until(lambda: len(fleet.living_pids()) == 2, "there are two again", fleet.state)
        assert healthy in fleet.living_pids()
    finally:
        supervisor.request_stop()
        thread.join()


def test_suspects_that_no_child_can_take_do_not_start_one_every_second(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes of looks, each of which finds a suspect of another app."""
    now = fleet.app._store.clock.now()
    session = fleet.app._store.session()
    session.transact(lambda: put_in_line([Placement(7, lane_of("default", "foreign", suspect=True), 2, 1, now)], now))
    supervisor = supervising(fleet, processes=0)
    starts: list[int] = []
    clock = itertools.count(1)

    def look(second: int) -> None:
        monkeypatch.setattr("onceward.worker.supervisor.time.monotonic", lambda: float(second))
        monkeypatch.setattr(supervisor, "_start", lambda **_: starts.append(second))
        supervisor._suspects_found()
        supervisor._start_missing()

    for second in itertools.islice(clock, 600):
        look(second)
    assert starts[:4] == [1, 2, 4, 8]
    assert len(starts) < 600 / 30 + 10
    starts.clear()
    supervisor._housekeeping.reclaimed.append(BuriedWorker("bee", suspects=1))
    look(next(clock))
    assert starts == [601], "after another death there may be one that it can take"
    fleet.sql("DELETE FROM onceward_ready RETURNING task")
    supervisor._session.close()
    session.close()


def test_a_signal_that_comes_in_the_middle_of_a_round_stops_a_supervisor_in_good_order(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DATABASE, sqlite_url)
    with Fleet(sqlite_url, tmp_path) as fleet:
        supervisor = supervising(fleet, processes=1)

        def step() -> None:
            if not supervisor._stop_requests and any(child.presence.exists() for child in supervisor._children):
                supervisor.request_stop()

        monkeypatch.setattr(supervisor._housekeeping, "step", step)
        supervisor.run()
        assert fleet.sql("SELECT ended_how FROM onceward_worker") == [("stopped",)]


def test_a_supervisor_whose_database_is_away_ends_when_its_children_have(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(DATABASE, sqlite_url)
    monkeypatch.setattr("onceward.worker.supervisor.database", Availability())
    with Fleet(sqlite_url, tmp_path) as fleet:
        supervisor = supervising(fleet, processes=1)
        rounds = itertools.count(1)

        def ask(_: object) -> None:
            raise ConnectionLost("no route to the database")

        def step() -> None:
            if next(rounds) == 2:
                supervisor.request_stop()
                monkeypatch.setattr(supervisor._session, "ask", ask)

        monkeypatch.setattr(supervisor._housekeeping, "step", step)
        thread = threading.Thread(target=supervisor.run, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
    assert "stopped while the database is away" in caplog.text
