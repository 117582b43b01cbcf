"""A stage that blocks the event loop of its worker is named in a warning, with the line where it stands."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from onceward import App, Context, Payload, Pipeline
from onceward.worker import blocked_loop

LONGEST_S = 20


class Job(Payload, kind="job"):
    name: str = "job"


class _Heard(logging.Handler):
    """Tells the stage that blocks that it has been noticed."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.event = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "event loop is blocked" in record.getMessage():
            self.lines.append(record.getMessage())
            self.event.set()


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Heard]:
    monkeypatch.setattr(blocked_loop, "ASK_EVERY_S", 0.01)
    monkeypatch.setattr(blocked_loop, "BLOCKED_AFTER_S", 0.03)
    handler = _Heard()
    logging.getLogger("onceward.worker").addHandler(handler)
    yield handler
    logging.getLogger("onceward.worker").removeHandler(handler)


def run(sqlite_url: str, pipeline: Pipeline[Any]) -> int:
    with App(sqlite_url, [pipeline]) as app:
        app.prepare()
        task = app.enqueue(Job()).id
        app.run(until_idle=True)
        assert app.tasks.get(task).status.word == "succeeded"
    return task


def test_a_stage_that_blocks_the_event_loop_is_named_with_its_line(migrated_sqlite_url: str, heard: _Heard) -> None:
    pipeline = Pipeline(Job)

    @pipeline.stage
    async def fetch(ctx: Context[Job]) -> None:
        assert heard.event.wait(LONGEST_S)  # this is the line

    task = run(migrated_sqlite_url, pipeline)
    [line, *_] = heard.lines
    assert "this is the line" in line
    for part in (f"task={task}", "kind='job'", "stage='fetch'", "test_standstill.py:", "seconds="):
        assert part in line.replace("kind=job", "kind='job'").replace("stage=fetch", "stage='fetch'"), line


def test_a_task_that_a_stage_has_started_is_found_by_its_line(migrated_sqlite_url: str, heard: _Heard) -> None:
    pipeline = Pipeline(Job)

    async def block() -> None:
        assert heard.event.wait(LONGEST_S)  # that is the line

    @pipeline.stage
    async def fetch(ctx: Context[Job]) -> None:
        await asyncio.create_task(block())

    run(migrated_sqlite_url, pipeline)
    assert "that is the line" in heard.lines[0]


def test_a_stage_that_waits_blocks_nothing(migrated_sqlite_url: str, heard: _Heard) -> None:
    pipeline = Pipeline(Job)
    answered = threading.Event()

    @pipeline.stage
    async def fetch(ctx: Context[Job]) -> None:
        # Of several signs that the loop was asked for meanwhile none was late.
        await asyncio.to_thread(answered.wait, 0.2)

    run(migrated_sqlite_url, pipeline)
    assert heard.lines == []
