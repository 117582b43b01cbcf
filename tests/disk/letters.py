"""The smallest work that leaves something behind, for tests in which real workers do it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from onceward import App, Config, Context, Payload, Pipeline
from tests.disk.engine import NOTES, insert_note


class Letter(Payload, kind="letter"):
    """A task that leaves one row."""

    number: int


letter = Pipeline(Letter)


@letter.stage
def send(ctx: Context[Letter]) -> None:
    ctx.write(insert_note, ctx.task.id, str(ctx.payload.number))


def mailing(file: Path) -> App:
    """An app that sends letters, and whose workers are soon missed."""
    config = Config(lease="3s", heartbeat="100ms")
    return App(f"sqlite:///{file}", [letter], migrations=[NOTES], config=config)


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that another thread does."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, f"not in a minute: {what}"
        time.sleep(0.01)
