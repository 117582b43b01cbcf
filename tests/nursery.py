"""A process that has imported everything and opened nothing. What tests start is forked from it, and starts at once.

    python -m tests.nursery SOCKET

Orders come over a socket, one at a time: `{"start": argv, …}` with three descriptors is answered by a pid,
`{"reap": pid}` by the exit code of a process that has ended. What is forked goes on as if its command line had been
started, and ends as any Python program does. That a command line really starts is for other tests to see.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, TextIO

ROOT = Path(__file__).resolve().parents[1]
LONGEST_ORDER = 1 << 20
OLD_SQLITE = "this process uses the database through Python's sqlite3"
"""The one warning that is never an error here: Python's own SQLite may be an old one."""


@cache
def nursery() -> Nursery:
    """The one of this process, which ends with it."""
    made = Nursery()
    atexit.register(made.close)
    return made


class Nursery:
    """The other end: starts the process and gives it orders, whichever thread they come from."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.nursery", str(theirs.fileno())]
            self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        self._socket = ours
        self._lock = threading.Lock()

    def close(self) -> None:
        """End it, and wait for its end."""
        self._socket.close()
        self._process.wait()

    def start(
        self,
        argv: Sequence[str],
        *,
        folder: Path = ROOT,
        environment: Mapping[str, str] = os.environ,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
        new_session: bool = False,
        warnings_are_errors: bool = False,
    ) -> Process:
        """Start a process. A stream may be a descriptor, a file, `PIPE` or `STDOUT` as for `subprocess`; else ours."""
        order = {
            "start": list(argv),
            "folder": str(folder),
            "environment": dict(environment),
            "new_session": new_session,
            "warnings_are_errors": warnings_are_errors,
        }
        streams = _Streams(stdin, stdout, stderr)
        try:
            pid = self._ask(order, streams.theirs)
        finally:
            streams.close_theirs()
        return Process(self, pid, streams)

    def reap(self, pid: int) -> int:
        """The exit code of a process that has ended."""
        return self._ask({"reap": pid})

    def _ask(self, order: dict[str, Any], descriptors: Sequence[int] = ()) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(order).encode()], list(descriptors))
            answer: int = json.loads(self._socket.recv(LONGEST_ORDER))
            return answer


class _Streams:
    """Standard input, output and error of a process, and our ends of those that are pipes."""

    def __init__(self, *wanted: int | IO[Any] | None) -> None:
        self.theirs: list[int] = []
        self.ours: list[TextIO | None] = []
        self._to_close: list[int] = []
        for number, stream in enumerate(wanted):
            mine: TextIO | None = None
            if stream == subprocess.PIPE:
                read, write = os.pipe()
                theirs, end = (read, write) if number == 0 else (write, read)
                mine = os.fdopen(end, "w" if number == 0 else "r")
                self._to_close.append(theirs)
            elif stream == subprocess.STDOUT:
                theirs = self.theirs[1]
            elif stream is None:
                theirs = number
            else:
                theirs = stream if isinstance(stream, int) else stream.fileno()
            self.theirs.append(theirs)
            self.ours.append(mine)

    def close_theirs(self) -> None:
        for descriptor in self._to_close:
            os.close(descriptor)


class Process:
    """A process that was forked. It does what a `subprocess.Popen` does, as far as tests ask for it."""

    def __init__(self, nursery: Nursery, pid: int, streams: _Streams) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin, self.stdout, self.stderr = streams.ours
        self._nursery = nursery
        self._end = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        return self._exit_code(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit code."""
        code = self._exit_code(None if timeout is None else timeout * 1_000)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def _exit_code(self, within_ms: float | None) -> int | None:
        with self._lock:
            if self.returncode is None:
                waiting = select.poll()
                waiting.register(self._end, select.POLLIN)
                if waiting.poll(within_ms):
                    self.returncode = self._nursery.reap(self.pid)
                    os.close(self._end)
            return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; returns what it has written to those of its streams that are pipes."""
        if self.stdin is not None:
            self.stdin.close()
        said = ["", ""]

        def read(place: int, stream: TextIO) -> None:
            with stream:
                said[place] = stream.read()

        readers = [
            threading.Thread(target=read, args=(place, stream), daemon=True)
            for place, stream in enumerate((self.stdout, self.stderr))
            if stream is not None and not stream.closed
        ]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return said[0], said[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def main() -> int | None:
    """Take orders until the other end closes; in a forked process, carry out the one it was forked for."""
    import pytest  # noqa: F401 - imported for those who are forked
    import uvloop  # noqa: F401

    import onceward.store.drivers.postgres
    import onceward.store.drivers.sqlite3_client
    import onceward.testing  # noqa: F401
    from onceward.cli.commands import with_commands_for

    with_commands_for([])
    gc.freeze()  # what nobody looks at stays shared
    control = socket.socket(fileno=int(sys.argv[1]))
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, LONGEST_ORDER, 3)
        if not data:
            return None
        order = json.loads(data)
        if "reap" in order:
            answer = os.waitstatus_to_exitcode(os.waitpid(order["reap"], 0)[1])
        elif (answer := os.fork()) == 0:
            control.close()
            _settle(order, descriptors)
            return _carried_out(order["start"])
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(json.dumps(answer).encode())


def _settle(order: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Let a forked process find itself where its order says."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace")
    if order["new_session"]:
        os.setsid()
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    if order["warnings_are_errors"]:
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # examples may leave closing to the end of the program
        warnings.filterwarnings("ignore", OLD_SQLITE)


def _carried_out(argv: list[str]) -> int | None:
    sys.path.insert(0, os.getcwd())
    match argv:
        case ["onceward", *arguments] | ["python", "-m", "onceward", *arguments]:
            from onceward.cli import main as command_line

            sys.argv = argv
            return command_line(arguments)
        case ["onceward-docs", *arguments]:
            from onceward_apps.documents.cli import main as documents

            sys.argv = argv
            return documents(arguments)
        case ["python", "-m", module, *arguments]:
            sys.argv = [module, *arguments]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["python", "-c", code, *arguments]:
            sys.argv = ["-c", *arguments]
            exec(compile(code, "-c", "exec"), {"__name__": "__main__"})
        case ["python", script, *arguments]:
            sys.argv = [script, *arguments]
            sys.path[0] = str(Path(script).resolve().parent)
            runpy.run_path(script, run_name="__main__")
        case _:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            os.execvp("bash", ["bash", "-c", shlex.join(argv)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
