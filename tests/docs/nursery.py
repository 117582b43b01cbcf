"""A process that has imported everything and opened nothing. What pages run is forked from it, and starts at once.

    python -m tests.docs.nursery SOCKET

Orders come over a socket, one at a time: `{"start": argv, …}` with three descriptors is answered by a pid,
`{"wait": pid, …}` by an exit code, or null if it takes longer than it may.
"""

from __future__ import annotations

import io
import json
import os
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import time
import traceback
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

LONGEST_ORDER = 1 << 20
OLD_SQLITE = "this process uses the database through Python's sqlite3"
"""The one warning that is no error here: Python's own SQLite may be an old one."""


class Nursery:
    """The other end: starts the process and gives it orders."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.docs.nursery", str(theirs.fileno())]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        self._socket = ours

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._socket.close()
        self._process.wait()

    def start(self, argv: list[str], folder: Path, environment: dict[str, str], descriptors: list[int]) -> int:
        """Start a process; returns its pid."""
        order = {"start": argv, "folder": str(folder), "environment": environment}
        socket.send_fds(self._socket, [json.dumps(order).encode()], descriptors)
        pid: int = json.loads(self._socket.recv(LONGEST_ORDER))
        return pid

    def wait(self, pid: int, longest_s: float) -> int | None:
        """The exit code of a process, as a shell would say it; None if it goes on for longer than that."""
        self._socket.sendall(json.dumps({"wait": pid, "longest_s": longest_s}).encode())
        code: int | None = json.loads(self._socket.recv(LONGEST_ORDER))
        return code


def main() -> None:
    """Take orders until the other end closes."""
    import pytest  # noqa: F401 - imported for those who are forked

    import onceward.cli.commands
    import onceward.store.postgres
    import onceward.testing  # noqa: F401

    control = socket.socket(fileno=int(sys.argv[1]))
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, LONGEST_ORDER, 3)
        if not data:
            return
        order = json.loads(data)
        if "wait" in order:
            answer = _exit_code(order["wait"], order["longest_s"])
        elif (answer := os.fork()) == 0:
            control.close()
            _live(order, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        control.sendall(json.dumps(answer).encode())


def _exit_code(pid: int, longest_s: float) -> int | None:
    deadline = time.monotonic() + longest_s
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            return None
        time.sleep(0.002)


def _live(order: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """The life of a forked process."""
    code = 1
    try:
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, "r" if number == 0 else "w") for number in range(3))
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # examples may leave closing to the end of the program
        warnings.filterwarnings("ignore", OLD_SQLITE)
        code = _carried_out(order["start"])
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _carried_out(argv: list[str]) -> int:
    sys.argv = argv[1:] if argv[:2] == ["python", "-m"] else argv
    match argv:
        case ["interpreter"]:
            sys.path.insert(0, "")
            return _interpret()
        case ["onceward", *arguments]:
            from onceward.cli import main as command_line

            return command_line(arguments)
        case ["python", "-m", module, *_]:
            sys.path.insert(0, os.getcwd())
            sys.argv = [module, *argv[3:]]
            return _ended(lambda: runpy.run_module(module, run_name="__main__"))
        case ["python", "-c", code]:
            sys.path.insert(0, "")
            return _ended(lambda: exec(compile(code, "-c", "exec"), {"__name__": "__main__"}))
        case ["python", script, *_]:
            sys.path.insert(0, os.getcwd())
            sys.argv = argv[1:]
            return _ended(lambda: runpy.run_path(script, run_name="__main__"))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return subprocess.run(["bash", "-c", shlex.join(argv)], check=False).returncode


def _ended(program: Any) -> int:
    try:
        program()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _interpret() -> int:
    """The interpreter of one page: blocks come in as lines of JSON, what they print goes back."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a block prints past sys.stdout must not disturb the answers
    page: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    for line in requests:
        request = json.loads(line)
        printed, error = io.StringIO(), None
        with redirect_stdout(printed), redirect_stderr(printed):
            try:
                # Lines are counted from where the block stands, so that a traceback points into the page.
                shifted = "\n" * (request["line"] - 1) + request["code"]
                exec(compile(shifted, request["page"], "exec"), page)
            except BaseException:
                error = traceback.format_exc()
        answers.write(json.dumps({"printed": printed.getvalue(), "error": error}).encode() + b"\n")
        answers.flush()
    return 0


if __name__ == "__main__":
    main()
