"""The application of the tests of Retry-After: stages that call a service which asks to be left alone.

`python -m tests.faults.heeding` is a worker process of it. Each call notes when it began, and what it heard.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from onceward import App, Context, Payload, Pipeline, Retry, Source
from tests.faults.work import DATABASE
from tests.faults.worker import main

CALLS = 3
TAKES_S = 0.03
api = Source("api", rate="1000/s", burst=200, concurrency=20, timeout="10s", retries=4, breaker=None)


class TooMany(Exception):
    """HTTP 429."""

    status_code = 429

    def __init__(self, retry_after: float) -> None:
        super().__init__("too many requests")
        self.retry_after = retry_after


class Visit(Payload, kind="visit"):
    """Calls the service a few times; it asks to be left alone where a file with this number says for how long."""

    number: int
    folder: str


class AwaitedVisit(Visit, kind="awaited_visit"):
    """The same on the event loop."""


def note(folder: Path, what: str) -> None:
    """Add a line, from whatever process, in one write."""
    line = f"{time.time()} {os.getpid()} {what}\n".encode()
    handle = os.open(folder / "noted", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def answer(visit: Visit) -> None:
    """What the service says."""
    asked = Path(visit.folder) / f"asks-{visit.number}"
    try:
        seconds = float(asked.read_text())
        asked.unlink()
    except FileNotFoundError:
        return
    note(Path(visit.folder), f"heard {seconds}")
    raise TooMany(seconds)


RETRY = Retry(retries=9, base="100ms")
visits, awaited = Pipeline(Visit, retry=RETRY), Pipeline(AwaitedVisit, retry=RETRY)


@visits.stage(source=api, calls=CALLS)
def visit(ctx: Context[Visit]) -> None:
    def go() -> None:
        note(Path(ctx.payload.folder), "began")
        time.sleep(TAKES_S)
        answer(ctx.payload)

    for _ in range(CALLS):
        ctx.call(api, go)


@awaited.stage(source=api, calls=CALLS)
async def avisit(ctx: Context[AwaitedVisit]) -> None:
    async def go() -> None:
        note(Path(ctx.payload.folder), "began")
        await asyncio.sleep(TAKES_S)
        answer(ctx.payload)

    for _ in range(CALLS):
        await ctx.acall(api, go)


def make_app(url: str) -> App:
    """The app on a database."""
    return App(url, [visits, awaited])


app = make_app(os.environ.get(DATABASE, "sqlite:///:memory:"))

if __name__ == "__main__":
    from tests.faults import heeding

    main(heeding.app)
