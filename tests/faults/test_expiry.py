"""Workers are killed while they do what is done at expiry: each task comes to one end, and its rows are there once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onceward import App, Event, Status
from tests.faults.counting import keep, recovered_s
from tests.faults.expiring import BEGUN, Job, app_on
from tests.faults.fleet import begin, wait_until
from tests.faults.work import DATABASE

JOBS = 12
KILLS = 4


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest) -> Iterator[App]:
    """The app on a new database; in the end all invariants hold."""
    with app_on(request.getfixturevalue(f"migrated_{request.param}_url")) as made:
        made.prepare()
        yield made
        assert made.verify().ok


def rows(app: App, query: str) -> list[Any]:
    return app.read(lambda connection: connection.execute(query).fetchall())


def test_what_is_done_at_expiry_survives_kills(app: App, tmp_path: Path) -> None:
    tasks = app.enqueue_many([Job(number) for number in range(JOBS)])
    command = ["onceward", "run", "tests.faults.expiring:app", "--processes", "0", "--until-idle"]
    variables = {DATABASE: app.url, BEGUN: str(tmp_path)}
    killed: dict[int, float] = {}
    for _ in range(KILLS):
        worker = begin(command, variables)
        wait_until((tmp_path / str(worker.pid)).exists, "it does something at expiry")
        killed[worker.pid] = time.time()
        worker.kill()
        worker.wait()
    assert begin(command, variables).wait(120) == 0
    ended = [app.tasks.get(task.id) for task in tasks]
    assert {(task.status, task.reason) for task in ended} == {(Status.FAILED, "exceeded 1s")}
    assert sorted(rows(app, "SELECT job, remote FROM kept")) == [(number, f"remote {number}") for number in range(JOBS)]
    assert all([one.event.word for one in task.history].count("finished") == 1 for task in ended)
    crashed = rows(app, f"SELECT DISTINCT worker FROM onceward_attempt WHERE event = {int(Event.CRASHED)}")
    assert len(crashed) == KILLS, "every one of them was killed in the middle of it"
    assert app.verify().ok
    fault = "worker killed while it does what is done at expiry"
    keep(app, "F01", fault, faults=KILLS, recovery_s=recovered_s(app, killed))
