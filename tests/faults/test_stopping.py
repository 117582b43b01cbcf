"""Stopping in good order: nothing new is begun, what runs may finish, the rest is given back, no attempt is burned."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from functools import partial

import pytest

from onceward import Event, Status
from tests.faults.counting import keep
from tests.faults.fleet import Fleet, Fleets, Worker, wait_until
from tests.faults.work import Block, Gate


def nothing_is_held_and_nothing_burned(fleet: Fleet) -> None:
    """No lease runs on in the database, and no task has lost anything by the stop."""
    assert fleet.sql("SELECT id FROM onceward_task WHERE status = 1 OR token IS NOT NULL") == []
    assert fleet.sql("SELECT id FROM onceward_worker WHERE stopped_at IS NULL") == []
    assert fleet.sql("SELECT id FROM onceward_task WHERE failures > 0 OR crashes > 0 OR company > 0") == []
    assert fleet.events(Event.CRASHED) == fleet.events(Event.RECLAIMED) == 0


def begin(fleet: Fleet, processes: int | None, grace: str) -> tuple[Worker, list[int], set[int]]:
    """A worker of whose leased tasks two a process stand at a gate, with more in line; and which those are."""
    tasks = fleet.enqueue(Gate(number, str(fleet.folder)) for number in range(30))
    settings = {"threads": 2, "concurrency": 8, "grace": grace}
    worker = fleet.start(processes=processes, settings=settings)
    inside = wait_until(
        lambda: len(found := list(fleet.folder.glob("inside-*"))) == 2 * (processes or 1) and found,
        "stages stand at the gate",
        fleet.state,
    )
    wait_until(lambda: running(fleet) == 8 * (processes or 1), "more is leased than runs", fleet.state)
    return worker, tasks, {tasks[int(path.name.split("-")[1])] for path in inside}


def running(fleet: Fleet) -> int:
    """How many tasks are leased."""
    return fleet.counts().get(Status.RUNNING, 0)


def open_the_gate(fleet: Fleet) -> None:
    """Let the stages finish."""
    (fleet.folder / "open").touch()


def the_rest_is_done_once(fleet: Fleet, tasks: list[int]) -> None:
    """Another worker finishes everything, and each stage has left one row."""
    fleet.run_dry()
    fleet.all_succeeded(tasks)
    fleet.exactly_once((task, stage) for task in tasks for stage in ("pass_through", "after"))


def test_stopping_lets_what_runs_finish_gives_back_the_rest_and_burns_nothing(fleets: Fleets) -> None:
    fleets.take_turns(*_scenarios())


@pytest.mark.torture
def test_stopping_on_both_stores_burns_nothing(fleets: Fleets) -> None:
    fleets.on_each_store(*_scenarios())


def _scenarios() -> list[Callable[[Fleet], None]]:
    return [
        partial(stop_in_good_order, processes=None),
        partial(stop_in_good_order, processes=2),
        partial(stop_at_once, processes=2),
        partial(stop_at_once, processes=None),
        lose_the_supervisor,
        signal_the_whole_group,
    ]


def stop_in_good_order(fleet: Fleet, processes: int | None) -> None:
    """After SIGTERM nothing new is begun, what has not begun goes back at once, what runs may finish."""
    worker, tasks, inside = begin(fleet, processes, grace="20s")
    worker.send(signal.SIGTERM)
    wait_until(lambda: running(fleet) == len(inside), "what had not begun is given back", fleet.state, limit_s=10)
    open_the_gate(fleet)
    assert worker.end() == 0, worker.said()
    nothing_is_held_and_nothing_burned(fleet)
    assert fleet.rows() == {(task, "pass_through"): 1 for task in inside}
    assert fleet.counts() == {Status.PENDING: len(tasks)}
    the_rest_is_done_once(fleet, tasks)
    keep(fleet.app, "F08", "SIGTERM", faults=1)


def stop_at_once(fleet: Fleet, processes: int | None) -> None:
    """After a second SIGTERM everything goes back, also what runs."""
    worker, tasks, _ = begin(fleet, processes, grace="60s")
    worker.send(signal.SIGTERM)
    time.sleep(0.1)  # two signals in one breath may arrive as one
    asked_at = time.monotonic()
    worker.send(signal.SIGTERM)
    assert worker.end() == 0, worker.said()
    assert time.monotonic() - asked_at < 10
    nothing_is_held_and_nothing_burned(fleet)
    assert fleet.rows().total() == 0
    assert fleet.counts() == {Status.PENDING: len(tasks)}
    keep(fleet.app, "F08", "SIGTERM twice", faults=1)


def signal_the_whole_group(fleet: Fleet) -> None:
    """Ctrl-C in a terminal, and systemd, signal the children too: together with their supervisor's word it is one."""
    worker, _, inside = begin(fleet, 2, grace="20s")
    os.killpg(worker.pid, signal.SIGTERM)
    wait_until(lambda: running(fleet) <= len(inside), "what had not begun is given back", fleet.state, limit_s=10)
    open_the_gate(fleet)
    assert worker.end() == 0, worker.said()
    nothing_is_held_and_nothing_burned(fleet)
    assert fleet.rows() == {(task, "pass_through"): 1 for task in inside}
    keep(fleet.app, "F08", "SIGTERM to the whole process group", faults=1)


def lose_the_supervisor(fleet: Fleet) -> None:
    """The children of a supervisor that was killed stop in good order by themselves."""
    worker, tasks, inside = begin(fleet, 2, grace="20s")
    children = fleet.living_pids()
    assert len(children) == 2
    worker.send(signal.SIGKILL)
    worker.end()
    wait_until(lambda: running(fleet) == len(inside), "what had not begun is given back", fleet.state, limit_s=10)
    open_the_gate(fleet)
    wait_until(lambda: not any(_is_alive(pid) for pid in children), "the children have ended", fleet.state)
    nothing_is_held_and_nothing_burned(fleet)
    the_rest_is_done_once(fleet, tasks)
    keep(fleet.app, "F09", "supervisor killed, its children alive", faults=1)


@pytest.mark.torture
def test_a_child_that_cannot_stop_is_killed_and_nothing_is_burned(fleet: Fleet) -> None:
    [task] = fleet.enqueue([Block(1, seconds=45)])
    worker = fleet.start(processes=1, settings={"grace": "1s"})
    wait_until(lambda: fleet.app.tasks.get(task).status is Status.RUNNING, "the stage has begun", fleet.state)
    worker.send(signal.SIGTERM)
    assert worker.end(limit_s=40) == 0, worker.said()
    blocked = fleet.app.tasks.get(task)
    assert (blocked.status, blocked.failures, blocked.crashes) == (Status.PENDING, 0, 0)
    assert [happening.event for happening in blocked.history] == [Event.RECLAIMED]
    keep(fleet.app, "F08", "SIGTERM with 1 s of grace to a child that cannot stop", faults=1)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
