"""What `onceward run` logs: at which level, where the database is, what it waits for, what this run has done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onceward import App, StoreError
from onceward.store.drivers.availability import Availability
from onceward.support.logs import stopping
from tests.cli.conftest import Ask

SCRIPT = """
import logging, pathlib, threading
from onceward import App, Context, Payload, Pipeline

class Note(Payload, kind="note"):
    text: str

note = Pipeline(Note)

@note.stage
def keep(ctx: Context[Note]) -> str:
    ctx.log.info("of the stage")
    for name in ("notes", "notes.below", "library"):
        logging.getLogger(name).debug("a debug line")
        logging.getLogger(name).info("an info line")
        logging.getLogger(name).warning("a warning")
    if ctx.payload.text == "wait":
        pathlib.Path("began").touch()
        threading.Event().wait(60)
    return ctx.payload.text

app = App("sqlite:///notes.db", pipelines=[note])
"""

LATE = """
import pathlib
pathlib.Path("slow").unlink()  # the command line imports the app as well
from onceward.worker import supervisor
from onceward.cli import main as command_line

begun = supervisor._begun

def late(command):
    pathlib.Path("slow").touch()
    return begun(command)

def main():
    supervisor._begun = late
    return command_line(["run", "notes:app"])
"""
"""`onceward run` whose worker processes take long to import the app."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an app."""
    (tmp_path / "notes.py").write_text(SCRIPT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def enqueue(text: str, count: int = 1) -> None:
    code = f"from notes import Note, app; app.enqueue_many([Note('{text}' or str(n)) for n in range({count})])"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def run(*arguments: str) -> tuple[list[dict[str, object]], str]:
    """The lines of the log of a run until idle, as JSON."""
    command = [sys.executable, "-m", "onceward", "run", "notes:app", "--until-idle", "--log-format", "json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stderr.splitlines()], done.stdout


@pytest.mark.parametrize(
    ("level", "processes", "own", "others"),
    [
        ("debug", "1", {"a debug line", "an info line", "a warning"}, {"a warning"}),
        ("info", "0", {"an info line", "a warning"}, {"a warning"}),
        ("error", "0", set(), set()),
    ],
)
def test_the_level_is_that_of_engine_and_app_and_other_libraries_log_warnings(
    folder: Path, level: str, processes: str, own: set[str], others: set[str]
) -> None:
    enqueue("one")
    lines, _ = run("--processes", processes, "--log-level", level)
    for name, expected in (("notes", own), ("notes.below", own), ("library", others)):
        assert {str(line["event"]) for line in lines if line["logger"] == name} == expected, name
    assert any(line["event"] == "of the stage" for line in lines) == (level != "error")


def test_a_run_tells_the_whole_path_of_a_new_file_and_counts_what_it_did_itself(folder: Path) -> None:
    first, _ = run("--processes", "0")
    [working] = [line for line in first if line["event"] == "working"]
    assert (working["database"], working["created"]) == (str(folder / "notes.db"), True)
    enqueue("", 3)
    run("--processes", "0")
    enqueue("again", 2)
    lines, document = run("--json")
    [working] = [line for line in lines if line["event"] == "working"]
    [stopped] = [line for line in lines if line["event"] == "stopped"]
    assert "created" not in working
    assert stopped["succeeded"] == 2, "three are of the run before"
    assert json.loads(document)["ended"] == {"succeeded": 2}
    assert json.loads(document)["tasks"]["succeeded"] == 5


def test_a_server_is_told_with_its_port(ask: Ask) -> None:
    with App("postgresql://ada:secret@db.example:6543/shop") as app:
        assert app._store.place == "postgresql://db.example:6543/shop"


@pytest.mark.parametrize("processes", ["0", "1"])
def test_a_worker_that_is_told_to_stop_says_at_once_what_it_waits_for(folder: Path, processes: str) -> None:
    enqueue("wait")
    command = [sys.executable, "-m", "onceward", "run", "notes:app", "--processes", processes]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log, start_new_session=True) as process:
        until(lambda: (folder / "began").exists())
        os.killpg(process.pid, signal.SIGINT)
        until(lambda: "stopping: waiting for 1 stage, Ctrl-C again to end it" in (folder / "log").read_text())
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
    assert (folder / "log").read_text().count("stopping: ") == 1


def test_a_worker_that_is_still_starting_stops_at_once_and_without_a_word_too_many(folder: Path) -> None:
    slow = SCRIPT + "\nif pathlib.Path('slow').exists(): pathlib.Path('imports').touch(); threading.Event().wait(60)\n"
    (folder / "notes.py").write_text(slow, encoding="utf-8")
    enqueue("one")
    (folder / "slow").touch()
    code = "import sys, notes_run; sys.exit(notes_run.main())"
    (folder / "notes_run.py").write_text(LATE, encoding="utf-8")
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([sys.executable, "-c", code], stderr=log, start_new_session=True) as process,
    ):
        until(lambda: (folder / "imports").exists())
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 0
    said = (folder / "log").read_text()
    assert "stopping: no stage runs" in said
    assert "Traceback" not in said
    assert "worker lost" not in said
    (folder / "slow").unlink()
    lines, _ = run()
    assert not [line for line in lines if line["event"] == "worker lost, its tasks are back in line"]


def test_a_worker_that_is_told_to_stop_while_its_database_is_away_says_so() -> None:
    assert stopping(2) == "stopping: waiting for 2 stages, Ctrl-C again to end them"
    assert stopping(2, is_away=True) == "stopping: the database is away, Ctrl-C again not to wait for it"


def test_an_absent_database_is_told_of_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    Availability().note_failure(until, StoreError("no such file\n\tIs the server running?"))
    [record] = caplog.records
    assert "no such file Is the server running?" in record.getMessage()


def until(condition: object) -> None:
    deadline = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.02)
