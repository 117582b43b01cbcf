"""Blocking stages on several processes: none of these stays idle while tasks wait for a thread of another."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from onceward import App

pytestmark = [pytest.mark.torture, pytest.mark.alone]
TASKS, TAKES_S, THREADS = 64, 2.0, 16
MOST_TIMES = 1.2
LIMIT_S = 60.0
CODE = f"""
    import os, time
    from onceward import App, Config, Context, Payload, Pipeline

    class Job(Payload, kind="job"):
        number: int

    job = Pipeline(Job, unique="no")

    @job.stage
    def block(ctx: Context[Job]) -> tuple[float, float]:
        began = time.time()
        time.sleep({TAKES_S})
        return began, time.time()

    app = App(os.environ["URL"], [job], config=Config(threads={THREADS}))
"""


@pytest.mark.parametrize("processes", [2, 4])
def test_blocking_stages_are_shared_by_all_processes(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    (tmp_path / "blocking.py").write_text(textwrap.dedent(CODE), encoding="utf-8")
    scope: dict[str, object] = {}
    monkeypatch.setenv("URL", store_url)
    exec(compile((tmp_path / "blocking.py").read_text(encoding="utf-8"), "blocking.py", "exec"), scope)
    app = scope["app"]
    assert isinstance(app, App)
    command = [sys.executable, "-m", "onceward", "run", "blocking:app", "--processes", str(processes)]
    with subprocess.Popen(command, cwd=tmp_path) as supervisor:
        try:
            give_up_at = time.monotonic() + LIMIT_S
            while sum(worker.pid != 0 for worker in app.workers.list()) < processes:
                assert time.monotonic() < give_up_at
                time.sleep(0.05)
            time.sleep(1.0)
            tasks = app.enqueue_many([scope["Job"](number) for number in range(TASKS)])  # type: ignore[operator]
            while any(not app.tasks.get(task.id).status.is_terminal for task in tasks):
                assert time.monotonic() < give_up_at
                time.sleep(0.05)
        finally:
            supervisor.terminate()
    times = [app.tasks.get(task.id).results["block"] for task in tasks]
    app.close()
    took_s = max(end for _, end in times) - min(began for began, _ in times)
    ideal_s = TASKS / (THREADS * processes) * TAKES_S
    assert took_s <= MOST_TIMES * ideal_s, f"{took_s:.2f} s, and {ideal_s} s at best"
