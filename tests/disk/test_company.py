"""A database that others use too: writers that hog it, readers that pin it, processes that were forked from ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from onceward import App, Event, Status
from onceward.errors import ForkedConnection
from onceward.store import queries
from tests.disk.engine import assert_sound, assert_verified
from tests.disk.letters import Letter, letter, mailing
from tests.proof.tally import Tally

HOG = """
import sys, time, apsw
connection = apsw.Connection(sys.argv[1])
connection.set_busy_timeout(60_000)
for _ in range(int(sys.argv[2])):
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE note SET task = task")
    print("has it", flush=True)
    time.sleep(float(sys.argv[3]))
    connection.execute("COMMIT")
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with mailing(tmp_path / "onceward.db") as made:
        made.prepare()
        yield made


@contextmanager
def hogging(app: App, *, processes: int, times: int, each_s: float) -> Iterator[list[subprocess.Popen[str]]]:
    """Other processes have the write lock again and again; at the beginning one of them has it."""
    command = [sys.executable, "-c", HOG, app._store.place, str(times), str(each_s)]
    hogs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    try:
        assert hogs[0].stdout is not None
        assert hogs[0].stdout.readline() == "has it\n"
        yield hogs
    finally:
        for hog in hogs:
            hog.communicate(timeout=60)
    assert [hog.returncode for hog in hogs] == [0] * processes


def log_of(app: App) -> int:
    """How large the log of a database is."""
    return os.stat(f"{app._store.place}-wal").st_size


def work_beside_hogs(app: App, *, processes: int, times: int, each_s: float, tasks: int) -> None:
    """Enqueue and work while others have the lock most of the time; no error reaches anybody, and no lease is lost."""
    began = time.monotonic()
    with hogging(app, processes=processes, times=times, each_s=each_s):
        ids = [app.enqueue(Letter(number)).id for number in range(tasks)]
        waited_s = time.monotonic() - began
        app.run(until_idle=True)
    assert waited_s > each_s / 2, "nobody was in the way"
    assert all(app.tasks.get(task).status is Status.SUCCEEDED for task in ids)
    events = [entry.event for task in ids for entry in app.tasks.get(task).history]
    assert not {Event.RECLAIMED, Event.LOST, Event.CRASHED} & set(events)
    assert_verified(app)
    Tally(
        matrix="F23",
        fault=f"write lock held by others for {each_s:g} s",
        store="sqlite",
        faults=processes * times,
        accepted=tasks,
        commits=tasks,
        recovery_s=[waited_s],
    ).keep()


def test_a_writer_that_hogs_the_lock_is_waited_for(app: App) -> None:
    work_beside_hogs(app, processes=1, times=1, each_s=1.0, tasks=5)


@pytest.mark.torture
def test_a_writer_that_hogs_the_lock_for_longer_than_a_lease_is_waited_for(app: App) -> None:
    work_beside_hogs(app, processes=1, times=3, each_s=5.0, tasks=50)


@pytest.mark.torture
def test_a_storm_of_writers_keeps_no_other_writer_out(app: App) -> None:
    work_beside_hogs(app, processes=6, times=200, each_s=0.02, tasks=300)


def test_no_transaction_begins_by_reading_and_goes_on_to_write() -> None:
    begins = [
        (name, statement)
        for name, text in queries.queries("sqlite").items()
        for statement in re.findall(r"\bBEGIN\b[^;]*", re.sub(r"--.*|/\*.*?\*/", "", text))
    ]
    assert {name: statement.strip() for name, statement in begins} == {
        "begin": "BEGIN IMMEDIATE",
        "begin_reading": "BEGIN DEFERRED",
    }


def test_a_log_that_a_reader_had_pinned_grows_no_more_when_it_has_gone(app: App) -> None:
    with closing(apsw.Connection(app._store.place)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM onceward_task").fetchall()
        for number in range(60):
            app.enqueue_many([Letter(100 * number + one) for one in range(100)])
        pinned = log_of(app)
        assert pinned > 4 << 20, "the log has not grown beyond what it has without a reader"
        reader.execute("COMMIT")
    for number in range(20):
        app.enqueue(Letter(-number - 1))
    assert log_of(app) - pinned < 1 << 16
    assert_sound(Path(app._store.place))


def test_a_forked_process_is_refused_the_connection_of_its_parent_and_closes_nothing_of_it(app: App) -> None:
    app.enqueue(Letter(1))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            app.enqueue(Letter(2))
        except ForkedConnection as error:
            code = 0 if "make the App in the child process" in str(error) else 2
            app.close()
            with App(app.url, [letter]) as own:  # one of its own is fine
                own.enqueue(Letter(3))
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    app.enqueue(Letter(4))
    with closing(apsw.Connection(app._store.place)) as other:
        assert other.execute("SELECT count(*) FROM onceward_task").fetchall() == [(3,)]
    app.run(until_idle=True)
    assert_verified(app)
    assert_sound(Path(app._store.place))
