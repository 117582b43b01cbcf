"""Stages in processes of their own that take more than they may."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from onceward import App, Config, Context, Isolation, Payload, Pipeline, Retry

DATABASE = "ONCEWARD_LIMITS_DATABASE"


class Greedy(Payload, kind="greedy"):
    """What is taken too much of."""

    what: str
    note: str = ""
    """A file in which a stage leaves a word."""


greedy = Pipeline(Greedy, retry=Retry(retries=0))


@greedy.stage(isolate=Isolation(memory_mb=200, cpu="1s", file_mb=1, open_files=20), timeout="10m")
def take(ctx: Context[Greedy]) -> str:
    match ctx.payload.what:
        case "nothing":
            with open(ctx.payload.note, "wb") as file:
                file.write(bytes(1_000_000))
            return "enough for all"
        case "memory":
            bytearray(400 * 2**20)
        case "cpu":
            while True:
                pass
        case "cpu, not to be stopped":
            try:
                while True:
                    pass
            except Exception:
                while True:
                    pass
        case "cpu in C":
            sum(range(10**13))  # hears no signal
        case "file":
            with open(ctx.payload.note, "wb") as file:
                file.write(bytes(2_000_000))
        case "files":
            kept = [open(os.devnull) for _ in range(100)]  # noqa: SIM115 - they are to stay open
            return str(len(kept))
        case "core":
            import resource

            return str(resource.getrlimit(resource.RLIMIT_CORE))
    return "took it"


@greedy.stage
def rest(ctx: Context[Greedy]) -> None: ...


class Slow(Payload, kind="slow"):
    """A stage that starts another process and waits for ever."""

    note: str


slow = Pipeline(Slow, retry=Retry(retries=0))


@slow.stage(isolate="process")
def wait(ctx: Context[Slow]) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(ctx.payload.note).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(600)


class Orphan(Payload, kind="orphan"):
    """A stage whose worker dies."""

    note: str


orphans = Pipeline(Orphan)


@orphans.stage(isolate="process")
def outlive(ctx: Context[Orphan]) -> None:
    Path(ctx.payload.note).write_text(f"{os.getpid()} {os.getppid()}")
    time.sleep(600)


app = App(
    os.environ.get(DATABASE, "sqlite:///:memory:"),
    [greedy, slow, orphans],
    config=Config(max_lost_workers=1, grace="1s"),
)

if __name__ == "__main__":
    app.run(until_idle=True)
