"""Worker processes for a library, started by a command and gone when there is nothing left to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onceward import App
from onceward_apps.documents.app import LOCATION, VARIABLE

PLACES = 2
"""How many documents one process works on at a time. Reading and embedding keep a core busy: more would hold memory."""
GRACE_S = 30
"""How long workers may take to end in good order."""


@contextmanager
def workers(app: App, log: Path, *, processes: int) -> Iterator[subprocess.Popen[bytes]]:
    """Have so many processes work until nothing is left to do. When the block is left they are told to end."""
    command = [sys.executable, "-m", "onceward", "run", LOCATION, "--until-idle"]
    command += ["--processes", str(processes), "--concurrency", str(PLACES)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for the command, which tells them
            env={**os.environ, VARIABLE: app.url},
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the workers and their supervisor at once."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
