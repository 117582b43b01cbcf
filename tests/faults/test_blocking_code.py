"""Stages that block in C and never let another thread of their process run."""

from __future__ import annotations

import signal
from functools import partial

import pytest

from onceward import Event, Status
from tests.faults.counting import keep
from tests.faults.fleet import Fleet, Fleets, wait_until
from tests.faults.work import Block, Endless, Overdue, Plain, Slow


def test_code_that_blocks_in_c_keeps_its_lease_and_is_killed_at_its_time_limit(fleets: Fleets) -> None:
    fleets.take_turns(*SCENARIOS)


@pytest.mark.torture
def test_code_that_blocks_in_c_on_both_stores(fleets: Fleets) -> None:
    fleets.on_each_store(*SCENARIOS)


@pytest.mark.torture
def test_a_bad_regex_of_ten_seconds_keeps_its_lease_of_two(fleet: Fleet) -> None:
    keep_blocking(fleet, lease="2s", seconds=10, with_regex=True)


def keep_blocking(fleet: Fleet, *, lease: str, seconds: float, with_regex: bool) -> None:
    """The supervisor renews the lease, so that a second worker, which has nothing to do, does not take the task."""
    file = fleet.folder / "both are there"
    [task] = fleet.enqueue([Block(1, seconds, str(file), with_regex)])
    supervisor = fleet.start(processes=1, lease=lease)
    wait_until(lambda: fleet.app.tasks.get(task).status is Status.RUNNING, "the stage has begun", fleet.state)
    idle = fleet.start(lease=lease)
    wait_until(lambda: idle.pid in fleet.living_pids(), "a second worker might take it", fleet.state)
    file.touch()
    wait_until(lambda: fleet.ended() == 1, "the stage has ended", fleet.state)
    for worker in (supervisor, idle):
        worker.send(signal.SIGTERM)
        assert worker.end() == 0
    fleet.all_succeeded([task])
    fleet.exactly_once([(task, "block")])
    [(took_ms,)] = fleet.sql("SELECT ended_at - started_at FROM onceward_task")
    assert took_ms >= 1_000 * seconds
    assert fleet.sql("SELECT fence FROM onceward_task") == [(1,)]
    assert not any(fleet.events(event) for event in (Event.RECLAIMED, Event.CRASHED, Event.LOST))
    fleet.verified()
    what = "bad regex" if with_regex else "call into C that holds the interpreter"
    keep(fleet.app, "F06", f"{what} for {seconds:g} s with a lease of {lease}", faults=1)


def ignore_a_time_limit(fleet: Fleet) -> None:
    """The process is killed, its stage has failed once, and its neighbours were not harmed."""
    neighbours = fleet.enqueue(Plain(number, seconds=0.3) for number in range(30))
    [task] = fleet.enqueue([Overdue(1, seconds=30)])
    neighbours += fleet.enqueue(Plain(number, seconds=0.3) for number in range(30))
    supervisor = fleet.start(processes=1)
    wait_until(lambda: fleet.ended() == 61, "all have ended", fleet.state)
    supervisor.send(signal.SIGTERM)
    assert supervisor.end() == 0
    late = fleet.app.tasks.get(task)
    assert late.status is Status.FAILED
    assert "time limit" in (late.reason or "")
    assert [happening.event for happening in late.history] == [Event.TIMED_OUT, Event.FINISHED]
    assert fleet.sql(
        "SELECT count(*), sum(failures), sum(crashes), min(status), max(status) FROM onceward_task WHERE kind = 'plain'"
    ) == [(60, 0, 0, Status.SUCCEEDED, Status.SUCCEEDED)]
    fleet.exactly_once((neighbour, "do") for neighbour in neighbours)
    assert fleet.events(Event.CRASHED) == 0
    keep(fleet.app, "F07", "stage blocks in C past its time limit", faults=1)


@pytest.mark.torture
def test_a_loop_without_an_end_is_stopped_each_time_and_all_others_succeed(fleet: Fleet) -> None:
    neighbours = fleet.enqueue(Plain(number, seconds=0.1) for number in range(50))
    [task] = fleet.enqueue([Endless()])
    neighbours += fleet.enqueue(Plain(number, seconds=0.1) for number in range(50))
    supervisor = fleet.start(processes=2, until_idle=True)
    assert supervisor.end() == 0
    ended = fleet.app.tasks.get(task)
    assert ended.status is Status.FAILED
    # Code in Python is stopped from inside; where that comes too late, by the end of its process.
    stopped = (Event.RETRY_SCHEDULED, Event.TIMED_OUT)
    assert [happening.event in stopped for happening in ended.history] in ([True, True, False], [True] * 3 + [False])
    assert ended.history[-1].event is Event.FINISHED
    fleet.all_succeeded(neighbours)
    fleet.exactly_once((neighbour, "do") for neighbour in neighbours)
    keep(fleet.app, "F07", "stage loops for ever and has a time limit", faults=3)


def block_during_a_commit(fleet: Fleet) -> None:
    """The process is killed although it holds locks of the database, for which its supervisor might wait in vain."""
    file = str(fleet.folder / "inside the commit")
    late, slow = fleet.enqueue([Overdue(1, seconds=30, wait_for=file), Slow(file)])
    supervisor = fleet.start(processes=1)
    wait_until(lambda: fleet.ended() == 2, "both have ended", fleet.state, limit_s=25)
    supervisor.send(signal.SIGTERM)
    assert supervisor.end() == 0
    assert "time limit" in (fleet.app.tasks.get(late).reason or "")
    fleet.all_succeeded([slow])
    fleet.exactly_once([(slow, "write_slowly")])
    keep(fleet.app, "F07", "stage blocks in C past its time limit while its process commits", faults=1)


SCENARIOS = (
    partial(keep_blocking, lease="1.5s", seconds=4, with_regex=False),
    ignore_a_time_limit,
    block_during_a_commit,
)
