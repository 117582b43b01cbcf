"""`onceward run` and the terminal, as real processes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from onceward import App, Status
from tests.cli import shop
from tests.cli.conftest import Ask

SCRIPT = """
from onceward import App, Context, Payload, Pipeline

class Note(Payload, kind="note"):
    text: str

note = Pipeline(Note)

@note.stage
def keep(ctx: Context[Note]) -> str:
    return ctx.payload.text

app = App("sqlite:///notes.db", pipelines=[note])
"""


def test_run_works_until_idle_and_stdout_is_one_document(app: App, command: Ask) -> None:
    app.enqueue_many([shop.Order(f"thing {fate}", fate) for fate in shop.FATES])

    answer = command("run", "tests.cli.shop:app", "--until-idle", "--json", SHOP_DB=app.url)

    assert answer.code == 0
    assert answer.document["processes"] == 1
    assert answer.document["tasks"]["succeeded"] == 1
    assert answer.document["tasks"]["failed"] == 2
    assert "a stage prints what it likes" in answer.err
    assert app.tasks.get(1).history[0].worker.endswith("/1")  # type: ignore[union-attr]


def test_run_in_this_process_logs_json_lines_to_stderr(app: App, command: Ask) -> None:
    app.enqueue(shop.Order("thing", "flaky"))

    answer = command(
        "run", "tests.cli.shop:app", "--until-idle", "--processes", "0", "--name", "ant", "--log-json", SHOP_DB=app.url
    )

    assert answer.code == 0
    lines = [json.loads(line) for line in answer.err.splitlines()]
    assert [line["event"] for line in lines if line["logger"] == "onceward.cli"] == ["working", "stopped"]
    [failed, _] = [line for line in lines if line["event"] == "stage failed"]
    assert (failed["task"], failed["kind"], failed["stage"], failed["level"]) == (1, "order", "check", "warning")
    assert app.tasks.get(1).history[0].worker == "ant"


def test_processes_log_in_the_form_that_run_was_told(sqlite_url: str, command: Ask) -> None:
    app = shop.app.on(sqlite_url)
    app.enqueue(shop.Order("thing", "flaky"))
    app.close()

    answer = command("run", "tests.cli.shop:app", "--until-idle", "--log-json", SHOP_DB=sqlite_url)

    lines = [json.loads(line) for line in answer.err.splitlines()]
    assert "stage failed" in [line["event"] for line in lines]


@pytest.mark.parametrize("processes", [0, 1])
def test_run_stops_in_good_order_when_told(app: App, processes: int) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "onceward", "run", "tests.cli.shop:app", "--processes", str(processes)],
        env={**os.environ, "SHOP_DB": app.url},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    app.enqueue(shop.Order("thing"))
    _until(lambda: app.tasks.get(1).status is Status.SUCCEEDED)

    worker.send_signal(signal.SIGTERM)
    _, log = worker.communicate(timeout=20)

    assert worker.returncode == 0
    assert "stopped" in log
    assert app.workers.list() == []


def test_a_worker_that_was_killed_is_not_shown_as_alive(app: App, ask: Ask) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "onceward", "run", "tests.cli.shop:app", "--processes", "0", "--name", "ant"],
        env={**os.environ, "SHOP_DB": app.url},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    app.enqueue(shop.Order("thing", "slow"))
    _until(lambda: app.why(1).cause == "running")

    worker.kill()
    worker.wait()

    assert "none is alive: onceward run APP starts one, 1 dead" in ask("status", "--db", app.url).out
    why = ask("why", 1, "--db", app.url, "--json").document
    assert why["sentence"] == "its worker ant has died; the next worker takes it over"
    assert why["command"] == "onceward run APP"


@pytest.mark.parametrize(
    "processes",
    [
        0,
        1,
    ],
)
def test_an_app_in_a_script_runs_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Ask, processes: int
) -> None:
    (tmp_path / "notes.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)

    answer = command("run", "notes.py:app", "--until-idle", "--processes", processes, "--json")

    assert answer.code == 0, answer.err
    assert (tmp_path / "notes.db").exists()


def test_a_terminal_gets_colours_and_no_line_too_long(unchanged: App) -> None:
    screen = _on_a_terminal("tasks", "--db", unchanged.url, columns=80)

    assert "\x1b[" in screen
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen)
    assert max(len(line) for line in plain.splitlines()) <= 80
    assert "succeeded" in plain
    assert "heartbeat" not in plain  # nothing runs, so there is nothing to show


def _on_a_terminal(*arguments: str, columns: int) -> str:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "40", "TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-m", "onceward", *arguments], stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        read = bytearray()
        while True:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # how Linux says that nobody holds the other end any more
                break
            if not piece:
                break
            read += piece
        assert process.wait(timeout=20) == 0
    os.close(ours)
    return read.decode().replace("\r\n", "\n")


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_file_of_the_application_is_not_taken_for_a_module_of_python(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise RuntimeError('this is ours')\n", encoding="utf-8")
    (tmp_path / "notes.py").write_text(SCRIPT, encoding="utf-8")
    command = [sys.executable, "-m", "onceward", "run", "notes:app", "--until-idle", "--json"]
    command[1:1] = ["-P"]  # as the command `onceward` does
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert "this is ours" not in done.stderr
    assert done.returncode == 0
