"""The invented web as a process of its own, which ends with its parent process."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from onceward_apps.jobfinder.world.http import LOG_HOST, Entry
from onceward_apps.jobfinder.world.troubles import DEAD_HOST
from onceward_apps.jobfinder.world.web import Size

CLOSED = "127.0.0.1:1"
"""An address on which no server listens."""


@dataclass(frozen=True, slots=True)
class Running:
    """A web that is being served."""

    port: int

    @property
    def stand_ins(self) -> dict[str, str]:
        """Where every host of the web is found: all at one place, and the dead one nowhere."""
        return {"*": f"127.0.0.1:{self.port}", DEAD_HOST: CLOSED}

    def log(self) -> list[Entry]:
        """All that was asked so far."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", headers={"Host": LOG_HOST})
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
            return msgspec.json.decode(answer.read(), type=list[Entry])


@contextmanager
def running(size: Size) -> Iterator[Running]:
    """Serve a web of this size."""
    options = json.dumps(msgspec.to_builtins(size))
    process = subprocess.Popen(
        [sys.executable, "-m", "onceward_apps.jobfinder.world", options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        if not said:
            raise RuntimeError(f"the invented web did not start: it ended with {process.wait()}")
        yield Running(int(said))
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()
