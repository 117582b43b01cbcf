"""What stages may say from a process of their own: verdicts, errors and rows of every kind.

It imports nothing of the tests: each run of a stage imports it anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from functools import partial

from onceward import (
    App,
    Budget,
    Connection,
    Context,
    Failed,
    Filtered,
    Isolation,
    Migration,
    Payload,
    Pipeline,
    Retry,
    Retryable,
    sql,
)

DATABASE = "ONCEWARD_ISOLATED_DATABASE"


NOTES = Migration("notes", "CREATE TABLE note (task integer NOT NULL, text varchar(40) NOT NULL)")


def insert_note(connection: Connection, task: int, text: str) -> None:
    """A row of the application's own, on either database."""
    marks = "?, ?" if connection.dialect == "sqlite" else "%s, %s"
    connection.execute(f"INSERT INTO note (task, text) VALUES ({marks})", (task, text))


class Apart(Payload, kind="apart"):
    """What the stage does there."""

    wish: str


class FiveStrikes(Filtered):
    """A verdict of the application's own."""


class Later(Retryable):
    """Another one."""


class Overloaded(Exception):
    """A server asks for forty days."""

    retry_after = 40 * 86_400


class Busy(Exception):
    """The pipeline knows that this passes."""


class Shelf:
    """Something whose methods write."""

    def __init__(self, text: str) -> None:
        self.text = text

    def insert(self, connection: Connection, task: int) -> None:
        insert_note(connection, task, self.text)

    @classmethod
    def insert_plainly(cls, connection: Connection, task: int) -> None:
        insert_note(connection, task, cls.__name__)


def refuse(connection: Connection) -> None:
    """A row that cannot be written."""
    raise LookupError("no such row")


usd = Budget("usd", 10)
apart = Pipeline(Apart, retry=Retry(retries=2, base="1ms", transient=(Busy,), same_errors=2))


@apart.stage(isolate="process", budget=usd, estimate=1)
def speak(ctx: Context[Apart]) -> int:
    task = ctx.task.id
    ctx.charge(usd, 0)
    match ctx.payload.wish:
        case "a verdict of its own":
            ctx.write(insert_note, task, "kept")
            raise FiveStrikes("out")
        case "another of its own":
            if ctx.task.attempt == 1:
                raise Later("soon", after="1ms")
        case "a verdict with a lambda":
            ctx.write(lambda connection: None)
            raise Filtered("no")
        case "a verdict with an object":
            ctx.write(insert_note, task, object())  # type: ignore[arg-type]
            raise Filtered("no")
        case "odd words":
            raise ValueError("a lone \udcff")
        case "an odd verdict":
            raise Failed("a lone \udcff")
        case "a long wait":
            raise Overloaded
        case "what passes":
            if ctx.task.attempt < 3:
                raise Busy
        case "a text":
            ctx.write(sql("INSERT INTO note (task, text) VALUES (:task, :text)"), {"task": task, "text": "of a text"})
        case "a method":
            ctx.write(Shelf("lost").insert, task)
        case "a part of a function":
            ctx.write(partial(insert_note, task=task, text="lost"))
        case "a method of a class":
            ctx.write(Shelf.insert_plainly, task)
        case "a checkpoint that fails":
            ctx.charge(usd, 1)
            if ctx.task.attempt == 1:
                ctx.write(refuse)
            ctx.checkpoint(1)
    return ctx.task.attempt


class Kept(Payload, kind="kept"):
    """What the stage does in a process that serves several runs."""

    wish: str
    number: int = 0


kept = Pipeline(Kept, retry=Retry(retries=0), concurrency=1)
LIMITS = Isolation(memory_mb=400, cpu="1s", file_mb=1, open_files=20, runs=3)


@kept.stage(isolate=LIMITS)
def tell(ctx: Context[Kept]) -> int:
    """Return the number of the process; the wishes are what may go wrong in it."""
    match ctx.payload.wish:
        case "raise":
            raise ValueError("no luck")
        case "die":
            os._exit(3)
        case "grow":
            HELD.append(b"x" * (250 * 2**20))
        case "too much":
            HELD.append(b"x" * (500 * 2**20))
        case "compute":
            until = time.process_time() + 30
            while time.process_time() < until:
                pass
        case "compute without end":
            hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # one long step of C, in which Python hears no signal
        case "write":
            with tempfile.TemporaryFile() as file:
                file.write(bytes(2 * 2**20))
        case "spawn":
            ctx.spawn(Kept("tell", ctx.payload.number + 1_000))
    return os.getpid()


HELD: list[bytes] = []
app = App(os.environ.get(DATABASE, "sqlite:///:memory:"), [apart, kept], migrations=[NOTES])
