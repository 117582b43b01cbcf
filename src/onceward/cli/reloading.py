"""`onceward run --reload`: a worker for development, which begins anew when the source has changed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from onceward.support.logs import EngineLog

LOOK_EVERY_S = 0.5
WATCHED = (".py", ".toml")
NOT_LOOKED_INTO = frozenset({"__pycache__", "node_modules", "site-packages"})

logger = EngineLog("onceward.cli")


def run_reloading(arguments: Sequence[str], folder: Path) -> int:
    """Run the same command in a child until it is interrupted; start it anew when a file below a folder has changed.

    A child that ends by itself, because its source cannot be imported, waits for the next change.
    """
    command = [sys.executable, "-m", "onceward", *(one for one in arguments if one != "--reload")]
    signal.signal(signal.SIGTERM, _terminated)
    while True:
        before = _seen(folder)
        child = subprocess.Popen(command)
        try:
            changed = _first_change(child, folder, before)
            logger.info("the source has changed, the worker begins anew", file=changed)
            _end(child)
        except _Terminated:
            _end(child)
            return child.returncode
        except KeyboardInterrupt:  # a terminal has told the child as well
            return _ended(child)


class _Terminated(BaseException):
    """This process was told to end, and its child was not."""


def _terminated(*_: object) -> None:
    raise _Terminated


def _first_change(child: subprocess.Popen[bytes], folder: Path, before: dict[str, int]) -> str:
    has_ended = False
    while True:
        time.sleep(LOOK_EVERY_S)
        now = _seen(folder)
        if changed := sorted(path for path in {*before, *now} if before.get(path) != now.get(path)):
            return os.path.relpath(changed[0], folder)
        if not has_ended and child.poll() is not None:
            has_ended = True
            logger.warning("the worker has ended, and begins anew when a file changes", code=child.returncode)


def _seen(folder: Path) -> dict[str, int]:
    """When each file of the source was changed."""
    found: dict[str, int] = {}
    for where, below, names in os.walk(folder):
        below[:] = [one for one in below if not one.startswith(".") and one not in NOT_LOOKED_INTO]
        for name in names:
            if name.endswith(WATCHED):
                path = os.path.join(where, name)
                try:
                    found[path] = os.stat(path).st_mtime_ns
                except OSError:
                    continue  # it was deleted meanwhile
    return found


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    child.wait()


def _ended(child: subprocess.Popen[bytes]) -> int:
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue  # the child gives everything back at once
