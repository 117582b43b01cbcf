"""Real workers look for trouble: the rules of the engine by whoever is first, the application's by who knows them."""

from __future__ import annotations

import signal
import subprocess

import pytest

from tests.faults import watched
from tests.faults.fleet import begin, wait_until


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
@pytest.mark.parametrize("processes", [0, 2])
def test_a_worker_looks_and_ends_in_good_order(request: pytest.FixtureRequest, store: str, processes: int) -> None:
    url: str = request.getfixturevalue(f"migrated_{store}_url")
    app = watched.app.on(url)
    app.prepare()
    command = ["onceward", "run", "tests.faults.watched:app", "--processes", str(processes)]
    worker = begin(command, {watched.DATABASE: url}, stderr=subprocess.PIPE)
    try:
        wait_until(
            lambda: app.alerts.list() or worker.poll() is not None, "the watch of the application has found something"
        )
        assert worker.poll() is None, worker.communicate()
        looks = "SELECT name FROM onceward_watch ORDER BY name"
        wait_until(
            lambda: app.read(lambda one: one.execute(looks).fetchall()) == [("",), ("always",)], "both were looked at"
        )
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=60)
    finally:
        worker.kill()

    assert worker.returncode == 0
    assert said.count("rule=always") == 1
    assert [alert.rule for alert in app.alerts.list()] == ["always"]
    app.close()
