"""Ticks as real processes: chains, ticks that overlap, and one that is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from onceward import App, Status
from tests.faults.counting import keep
from tests.faults.fleet import begin, wait_until
from tests.faults.ticks import Note, app_on
from tests.faults.work import DATABASE
from tests.nursery import Process


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    """The app on a new database; in the end all invariants hold."""
    with app_on(request.getfixturevalue(f"migrated_{request.param}_url")) as made:
        made.prepare()
        yield made
        assert made.verify().ok


def started(app: App, *options: str) -> Process:
    """A scheduled tick, as cron starts it."""
    command = ["onceward", "tick", "tests.faults.ticks:app", *options]
    return begin(command, {DATABASE: app.url}, stdout=subprocess.PIPE)


def reported(tick: Process) -> dict[str, Any]:
    """What a tick has said in the end."""
    out, _ = tick.communicate(timeout=60)
    assert tick.returncode == 0
    report: dict[str, Any] = json.loads(out)
    return report


def rows(app: App, query: str) -> list[Any]:
    return app.read(lambda connection: connection.execute(query).fetchall())


def ticks_that_ended(app: App) -> list[Any]:
    return rows(app, "SELECT chain, tasks, how, triggered FROM onceward_tick WHERE ended_at IS NOT NULL ORDER BY id")


def test_a_chain_of_depth_two_runs_three_times_for_each_schedule(app: App) -> None:
    app.enqueue_many([Note(number) for number in range(100)])
    for cycle in (1, 2):
        report = reported(started(app, "--max-tasks", "10", "--time-limit", "60", "--chain", "2"))
        assert (report["chain"], report["tasks"], report["work_left"], report["triggered"]) == (0, 10, True, True)
        wait_until(lambda cycle=cycle: len(ticks_that_ended(app)) >= 3 * cycle, "its chain has run")  # type: ignore[misc]
        expected = [(0, 10, "max tasks", 1), (1, 10, "max tasks", 1), (2, 10, "max tasks", 0)]
        assert [tuple(row) for row in ticks_that_ended(app)] == expected * cycle
        assert app.stats.counts()[Status.SUCCEEDED] == 30 * cycle
    assert len(rows(app, "SELECT id FROM onceward_tick")) == 6


def test_a_chain_ends_when_no_work_is_left(app: App) -> None:
    app.enqueue_many([Note(number) for number in range(15)])
    reported(started(app, "--max-tasks", "10", "--chain", "5"))
    wait_until(lambda: len(ticks_that_ended(app)) == 2, "both have ended")
    assert [tuple(row) for row in ticks_that_ended(app)] == [(0, 10, "max tasks", 1), (1, 5, "idle", 0)]


def test_ticks_that_overlap_never_share_a_task(app: App) -> None:
    app.enqueue_many([Note(number, 0.1) for number in range(200)])
    ticks = [started(app, "--trigger", "none", "--concurrency", "4") for _ in range(4)]
    reports = [reported(tick) for tick in ticks]
    assert sum(report["tasks"] for report in reports) == 200
    done = rows(app, "SELECT note, pid FROM run")
    assert sorted(note for note, _ in done) == list(range(200))
    assert len({pid for _, pid in done}) > 1, "they did overlap"


def test_what_a_killed_tick_had_claimed_runs_in_the_next_one(app: App) -> None:
    app.enqueue_many([Note(number, 30.0 if number == 0 else 0.0) for number in range(5)])
    victim = started(app, "--trigger", "none", "--concurrency", "10")
    wait_until(lambda: app.stats.counts()[Status.SUCCEEDED] == 4, "all four are done")
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    [task] = app.tasks.list(status="running")
    report = reported(started(app, "--trigger", "none", "--time-limit", "3"))
    assert (report["reclaimed"], report["released"], report["ended"]) == (1, 1, "time limit")
    assert [one.event.word for one in app.tasks.get(task.id).history] == ["crashed", "released"]
    assert [tuple(row) for row in rows(app, "SELECT how FROM onceward_tick ORDER BY id")] == [(None,), ("time limit",)]
    app.tasks.cancel(task.id)
    assert app.verify().ok
    keep(app, "F01", "tick killed", faults=1)


def test_a_tick_that_is_stopped_gives_back_what_it_holds_and_triggers_no_other(app: App) -> None:
    app.enqueue_many([Note(number, 20.0) for number in range(3)])
    tick = started(app, "--concurrency", "2")
    wait_until(lambda: app.stats.counts()[Status.RUNNING] == 2, "two are running")
    tick.send_signal(signal.SIGTERM)
    tick.send_signal(signal.SIGINT)  # another one, because two of one kind at once are one
    report = reported(tick)
    assert (report["ended"], report["triggered"], report["why_not"]) == ("stopped", False, "it was stopped")
    assert app.stats.counts()[Status.PENDING] == 3
    assert app.verify().ok
    keep(app, "F08", "tick stopped by SIGTERM and SIGINT", faults=1)
