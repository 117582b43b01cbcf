"""Real worker processes of a library, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from onceward_apps.documents.app import LOCATION, VARIABLE

ROOT = Path(__file__).parents[3]
LONGEST_S = 300.0


class Workers:
    """A worker, or with `processes` a supervisor and its workers, in a group that can be killed as one."""

    def __init__(self, url: str, log: Path, *, processes: int = 0, **environment: str) -> None:
        self.log = log
        command = [sys.executable, "-m", "onceward", "run", LOCATION, "--processes", str(processes), "--until-idle"]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=ROOT,
                env={**os.environ, VARIABLE: url, **environment},
            )

    def kill(self) -> None:
        """SIGKILL for all of them at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def freeze(self) -> None:
        """Have them stand still."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Have them go on."""
        os.killpg(self.process.pid, signal.SIGCONT)

    def end(self, longest_s: float = LONGEST_S) -> int:
        """Wait until they have ended by themselves, or were killed."""
        try:
            return self.process.wait(longest_s)
        finally:
            self.kill()


def wait_until(condition: Callable[[], bool], longest_s: float = 60.0) -> None:
    """Look until something is so."""
    until = time.monotonic() + longest_s
    while not condition():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.02)
