"""Worker processes of the job finder, started by a command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

from onceward import App
from onceward_apps.jobfinder.finder import LOCATION, VARIABLE
from onceward_apps.jobfinder.surroundings import PROFILE, profile_path

GRACE_S = 40
"""How long workers may take to end in good order."""


@contextmanager
def workers(
    app: App, log: Path, *, processes: int, until_idle: bool, name: str | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Have so many processes work. When the block is left they are told to end, also by a
    signal that ends us."""
    command = [sys.executable, "-m", "onceward", "run", LOCATION, "--processes", str(processes)]
    command += [*(["--until-idle"] if until_idle else []), *(["--name", name] if name else [])]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for the command, which tells them
            env={**os.environ, VARIABLE: app.url, PROFILE: str(profile_path().absolute())},
        )
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield process
    finally:
        signal.signal(signal.SIGTERM, before)
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
