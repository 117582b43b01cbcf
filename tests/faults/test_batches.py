"""The last two tasks of a batch end together, and one of their workers is killed: what follows comes exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from onceward import App
from tests.faults.counting import keep, recovered_s
from tests.faults.fleet import Fleet, wait_until
from tests.faults.work import Follow, Last
from tests.proof.tally import SEED

PROCESSES = 4
LATEST_KILL_S = 0.02


def test_what_follows_a_batch_comes_once_though_workers_are_killed_at_its_end(fleet: Fleet) -> None:
    end_together(fleet, rounds=2)


@pytest.mark.torture
def test_what_follows_a_batch_comes_once_in_a_hundred_rounds(fleet: Fleet) -> None:
    end_together(fleet, rounds=100)


def end_together(fleet: Fleet, *, rounds: int) -> None:
    """Open batches of two tasks, one after the other; let both end at once, and kill one of those who run them.

    Only batches whose tasks are held by two processes count as rounds; the others are checked all the same.
    """
    dice = random.Random(SEED * rounds)
    worker = fleet.start(processes=PROCESSES, settings={"concurrency": 1})  # so that hardly anybody takes both
    tasks: list[int] = []
    killed: dict[int, float] = {}
    apart = 0
    batches = 0
    while apart < rounds:
        assert batches < 10 * rounds, "the last two were hardly ever held by two processes"
        folder = fleet.folder / f"round-{batches}"
        folder.mkdir()
        with fleet.app.batch(folder.name, then=Follow(folder.name)) as batch:
            for which in range(2):
                batch.add(Last(which, str(folder)))
        tasks += batch.tasks
        batches += 1
        holders = wait_until(partial(_about_to_end, fleet, batch.tasks, folder), "both are about to end", fleet.state)
        apart += len(set(holders)) == 2
        (folder / "open").touch()
        time.sleep(dice.uniform(0, LATEST_KILL_S))
        victim = dice.choice(holders)
        killed[victim] = time.time()
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
        wait_until(partial(_has_ended, fleet, folder.name), f"{folder.name} has ended", fleet.state)
    wait_until(lambda: fleet.ended() == 3 * batches, "everything has ended", fleet.state)
    worker.send(signal.SIGTERM)
    assert worker.end() == 0

    followers = [task for (task,) in fleet.sql("SELECT id FROM onceward_task WHERE kind = 'follow' ORDER BY id")]
    told = [task for (task,) in fleet.sql("SELECT then_task FROM onceward_batch ORDER BY then_task")]
    assert len(followers) == batches
    assert told == followers
    assert fleet.sql("SELECT DISTINCT status, total, succeeded FROM onceward_batch") == [(1, 2, 2)]
    fleet.all_succeeded([*tasks, *followers])
    fleet.exactly_once([*((task, "end_together") for task in tasks), *((task, "follow_up") for task in followers)])
    fleet.verified()
    fault = "worker killed while the last two tasks of a batch end"
    keep(fleet.app, "F55", fault, faults=len(killed), recovery_s=recovered_s(fleet.app, killed))


def _about_to_end(fleet: Fleet, tasks: list[int], folder: Path) -> list[int]:
    """The processes that hold the two tasks: two, once both have begun; or one that has claimed the second ahead."""
    holders = [pid for (pid,) in fleet.sql(
        "SELECT w.pid FROM onceward_worker w JOIN onceward_task t ON t.worker = w.id AND t.status = 1"
        f" WHERE t.id IN ({tasks[0]}, {tasks[1]})"
    )]  # fmt: skip
    begun = {path.name.split("-")[1] for path in folder.glob("inside-*")}
    return holders if len(holders) == 2 and len(begun) >= len(set(holders)) else []


def _has_ended(fleet: Fleet, name: str) -> bool:
    return fleet.sql(f"SELECT status FROM onceward_batch WHERE name = '{name}'") != [(0,)]


SCRIPT = """
import os
from onceward import App, Context, Payload, Pipeline


class Book(Payload, kind="book"):
    number: int


class Page(Payload, kind="page"):
    book: int
    number: int


class Index(Payload, kind="index"):
    book: int


def pages(ctx: Context[Book]) -> None:
    with app.batch(f"book {ctx.payload.number}", then=Index(ctx.payload.number)) as batch:
        for number in range(4):
            batch.add(Page(ctx.payload.number, number))
    if ctx.payload.number % 3 == 0:
        ctx.checkpoint("opened")
        assert app.batches.get(f"book {ctx.payload.number}").total >= 4


class Apart(Payload, kind="apart"):
    number: int


book, apart, page, index = Pipeline(Book), Pipeline(Apart), Pipeline(Page), Pipeline(Index)
book.stage(pages)
apart.stage(isolate="process")(pages)


@page.stage
def read(ctx: Context[Page]) -> None:
    if ctx.payload.number < 4:
        ctx.spawn(Page(ctx.payload.book, ctx.payload.number + 4))


@index.stage
def sort(ctx: Context[Index]) -> str:
    return app.batches.get(f"book {ctx.payload.book}").status


app = App(os.environ["BATCHES_URL"], pipelines=[book, apart, page, index])
"""

BOOKS = 24


def test_batches_that_stages_of_many_processes_open_inside_another_are_followed_once(fleet: Fleet) -> None:
    (fleet.folder / "library.py").write_text(SCRIPT)
    run = """
import library
with library.app.batch("library") as batch:
    for number in range(24):
        batch.add(library.Apart(number) if number < 3 else library.Book(number))
library.app.run(processes=3, until_idle=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", run],
        cwd=fleet.folder,
        env={**os.environ, "BATCHES_URL": fleet.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    app: App = fleet.app
    library = app.batches.get("library")
    assert (library.status, library.total, library.succeeded) == ("succeeded", BOOKS * 10, BOOKS * 10)
    inner = [one for one in app.batches.list(limit=100) if one.name != "library"]
    assert {(one.status, one.total) for one in inner} == {("succeeded", 8)}
    followers = fleet.sql("SELECT id FROM onceward_task WHERE kind = 'index' ORDER BY id")
    assert sorted(one.then for one in inner if one.then is not None) == [task for (task,) in followers]
    assert len(followers) == BOOKS
    seen = fleet.sql("SELECT DISTINCT value FROM onceward_checkpoint WHERE stage = 'sort'")
    assert [bytes(value) for (value,) in seen] == [b'"succeeded"']
    fleet.verified()
