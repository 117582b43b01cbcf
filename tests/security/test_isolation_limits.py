"""What a stage in a process of its own may take is enforced by the system, on any code; and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from onceward import App, ConfigError, Isolation, Status
from tests.security.isolated_app import DATABASE, Greedy, Orphan, Slow, greedy, orphans, slow

ROOT = Path(__file__).parents[2]
WORKER = [sys.executable, "-m", "tests.security.isolated_app"]


class Place:
    """A database, and workers on it in processes of their own."""

    def __init__(self, url: str, folder: Path) -> None:
        self.note = str(folder / "note")
        self.app = App(url, [greedy, slow, orphans])
        self._environment = {**os.environ, DATABASE: url}

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(WORKER, cwd=ROOT, env=self._environment)

    def run(self) -> None:
        assert self.start().wait(280) == 0

    def noted(self) -> tuple[int, int]:
        """The two numbers that a stage has left, once it has."""
        wait_until(lambda: Path(self.note).exists() and len(Path(self.note).read_text().split()) == 2)
        first, second = Path(self.note).read_text().split()
        return int(first), int(second)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.torture)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The limits are the system's, whatever the database is; the long tests try both."""
    url: str = request.getfixturevalue(f"migrated_{request.param}_url")
    return Place(url, tmp_path)


def test_what_is_above_a_limit_is_an_error_of_the_stage(place: Place) -> None:
    wishes = ["nothing", "memory", "cpu", "cpu, not to be stopped", "cpu in C", "file", "files", "core"]
    with place.app as app:
        tasks = {what: app.enqueue(Greedy(what, f"{place.note} {what}")).id for what in wishes}
        place.run()
        done = {what: app.tasks.get(task) for what, task in tasks.items()}
    assert done["nothing"].results["take"] == "enough for all"
    assert done["core"].results["take"] == "(0, 0)"
    failed = "failed after 0 retries:"
    assert done["memory"].reason == f"{failed} MemoryError"
    for what in ("cpu", "cpu, not to be stopped"):
        assert done[what].reason == f"{failed} CpuLimit: it has computed for more than 1s"
    assert done["file"].reason == f"{failed} OSError: [Errno 27] File too large"
    assert str(done["files"].reason).startswith(f"{failed} OSError: [Errno 24] Too many open files")
    assert (done["cpu in C"].status, done["cpu in C"].reason) == (Status.FAILED, "lost 1 worker")


def test_what_a_stage_has_started_ends_with_it(place: Place) -> None:
    with place.app as app:
        app.enqueue(Slow(place.note))
        worker = place.start()
        own, started = place.noted()
        assert is_running(own)
        assert is_running(started)
        worker.terminate()  # it gives the stage a second, and kills it then
        worker.wait(120)
    wait_until(lambda: not is_running(own) and not is_running(started))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent is gone")
def test_a_stage_does_not_outlive_its_worker(place: Place) -> None:
    with place.app as app:
        app.enqueue(Orphan(place.note))
        worker = place.start()
        own, parent = place.noted()
        assert parent == worker.pid
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        wait_until(lambda: not is_running(own))


def is_running(pid: int) -> bool:
    """Whether a process is there, and is more than a name that nobody has taken note of."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("limits", [{"memory_mb": 0}, {"file_mb": -1}, {"open_files": 1.5}, {"cpu": "0s"}, {"cpu": -1}])
def test_limits_that_are_none_are_refused(limits: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Isolation(**limits)  # type: ignore[arg-type]
    assert Isolation(cpu="1500ms").cpu_s == 2
