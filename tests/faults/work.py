"""The application of the fault tests. Its worker processes import it and find their database in the environment.

Every stage leaves one row in a table that has no unique constraint, so that an effect that happened twice is seen.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import re
import time
from pathlib import Path
from typing import Any

from onceward import (
    App,
    Connection,
    Context,
    Failed,
    Filtered,
    Isolation,
    Migration,
    Payload,
    Pipeline,
    Retry,
    Setting,
    Waiting,
)
from tests.faults import signalling
from tests.faults.deadly import die

DATABASE = "FAULTS_DATABASE"
SLOW_START = "FAULTS_SLOW_START"
STAGES = ("first", "second", "third", "fourth", "fifth")
LONGEST_WAIT_S = 60.0


def record(connection: Connection, task: int, stage: str) -> None:
    """One row for one stage of one task."""
    values = "(?, ?)" if connection.dialect == "sqlite" else "(%s, %s)"
    connection.execute(f"INSERT INTO effect (task, stage) VALUES {values}", (task, stage))


def leave_row(ctx: Context[Any]) -> None:
    """Have the row of this stage written with its result."""
    ctx.write(record, ctx.task.id, ctx.task.stage)


class Steps(Payload, kind="steps"):
    """Five short stages, some on the event loop and some in threads."""

    number: int
    longest_ms: int = 20
    text: str = ""
    """What it carries about with it."""


steps = Pipeline(Steps)


def _pause_s(ctx: Context[Steps]) -> float:
    return random.uniform(0, ctx.payload.longest_ms) / 1_000


@steps.stage
async def first(ctx: Context[Steps]) -> int:
    await asyncio.sleep(_pause_s(ctx))
    leave_row(ctx)
    return ctx.payload.number


@steps.stage
def second(ctx: Context[Steps]) -> int:
    time.sleep(_pause_s(ctx))
    leave_row(ctx)
    return ctx.result(first) + 1


@steps.stage
async def third(ctx: Context[Steps]) -> int:
    leave_row(ctx)
    await asyncio.sleep(_pause_s(ctx))
    return ctx.result(second) + 1


@steps.stage
def fourth(ctx: Context[Steps]) -> int:
    leave_row(ctx)
    return ctx.result(third) + 1


@steps.stage
async def fifth(ctx: Context[Steps]) -> int:
    leave_row(ctx)
    return ctx.result(fourth) + 1


class Plain(Payload, kind="plain"):
    """One stage in a thread that takes a while and leaves a row."""

    number: int
    seconds: float = 0.0


plain = Pipeline(Plain)


@plain.stage
def do(ctx: Context[Plain]) -> None:
    time.sleep(ctx.payload.seconds)
    leave_row(ctx)


class Gate(Payload, kind="gate"):
    """A stage that says by a file that it has begun, and goes on when another file is there."""

    number: int
    folder: str
    on_loop: bool = False


gate = Pipeline(Gate)


@gate.stage
async def arrive(ctx: Context[Gate]) -> None:
    """Tasks whose first stage needs a thread are claimed for free threads only; this one lets more come."""


@gate.stage
def pass_through(ctx: Context[Gate]) -> None:
    folder = Path(ctx.payload.folder)
    (folder / f"inside-{ctx.payload.number}-{os.getpid()}").touch()
    give_up_at = time.monotonic() + LONGEST_WAIT_S
    while not (folder / "open").exists():
        if time.monotonic() > give_up_at:
            raise TimeoutError("nobody has opened the gate")
        time.sleep(0.01)
    leave_row(ctx)


@gate.stage
def after(ctx: Context[Gate]) -> None:
    leave_row(ctx)


class Listen(Payload, kind="listen"):
    """A stage that waits until a setting says something else than at first."""

    apart: bool = False


listen = Pipeline(Listen)


@listen.stage
def choose(ctx: Context[Listen]) -> None:
    if not ctx.payload.apart:
        _wait_for_news(ctx)


@listen.stage(isolate="process")
def choose_apart(ctx: Context[Listen]) -> None:
    if ctx.payload.apart:
        _wait_for_news(ctx)


def _wait_for_news(ctx: Context[Listen]) -> None:
    give_up_at = time.monotonic() + LONGEST_WAIT_S
    ctx.progress(0, note=ctx.setting("greeting"))
    while ctx.setting("greeting") == "hello":
        if time.monotonic() > give_up_at:
            raise TimeoutError("nobody has changed the setting")
        time.sleep(0.01)


class Last(Payload, kind="last"):
    """One of the last tasks of a batch: it ends as soon as a file is there, at the same moment as the others."""

    number: int
    folder: str


last = Pipeline(Last)


@last.stage
def end_together(ctx: Context[Last]) -> None:
    folder = Path(ctx.payload.folder)
    (folder / f"inside-{ctx.payload.number}-{os.getpid()}").touch()
    give_up_at = time.monotonic() + LONGEST_WAIT_S
    while not (folder / "open").exists():
        if time.monotonic() > give_up_at:
            raise TimeoutError("nobody has opened the gate")
        time.sleep(0.001)
    leave_row(ctx)


class Follow(Payload, kind="follow"):
    """What follows a batch."""

    batch: str


follow = Pipeline(Follow)


@follow.stage
def follow_up(ctx: Context[Follow]) -> None:
    leave_row(ctx)


class Block(Payload, kind="block"):
    """A stage that stays in C and keeps the interpreter to itself, once a file is there."""

    number: int
    seconds: float
    wait_for: str | None = None
    with_regex: bool = False


def await_file(ctx: Context[Any], file: str | None) -> None:
    """Wait until a file is there, if one is named."""
    while file is not None and not Path(file).exists():
        time.sleep(0.005)
        ctx.progress(0)


def hold_the_interpreter(seconds: float, *, with_regex: bool) -> None:
    """Block every thread of this process."""
    if not with_regex:
        # Called through PyDLL, which unlike CDLL does not let go of the interpreter meanwhile.
        ctypes.PyDLL(None).usleep(ctypes.c_uint(round(seconds * 1_000_000)))
        return
    until = time.perf_counter() + seconds
    length, took_s = 16, 0.0
    while took_s < 0.1:
        length += 1
        took_s = _match_badly(length)
    while took_s < seconds:  # one letter more takes twice as long
        length += 1
        took_s *= 2
    while time.perf_counter() < until:
        _match_badly(length)


def _match_badly(length: int) -> float:
    started = time.perf_counter()
    re.match(r"(a+)+$", "a" * length + "b")
    return time.perf_counter() - started


patient = Pipeline(Block)


@patient.stage
def block(ctx: Context[Block]) -> None:
    await_file(ctx, ctx.payload.wait_for)
    hold_the_interpreter(ctx.payload.seconds, with_regex=ctx.payload.with_regex)
    leave_row(ctx)


class Overdue(Payload, kind="overdue"):
    """The same with a time limit, and no retry; it may wait for a file before it begins."""

    number: int
    seconds: float
    wait_for: str | None = None


overdue = Pipeline(Overdue, retry=Retry(retries=0))


@overdue.stage(timeout="1s")
def block_too_long(ctx: Context[Overdue]) -> None:
    await_file(ctx, ctx.payload.wait_for)
    hold_the_interpreter(ctx.payload.seconds, with_regex=False)
    leave_row(ctx)


class Endless(Payload, kind="endless"):
    """A loop in Python without an end, with a time limit and two retries."""


endless = Pipeline(Endless, retry=Retry(retries=2, base="10ms"))


@endless.stage(timeout="500ms")
def loop(ctx: Context[Endless]) -> None:
    leave_row(ctx)
    while True:
        pass


class Slow(Payload, kind="slow"):
    """A stage whose row takes a while to be written, which it says by a file."""

    file: str


slow = Pipeline(Slow)


def record_slowly(connection: Connection, task: int, stage: str, file: str) -> None:
    """One row, in a transaction that stays open for a while."""
    record(connection, task, stage)
    Path(file).touch()
    time.sleep(0.5)


@slow.stage
def write_slowly(ctx: Context[Slow]) -> None:
    ctx.write(record_slowly, ctx.task.id, ctx.task.stage, ctx.payload.file)


class Poison(Payload, kind="poison"):
    """A stage that ends its process."""

    how: str


poison = Pipeline(Poison)


@poison.stage
def swallow(ctx: Context[Poison]) -> None:
    leave_row(ctx)
    time.sleep(0.05)
    die(ctx.payload.how)


class Contained(Payload, kind="contained"):
    """The same in a process of its own."""

    how: str


contained = Pipeline(Contained)


@contained.stage(isolate="process")
def swallow_alone(ctx: Context[Contained]) -> None:
    leave_row(ctx)
    die(ctx.payload.how)


class Apart(Payload, kind="apart"):
    """What a stage can do in a process of its own."""

    wish: str


apart = Pipeline(Apart, retry=Retry(retries=1, base="10ms"))


@apart.stage
def before(ctx: Context[Apart]) -> int:
    return os.getpid()


@apart.stage(isolate=Isolation(memory_mb=256))
def work_apart(ctx: Context[Apart]) -> dict[str, int]:
    leave_row(ctx)
    match ctx.payload.wish:
        case "everything":
            assert ctx.alive()
            done_once = ctx.once("dice", lambda: random.randrange(10**9), type=int)
            assert ctx.once("dice", lambda: -1, type=int) == done_once
            ctx.progress(1, 2, "half of it")
            ctx.checkpoint({"page": 7})
            assert ctx.cursor == {"page": 7}
            ctx.write(record, ctx.task.id, "work_apart after its checkpoint")
            seen = ctx.read(count_rows, ctx.task.id)
            return {"worker": ctx.result(before), "own": os.getpid(), "rows seen": seen, "dice": done_once}
        case "filter":
            raise Filtered("five strikes")
        case "fail":
            raise Failed("for good")
        case "wait":
            if ctx.signal("go") is None:
                raise Waiting(until="go")
            return {"signal": ctx.signal("go", type=int) or 0}
        case "err":
            raise ValueError("an ordinary error")
        case "memory":
            return {"bytes": len(bytearray(2**30))}
        case "lambda":
            ctx.write(lambda connection: None)
    return {}


@apart.stage(isolate="process")
async def work_apart_awaiting(ctx: Context[Apart]) -> int:
    await asyncio.sleep(0)
    await ctx.acheckpoint("here")
    leave_row(ctx)
    return os.getpid()


def count_rows(connection: Connection, task: int) -> int:
    """How many rows of a task there are."""
    place = "?" if connection.dialect == "sqlite" else "%s"
    row = connection.execute(f"SELECT count(*) FROM effect WHERE task = {place}", (task,)).fetchone()
    assert row is not None
    return int(row[0])


class Bomb(Payload, kind="bomb"):
    """A task that asks for ten new ones, each of which does the same."""

    path: str
    longest_ms: int = 20


bomb = Pipeline(Bomb)


@bomb.stage
async def explode(ctx: Context[Bomb]) -> None:
    await asyncio.sleep(random.uniform(0, ctx.payload.longest_ms) / 1_000)
    for number in range(10):
        ctx.spawn(Bomb(f"{ctx.payload.path}.{number}", ctx.payload.longest_ms))
    leave_row(ctx)


class Ping(Payload, kind="ping"):
    """One of two pipelines that ask for each other."""

    number: int
    longest_ms: int = 20


class Pong(Payload, kind="pong"):
    """The other one."""

    number: int
    longest_ms: int = 20


ping = Pipeline(Ping)
pong = Pipeline(Pong)


@ping.stage
async def serve(ctx: Context[Ping]) -> None:
    await asyncio.sleep(random.uniform(0, ctx.payload.longest_ms) / 1_000)
    ctx.spawn(Pong(ctx.payload.number, ctx.payload.longest_ms))
    leave_row(ctx)


@pong.stage
def hit_back(ctx: Context[Pong]) -> None:
    time.sleep(random.uniform(0, ctx.payload.longest_ms) / 1_000)
    ctx.spawn(Ping(ctx.payload.number, ctx.payload.longest_ms))
    leave_row(ctx)


def make_app(url: str) -> App:
    """The app on a database."""
    return App(
        url,
        pipelines=[
            steps,
            plain,
            gate,
            listen,
            last,
            follow,
            patient,
            overdue,
            endless,
            slow,
            poison,
            contained,
            apart,
            bomb,
            ping,
            pong,
        ],
        migrations=[Migration("effects", "CREATE TABLE effect (task bigint NOT NULL, stage text NOT NULL)")],
        settings=[Setting("greeting", "hello", str, "What stages say to each other.")],
    )


signalling.arm_from_environment()
time.sleep(float(os.environ.get(SLOW_START, "0")))
app = make_app(os.environ.get(DATABASE, "sqlite:///:memory:"))
