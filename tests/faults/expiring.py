"""An app whose work runs out of time at a provider, and is tidied up slowly enough to be killed meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path

from onceward import App, Config, Connection, Context, Migration, Payload, Pipeline, Waiting
from tests.faults.work import DATABASE

BEGUN = "EXPIRING_BEGUN"
"""A folder in which a process leaves its pid when it has begun to tidy up."""
KEPT = Migration("kept", "CREATE TABLE kept (job integer NOT NULL, remote varchar(40) NOT NULL)")


class Job(Payload, kind="job"):
    number: int


job = Pipeline(Job, deadline="1s")


@job.stage
def submit(ctx: Context[Job]) -> str:
    return f"remote {ctx.payload.number}"


@job.stage
def poll(ctx: Context[Job]) -> None:
    raise Waiting(after="100ms")


@job.at_expiry
def cancel(ctx: Context[Job]) -> None:
    (Path(os.environ[BEGUN]) / str(os.getpid())).touch()
    time.sleep(0.1)
    ctx.write(insert_kept, ctx.payload.number, ctx.result(submit))
    time.sleep(0.1)


def insert_kept(connection: Connection, number: int, remote: str) -> None:
    marks = "?, ?" if connection.dialect == "sqlite" else "%s, %s"
    connection.execute(f"INSERT INTO kept (job, remote) VALUES ({marks})", (number, remote))


def app_on(url: str) -> App:
    config = Config(concurrency=4, max_lost_workers=1_000, lease="2s")
    return App(url, [job], migrations=[KEPT], config=config)


app = app_on(os.environ.get(DATABASE, "sqlite:///:memory:"))
