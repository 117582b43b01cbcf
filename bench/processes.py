"""Client and worker processes: started, watched, and ended with the measurement they belong to."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any

from bench import runlog
from bench.target import Target

ROOT = Path(__file__).resolve().parent.parent
STALL_SECONDS = 20.0
STOP_SECONDS = 10.0
EXIT_SECONDS = 60.0
LIFE_SECONDS = 300.0

Process = subprocess.Popen[str]


class BenchError(Exception):
    """A process of the benchmark failed; the message ends with what it printed last."""


def client_command(*request: object) -> list[str]:
    """The command of a process that enqueues."""
    return [sys.executable, "-m", "bench.client", *map(str, request)]


def worker_command(
    *, until_idle: bool = False, fans: bool = False, kinds: bool = False, few: bool = False
) -> list[str]:
    """The command of one worker process without a supervisor.

    With `fans` it runs only those who spawn, with `kinds` what `bench.kinds` knows instead of plain tasks, with `few`
    on few slots.
    """
    options = {"--until-idle": until_idle, "--fans": fans, "--kinds": kinds, "--few": few}
    return [sys.executable, "-m", "bench.worker", *(name for name, is_set in options.items() if is_set)]


def reader_command(seconds: float) -> list[str]:
    """The command of a process that keeps a read transaction of a SQLite file open for so long, again and again."""
    return [sys.executable, "-m", "bench.reader", str(seconds)]


def supervised_command(processes: int) -> list[str]:
    """The command of the engine's supervisor with so many worker processes."""
    return [sys.executable, "-m", "onceward", "run", "bench.jobs:app", "--processes", str(processes)]


@contextmanager
def started(command: list[str], target: Target, *, life_seconds: float = LIFE_SECONDS) -> Iterator[Process]:
    """A process in a session of its own; it ends with the block, and after `life_seconds` in any case."""
    with open(errors_of(target), "a", encoding="utf-8") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=target.environment(),
            stdout=subprocess.PIPE if "bench.client" in command else errors,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    watchdog = Timer(life_seconds, kill, [process])
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        stop(process)


def kill(process: Process) -> None:
    """End the process and its children at once."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def stop(process: Process) -> None:
    """Ask the process to end, then make it and its children."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            kill(process)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def ask(target: Target, *request: object) -> dict[str, Any]:
    """Run a client to its end and return what it measured."""
    with started(client_command(*request), target) as process:
        return answer(process, target)


def await_ready(process: Process, target: Target) -> None:
    """Return when the client has made the database and enqueued its first job."""
    assert process.stdout is not None
    if process.stdout.readline().strip() != "ready":
        raise failure("the client did not get ready", target)


def answer(process: Process, target: Target) -> dict[str, Any]:
    """What the client measured, once it has ended."""
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    if process.wait() != 0 or not lines:
        raise failure(f"the client ended with code {process.returncode}", target)
    measured: dict[str, Any] = json.loads(lines[-1])
    return measured


def await_runs(target: Target, count: int, workers: list[Process], look: Callable[[int], None] | None = None) -> None:
    """Return when `count` handlers have started, when no worker is left, or when nothing has moved for long.

    Meanwhile `look` is called with how many there are, again and again, and once when there are enough.
    """
    seen, moved_at = 0, time.monotonic()
    while True:
        runs = runlog.length(target.log)
        if look is not None:
            look(runs)
        if runs >= count:
            return
        now = time.monotonic()
        if runs > seen:
            seen, moved_at = runs, now
        if now - moved_at > STALL_SECONDS or all(worker.poll() is not None for worker in workers):
            return
        time.sleep(0.01)


def await_exit(process: Process, target: Target) -> None:
    """Return when a worker that runs until idle has ended well."""
    try:
        code = process.wait(EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise failure(f"a worker was not idle after {EXIT_SECONDS:.0f} s", target) from None
    if code != 0:
        raise failure(f"a worker ended with code {code}", target)


def errors_of(target: Target) -> Path:
    """Where the processes of a measurement print."""
    return target.log.with_suffix(".err")


def failure(what: str, target: Target) -> BenchError:
    """An error that says what happened and shows the last lines the processes printed."""
    lines = errors_of(target).read_text(encoding="utf-8").splitlines()[-15:]
    return BenchError("\n".join([what, *lines]))
