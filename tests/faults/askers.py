"""The application of the tests of the cache: stages that ask one server for the same page.

`python -m tests.faults.askers [--processes N] [--until-idle]` is a worker process of it.
"""

from __future__ import annotations

import os
import time
import urllib.request
from pathlib import Path

from onceward import App, Context, Payload, Pipeline, Source
from tests.faults.work import DATABASE
from tests.faults.worker import main

LONGEST_WAIT_S = 60.0
web = Source("web", timeout="60s", retries=0)


class Ask(Payload, kind="ask"):
    """Asks for a page as soon as so many are inside; by a process of its own if wanted."""

    number: int
    url: str
    folder: str
    together: int
    apart: bool = False


ask = Pipeline(Ask)


def page(ctx: Context[Ask]) -> str:
    folder = Path(ctx.payload.folder)
    (folder / f"inside-{ctx.payload.number}").touch()
    give_up_at = time.monotonic() + LONGEST_WAIT_S
    while len(list(folder.glob("inside-*"))) < ctx.payload.together:
        if time.monotonic() > give_up_at:
            raise TimeoutError("the others do not come")
        time.sleep(0.005)
    return ctx.cached(web, ctx.payload.url, lambda: get(ctx.payload.url), type=str)


def get(url: str) -> str:
    """What the server answers. It is told who asks."""
    with urllib.request.urlopen(urllib.request.Request(url, headers={"X-Pid": str(os.getpid())})) as answer:
        text: str = answer.read().decode()
        return text


@ask.stage(calls=1)
def here(ctx: Context[Ask]) -> str:
    return "" if ctx.payload.apart else page(ctx)


@ask.stage(isolate="process", calls=1)
def apart(ctx: Context[Ask]) -> str:
    return page(ctx) if ctx.payload.apart else ctx.result(here)


def make_app(url: str) -> App:
    """The app on a database."""
    return App(url, [ask])


app = make_app(os.environ.get(DATABASE, "sqlite:///:memory:"))

if __name__ == "__main__":
    from tests.faults import askers

    main(askers.app)
