"""An app that is run by ticks in processes of their own: what has run, and in which process, stands in a table."""

from __future__ import annotations

import os
import time

from onceward import App, Config, Connection, Context, Migration, Payload, Pipeline
from tests.faults.work import DATABASE

RUNS = Migration("runs", "CREATE TABLE run (note integer NOT NULL, pid integer NOT NULL)")
LEASE = "3s"


class Note(Payload, kind="note"):
    number: int
    takes_s: float = 0.0


note = Pipeline(Note)


@note.stage
def work(ctx: Context[Note]) -> None:
    time.sleep(ctx.payload.takes_s)
    ctx.write(insert_run, ctx.payload.number, os.getpid())


def insert_run(connection: Connection, number: int, pid: int) -> None:
    marks = "?, ?" if connection.dialect == "sqlite" else "%s, %s"
    connection.execute(f"INSERT INTO run (note, pid) VALUES ({marks})", (number, pid))


def app_on(url: str) -> App:
    return App(url, [note], migrations=[RUNS], config=Config(tick_lease=LEASE))


app = app_on(os.environ.get(DATABASE, "sqlite:///:memory:"))
