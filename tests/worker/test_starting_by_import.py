"""A module whose import begins work: a worker or a command that needs its app refuses it, and starts nothing more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceward import App

MOST_STARTS = 8
"""The script ends itself beyond this many, lest a broken engine starts processes without end."""

SCRIPT = f"""
import os
with open("starts", "a+") as starts:
    starts.write("started\\n")
    starts.seek(0)
    if len(starts.readlines()) > {MOST_STARTS}:
        os._exit(9)

from onceward import App, Context, Payload, Pipeline

class Page(Payload, kind="page"):
    name: str

page = Pipeline(Page)

@page.stage
def read(ctx: Context[Page]) -> None:
    pass

app = App("sqlite:///pages.db", pipelines=[page])
"""


def ended(folder: Path, *command: str) -> tuple[int, str]:
    """How a process ends, and what it says on stderr; nothing that it starts outlives this."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, err = process.communicate(timeout=30)
    finally:
        os.killpg(process.pid, signal.SIGKILL) if process.returncode is None else None
    return process.returncode, err


def test_a_script_without_a_guard_ends_its_workers_and_itself(tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text(
        SCRIPT + "if __name__ == '__main__': app.enqueue(Page('home'))\napp.run(until_idle=True, processes=2)\n"
    )

    code, err = ended(tmp_path, "pages.py")

    assert code == 1
    guard = 'put that below `if __name__ == "__main__":`'
    assert f"pages.py calls app.run() while a worker imports it; {guard}" in err
    assert f"importing {tmp_path}/pages.py:app begins work; {guard}" in err
    assert len((tmp_path / "starts").read_text().splitlines()) == 3


@pytest.mark.parametrize("call", ["app.enqueue(Page('home'))", "app.run(until_idle=True)", "app.tick()"])
def test_a_command_refuses_a_module_that_begins_work(call: str, tmp_path: Path) -> None:
    (tmp_path / "pages.py").write_text(f"{SCRIPT}\n{call}\n")
    App(f"sqlite:///{tmp_path}/pages.db").migrate()

    code, err = ended(tmp_path, "-m", "onceward", "tasks", "--app", "pages:app")

    assert code == 2
    assert f"pages calls {call.partition('(')[0]}() while a command imports it" in err
    app = App(f"sqlite:///{tmp_path}/pages.db")
    assert app.tasks.list() == []
    app.close()
