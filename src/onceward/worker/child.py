"""A worker process under a supervisor: `python -m onceward.worker.child APP WORKER PRESENCE NAME`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from typing import Any

from onceward.errors import StartedByImport
from onceward.support import logs
from onceward.worker import find_app
from onceward.worker.process import WorkerProcess
from onceward.worker.worker_orders import RETIRED, STARTED_BY_IMPORT, Orders


def main() -> None:
    """Carry out the orders of a supervisor, and end with it."""
    parser = argparse.ArgumentParser(prog="onceward-child")
    parser.add_argument("app")
    parser.add_argument("worker", type=int)
    parser.add_argument("presence")
    parser.add_argument("name")
    parser.add_argument("--concurrency", type=int)
    parser.add_argument("--queue", action="append")
    parser.add_argument("--suspects", action="store_true")
    parser.add_argument("--failures", type=int)
    parser.add_argument("--until-idle", action="store_true")
    given = parser.parse_args()
    # Its supervisor has blocked Ctrl-C for it until here. It is for the supervisor to say what it means.
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        app: Any = find_app.load(given.app, "a worker")
    except StartedByImport as error:
        from onceward import terminal  # a child that starts well needs none of it

        terminal.complain("onceward", str(error))
        os._exit(STARTED_BY_IMPORT)
    logs.configure_from_environment()
    orders = Orders(
        queues=given.queue,
        until_idle=given.until_idle,
        name=given.name,
        concurrency=given.concurrency,
        worker=given.worker,
        presence=given.presence,
        suspects_only=given.suspects,
        app_path=given.app,
        failures=given.failures,
    )
    summary = app._work(orders, on_start=_obey)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit: a thread that is lost to a stage must not keep the process.
    os._exit(RETIRED if summary.retired else 0)


def _obey(process: WorkerProcess) -> None:
    """Stop when the supervisor says so, or when it is gone."""

    def listen() -> None:
        times = 0
        while line := sys.stdin.buffer.readline():
            if line.strip() == b"stop":
                times += 1
                process.request_stop(times)
        process.request_stop(1)

    threading.Thread(target=listen, name="onceward orders", daemon=True).start()


if __name__ == "__main__":
    main()
