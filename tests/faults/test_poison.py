"""Tasks that kill their worker: they end in quarantine, alone, and nobody else comes to harm."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from onceward import Event, Status
from tests.faults.counting import keep
from tests.faults.deadly import OUT_OF_MEMORY, small_cgroup
from tests.faults.fleet import Fleet, Fleets, wait_until
from tests.faults.work import Apart, Contained, Plain, Poison


def test_tasks_that_kill_their_workers_are_quarantined_and_all_others_succeed(fleets: Fleets) -> None:
    fleets.try_all(
        [
            ("sqlite", partial(poison, how="exit", ordinary=60)),
            ("postgres", partial(poison, how="segfault", ordinary=60, seconds=0.01)),
        ]
    )


@pytest.mark.torture
@pytest.mark.parametrize("how", ["exit", "segfault", "exit as if all were well", "stack overflow"])
def test_a_task_that_kills_its_workers_is_quarantined_and_two_hundred_others_succeed(fleet: Fleet, how: str) -> None:
    poison(fleet, how=how, ordinary=200)


@pytest.mark.torture
def test_a_task_that_takes_all_memory_is_quarantined_and_two_hundred_others_succeed(fleet: Fleet, cgroup: Path) -> None:
    poison(fleet, how=f"{OUT_OF_MEMORY}{cgroup}", ordinary=200)


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup with little memory."""
    with small_cgroup(f"onceward-test-{os.getpid()}") as made:
        if made is None:
            pytest.skip("this machine lets us make no memory cgroup")
        yield made


def poison(fleet: Fleet, *, how: str, ordinary: int, seconds: float = 0.1) -> None:
    """Among many ordinary tasks there is one that ends every process it runs in."""
    healthy = fleet.enqueue(Plain(number, seconds) for number in range(ordinary // 2))
    [poisoned] = fleet.enqueue([Poison(how)])
    healthy += fleet.enqueue(Plain(number, seconds) for number in range(ordinary - ordinary // 2))
    supervisor = fleet.start(processes=2, until_idle=True)
    assert supervisor.end() == 0, supervisor.said()
    task = fleet.app.tasks.get(poisoned)
    assert (task.status, task.reason) == (Status.FAILED, "lost 3 workers"), fleet.state()
    fleet.all_succeeded(healthy)
    fleet.exactly_once((one, "do") for one in healthy)
    # Bystanders may have been suspected, but only the culprit has lost workers while it ran alone.
    assert fleet.sql("SELECT id FROM onceward_task WHERE crashes > 1") == [(poisoned,)]
    [(deaths,)] = fleet.sql("SELECT count(*) FROM onceward_worker WHERE ended_how <> 'stopped'")
    fleet.verified()
    keep(fleet.app, "F07", f"stage ends its process: {_briefly(how)}", faults=deaths)


def test_isolated_stages_die_without_their_worker_and_can_do_what_any_stage_can(fleets: Fleets) -> None:
    fleets.take_turns(partial(die_apart, how="segfault"), work_apart, fail_apart)


@pytest.mark.torture
def test_isolated_stages_die_in_every_way_on_both_stores(fleets: Fleets) -> None:
    ways = ("exit", "segfault", "stack overflow")
    fleets.on_each_store(*(partial(die_apart, how=how) for how in ways), work_apart, fail_apart)


def test_an_isolated_stage_that_takes_all_memory_dies_without_its_worker(fleets: Fleets, cgroup: Path) -> None:
    fleets.try_all([("postgres", partial(die_apart, how=f"{OUT_OF_MEMORY}{cgroup}"))])


def die_apart(fleet: Fleet, how: str) -> None:
    """A task whose own process dies three times is quarantined, and no worker has died."""
    [poisoned] = fleet.enqueue([Contained(how)])
    healthy = fleet.enqueue(Plain(number, seconds=0.01) for number in range(20))
    fleet.run_dry()
    task = fleet.app.tasks.get(poisoned)
    assert (task.status, task.reason, task.crashes) == (Status.FAILED, "lost 3 workers", 3)
    assert [happening.event for happening in task.history] == [Event.CRASHED] * 3
    fleet.all_succeeded(healthy)
    fleet.exactly_once((one, "do") for one in healthy)
    assert fleet.sql("SELECT ended_how FROM onceward_worker") == [("stopped",)]
    fleet.verified()
    keep(fleet.app, "F07", f"isolated stage ends its process: {_briefly(how)}", faults=task.crashes)


def _briefly(how: str) -> str:
    return how.partition(" in ")[0]


def work_apart(fleet: Fleet) -> None:
    """Results, rows, checkpoints, parts, progress, reading and waiting work from another process."""
    [everything, waits] = fleet.enqueue([Apart("everything"), Apart("wait")])
    worker = fleet.start()
    wait_until(lambda: fleet.app.tasks.get(waits).status is Status.WAITING, "it waits for its signal", fleet.state)
    fleet.app.tasks.signal(waits, "go", 42)
    wait_until(lambda: fleet.ended() == 2, "both have ended", fleet.state)
    worker.send(signal.SIGTERM)
    assert worker.end() == 0
    fleet.all_succeeded([everything, waits])
    task = fleet.app.tasks.get(everything)
    told = task.results["work_apart"]
    assert len({told["worker"], told["own"], task.results["work_apart_awaiting"]}) == 3
    assert told["rows seen"] == 1  # the row of its checkpoint was durable before it went on
    assert task.progress is not None
    assert task.progress.note == "half of it"
    assert fleet.app.tasks.get(waits).results["work_apart"] == {"signal": 42}
    assert fleet.rows() == {
        (everything, "work_apart"): 1,
        (everything, "work_apart after its checkpoint"): 1,
        (everything, "work_apart_awaiting"): 1,
        (waits, "work_apart"): 2,  # waiting keeps the effects of its stage, and it has waited once
        (waits, "work_apart_awaiting"): 1,
    }


def fail_apart(fleet: Fleet) -> None:
    """Verdicts keep their effects, errors do not; too much memory is an error; a lambda cannot cross."""
    wishes = ["filter", "fail", "err", "memory", "lambda"]
    ids = dict(zip(wishes, fleet.enqueue(Apart(wish) for wish in wishes), strict=True))
    fleet.run_dry()
    tasks = {wish: fleet.app.tasks.get(task) for wish, task in ids.items()}
    assert (tasks["filter"].status, tasks["filter"].reason) == (Status.FILTERED, "five strikes")
    assert (tasks["fail"].status, tasks["fail"].reason) == (Status.FAILED, "for good")
    assert tasks["err"].reason == "failed after 1 retry: ValueError: an ordinary error"
    assert tasks["memory"].status is Status.FAILED
    assert "failed after 1 retry: MemoryError" in (tasks["memory"].reason or "")
    assert tasks["lambda"].status is Status.FAILED
    assert "cannot be found by name in another process" in (tasks["lambda"].reason or "")
    assert fleet.rows() == {(ids["filter"], "work_apart"): 1, (ids["fail"], "work_apart"): 1}


SCRIPT = """
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
    print(app.tasks.get(task).status.word, app.tasks.get(task).reason)
    print(app.read(lambda connection: connection.execute("SELECT text FROM note").fetchall()))
"""


def test_an_isolated_stage_of_a_plain_script_writes_its_rows(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["succeeded all stages have finished", "[('hello',)]"], done.stderr


ERRORS = """
from onceward import App, Context, Filtered, Payload, Pipeline, Retry


class FiveStrikes(Filtered):
    pass


class Later(Exception):
    retry_after = 10**9


class Ask(Payload, kind="ask"):
    what: str

    def key(self) -> str:
        return self.what


ask = Pipeline(
    Ask, deadline="2d", retry=Retry(retries=3, base=0, transient=(OSError,), permanent=(KeyError,), same_errors=2)
)


@ask.stage(isolate="process")
def answer(ctx: Context[Ask]) -> None:
    raise {"verdict": FiveStrikes("out"), "known": OSError("again"), "final": KeyError("no"), "late": Later("busy")}[
        ctx.payload.what
    ]


app = App("sqlite:///errors.db", pipelines=[ask])

if __name__ == "__main__":
    for what in ("verdict", "known", "final"):
        app.enqueue(Ask(what))
    app.run(until_idle=True)
    app.enqueue(Ask("late"))
    app.tick(max_tasks=1)
    for task in sorted(app.tasks.list(), key=lambda task: task.id):
        print(task.key, task.status.word, task.reason)
        if task.due_at is not None:
            print((task.due_at - task.created_at).days)
    query = "SELECT t.key FROM onceward_failure f JOIN onceward_task t ON t.id = f.task ORDER BY f.task"
    print(app.read(lambda connection: connection.execute(query).fetchall()))
"""


def test_errors_of_an_isolated_stage_are_judged_like_those_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text(ERRORS)
    ran = subprocess.run([sys.executable, "errors.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "verdict filtered out",
        "known failed failed after 3 retries: OSError: again",
        "final failed KeyError: 'no'",
        "late retryable Later: busy",
        "1",
        "[('known',), ('final',)]",
    ]
