"""A supervisor runs no code of the application: its children tell of what has failed because one of them died."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from onceward import App, Status
from onceward.worker.engine_failures import MOST_DELIVERED, ChildFailures
from tests.worker.test_failures import a_failure

CODE = """
    import json, os, time
    from onceward import App, Config, Context, Payload, Pipeline, Retry

    class Job(Payload, kind="job"):
        how: str

    job = Pipeline(Job, retry=Retry(retries=0))

    @job.stage(timeout="500ms")
    async def do(ctx: Context[Job]) -> None:
        if ctx.payload.how == "dies":
            os._exit(1)
        while ctx.payload.how == "hangs":
            time.sleep(0.1)  # and holds up its loop

    def tell(failure):
        line = [failure.task, failure.kind, failure.stage, failure.attempt, int(failure.status), failure.reason]
        with open(os.environ["TOLD"], "a") as file:
            print(json.dumps(line), file=file)

    app = App(os.environ["URL"], [job], on_failure=tell, config=Config(max_lost_workers=1, grace="500ms"))
"""


@pytest.mark.parametrize("how", ["dies", pytest.param("hangs", marks=pytest.mark.torture)])
def test_the_application_is_told_of_what_has_cost_a_child_its_life(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    (tmp_path / "failing.py").write_text(textwrap.dedent(CODE), encoding="utf-8")
    scope: dict[str, object] = {}
    monkeypatch.setenv("URL", store_url)
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    exec(compile((tmp_path / "failing.py").read_text(encoding="utf-8"), "failing.py", "exec"), scope)
    app = scope["app"]
    assert isinstance(app, App)
    task = app.enqueue(scope["Job"](how))  # type: ignore[operator]
    command = [sys.executable, "-m", "onceward", "run", "failing:app", "--processes", "1", "--until-idle"]
    done = subprocess.run(command, cwd=tmp_path, check=True, timeout=120, capture_output=True, text=True)
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    reason = app.tasks.get(task.id).reason
    app.close()
    [line] = [line for line in done.stderr.splitlines() if "task failed" in line]
    assert f"task={task.id}" in line
    assert (reason or "no reason") in line.replace("\\'", "'")
    # Where it stood is lost with its worker.
    first = [task.id, "job", None, 1]
    if how == "dies":
        assert told == [[*first, Status.FAILED, reason]]
    else:
        assert told[0] == [*first, Status.RETRYABLE, "was killed: a stage ignored its time limit"]
        assert [one[4:] for one in told[1:]] == [[Status.FAILED, reason]]


def test_a_pipe_that_is_not_read_holds_no_worker_up() -> None:
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    children = ChildFailures()
    for number in range(3 * MOST_DELIVERED):
        children.add(a_failure(number))
        children.hand_over([write_end])
    assert children.has_any
    with os.fdopen(read_end, "rb", buffering=0) as reader:
        assert reader.read(1 << 20).endswith(b"\n"), "lines are written whole or not at all"
        children.hand_over([write_end])
        os.close(write_end)
