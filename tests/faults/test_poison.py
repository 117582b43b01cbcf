"""Tasks that kill their worker: they end in quarantine, alone, and nobody else comes to harm."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceward import Event, Status
from tests.faults.fleet import Fleet, wait_until
from tests.faults.work import Apart, Contained, Plain, Poison


@pytest.mark.parametrize("how", ["exit", "segfault"])
def test_a_task_that_kills_its_workers_is_quarantined_and_all_others_succeed(fleet: Fleet, how: str) -> None:
    poison_one(fleet, how, ordinary=60, processes=2)


@pytest.mark.torture
@pytest.mark.parametrize("how", ["exit", "segfault", "exit as if all were well"])
def test_a_task_that_kills_its_workers_is_quarantined_and_two_hundred_others_succeed(fleet: Fleet, how: str) -> None:
    poison_one(fleet, how, ordinary=200, processes=2)


def poison_one(fleet: Fleet, how: str, *, ordinary: int, processes: int) -> None:
    """One task among many ordinary ones ends every process that it runs in."""
    healthy = fleet.enqueue(Plain(number, seconds=0.01) for number in range(ordinary // 2))
    [poisoned] = fleet.enqueue([Poison(how)])
    healthy += fleet.enqueue(Plain(number, seconds=0.01) for number in range(ordinary - ordinary // 2))
    supervisor = fleet.start(processes=processes, until_idle=True)
    assert supervisor.end() == 0, supervisor.said()
    task = fleet.app.task(poisoned)
    assert (task.status, task.reason) == (Status.FAILED, "lost 3 workers"), fleet.state()
    fleet.all_succeeded(healthy)
    fleet.exactly_once((one, "do") for one in healthy)
    # Bystanders may have been suspected, but only the culprit has lost three workers.
    assert fleet.sql("SELECT id FROM onceward_task WHERE crashes > 1") == [(poisoned,)]
    print(
        f"\n{fleet.app.dialect}: {how}, in quarantine after {len(task.history)} deaths, {ordinary} others succeeded,"
        f" lost 0, double 0, stale commits 0, fence rejections {fleet.events(Event.LOST)}"
    )


@pytest.mark.parametrize("how", ["exit", "segfault"])
def test_an_isolated_stage_that_dies_is_quarantined_without_the_death_of_a_worker(fleet: Fleet, how: str) -> None:
    [poisoned] = fleet.enqueue([Contained(how)])
    healthy = fleet.enqueue(Plain(number, seconds=0.01) for number in range(20))
    fleet.run_dry()
    task = fleet.app.task(poisoned)
    assert (task.status, task.reason, task.crashes) == (Status.FAILED, "lost 3 workers", 3)
    assert [happening.event for happening in task.history] == [Event.CRASHED] * 3
    fleet.all_succeeded(healthy)
    fleet.exactly_once((one, "do") for one in healthy)
    assert fleet.sql("SELECT ended_how FROM onceward_worker") == [("stopped",)]


def test_an_isolated_stage_can_do_what_any_stage_can(fleet: Fleet) -> None:
    wishes = ["everything", "filter", "fail", "wait", "err", "memory", "lambda"]
    ids = dict(zip(wishes, fleet.enqueue(Apart(wish) for wish in wishes), strict=True))
    worker = fleet.start()
    wait_until(lambda: fleet.app.task(ids["wait"]).status is Status.WAITING, "it waits for its signal", fleet.state)
    fleet.app.signal(ids["wait"], "go", 42)
    wait_until(lambda: fleet.ended() == len(wishes), "all have ended", fleet.state)
    worker.send(signal.SIGTERM)
    assert worker.end() == 0
    tasks = {wish: fleet.app.task(task) for wish, task in ids.items()}

    everything = tasks["everything"]
    assert everything.status is Status.SUCCEEDED
    told = everything.results["work_apart"]
    assert told["worker"] != told["own"] != everything.results["work_apart_awaiting"]
    assert told["rows seen"] == 1  # the row of its checkpoint was durable before it went on
    assert everything.progress is not None
    assert everything.progress.note == "half of it"
    assert (tasks["filter"].status, tasks["filter"].reason) == (Status.FILTERED, "five strikes")
    assert (tasks["fail"].status, tasks["fail"].reason) == (Status.FAILED, "for good")
    assert tasks["wait"].status is Status.SUCCEEDED
    assert tasks["wait"].results["work_apart"] == {"signal": 42}
    assert tasks["err"].reason == "failed after 1 retry: ValueError: an ordinary error"
    assert tasks["memory"].status is Status.FAILED
    assert "failed after 1 retry: MemoryError" in (tasks["memory"].reason or "")
    assert tasks["lambda"].status is Status.FAILED
    assert "cannot be found by name in another process" in (tasks["lambda"].reason or "")
    assert tasks["lambda"].failures == 0

    rows = fleet.rows()
    assert {stage for task, stage in rows if task == everything.id} == {
        "work_apart",
        "work_apart after its checkpoint",
        "work_apart_awaiting",
    }
    # Verdicts keep the effects of their stage, errors do not. The one that waited left a row before and one after.
    assert rows[ids["filter"], "work_apart"] == rows[ids["fail"], "work_apart"] == 1
    assert rows[ids["wait"], "work_apart"] == 2
    assert not any((ids[wish], "work_apart") in rows for wish in ("err", "memory", "lambda"))


SCRIPT = '''
from onceward import App, Connection, Context, Migration, Payload, Pipeline


class Note(Payload, kind="note"):
    text: str


notes = Pipeline(Note)


def insert(connection: Connection, text: str) -> None:
    connection.execute("INSERT INTO note VALUES (?)", (text,))


@notes.stage(isolate="process")
def write(ctx: Context[Note]) -> None:
    ctx.write(insert, ctx.payload.text)


app = App("sqlite:///notes.db", pipelines=[notes], migrations=[Migration("notes", "CREATE TABLE note (text text)")])

if __name__ == "__main__":
    task = app.enqueue(Note("hello")).id
    app.run(until_idle=True)
    print(app.task(task).status.word, app.task(task).reason)
    print(app.read(lambda connection: connection.execute("SELECT text FROM note").fetchall()))
'''


def test_an_isolated_stage_of_a_plain_script_writes_its_rows(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["succeeded all stages have finished", "[('hello',)]"], done.stderr
