"""The pipeline of `onceward demo`: offers that are fetched, parsed, priced and saved, some of them with trouble.

Each stage writes one row of the application's own, in the transaction that commits the stage. No constraint keeps a
row from being there twice: that it is not is the engine's doing, and the demo counts.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterator
from typing import Literal

from onceward import App, Connection, Context, Filtered, Migration, Payload, Pipeline, Retry, Waiting

VARIABLE = "ONCEWARD_DEMO_DB"
TASKS = 300
POLLS = 3
_PAUSE_S = (0.05, 0.35)

Trouble = Literal["none", "unwanted", "shaky", "very shaky", "late"]


class Offer(Payload, kind="offer"):
    """An offer of some shop."""

    number: int
    trouble: Trouble = "none"

    def key(self) -> str:
        """Where the offer would be found."""
        return f"https://shop.example/offers/{self.number}"


offer = Pipeline(Offer, retry=Retry(retries=3, base="0.5s"))


@offer.stage
async def fetch(ctx: Context[Offer]) -> str:
    """Fetch the page; one shop has it ready only after a while."""
    await asyncio.sleep(random.uniform(*_PAUSE_S))
    if ctx.payload.trouble == "late" and ctx.task.deferrals < POLLS:
        raise Waiting(after="0.8s", reason="the shop is still preparing this page")
    ctx.write(insert_step, ctx.task.id, "fetch")
    return f"<html>offer {ctx.payload.number}</html>"


@offer.stage
def parse(ctx: Context[Offer]) -> dict[str, int]:
    """Read the page; some offers are not wanted, and their task ends here."""
    time.sleep(random.uniform(*_PAUSE_S))
    ctx.write(insert_step, ctx.task.id, "parse")
    if ctx.payload.trouble == "unwanted":
        raise Filtered("used goods are not wanted")
    return {"page_length": len(ctx.result(fetch)), "cents": 100 + ctx.payload.number}


@offer.stage
async def price(ctx: Context[Offer]) -> int:
    """Ask for the price; now and then the server fails, and the row that was to be written with it is dropped."""
    await asyncio.sleep(random.uniform(*_PAUSE_S))
    ctx.write(insert_step, ctx.task.id, "price")
    if ctx.task.attempt <= failures_of(ctx.payload):
        raise ConnectionError("the price server hung up")
    return ctx.result(parse)["cents"] * 119 // 100


@offer.stage
def save(ctx: Context[Offer]) -> None:
    """Save the offer."""
    time.sleep(random.uniform(*_PAUSE_S))
    ctx.write(insert_step, ctx.task.id, "save")


def insert_step(connection: Connection, task: int, stage: str) -> None:
    """One row that says: this stage of this task is done."""
    connection.execute("INSERT INTO demo_step (task, stage) VALUES (?, ?)", (task, stage))


def offers() -> Iterator[Offer]:
    """What is enqueued: plain offers, and here and there one with trouble."""
    for number in range(1, TASKS + 1):
        trouble: Trouble = "none"
        if number % 25 == 0:
            trouble = "unwanted"
        elif number % 60 == 10:
            trouble = "very shaky"
        elif number % 30 == 10:
            trouble = "shaky"
        elif number == TASKS // 3 + 1:
            trouble = "late"
        yield Offer(number, trouble)


def failures_of(one: Offer) -> int:
    """How often the price server fails for an offer."""
    return {"shaky": 1, "very shaky": 2}.get(one.trouble, 0)


def stages_of(one: Offer) -> tuple[str, ...]:
    """The stages that an offer goes through, each of which leaves one row."""
    every = tuple(stage.name for stage in offer.stages)
    return every[:2] if one.trouble == "unwanted" else every


def demo_app(url: str) -> App:
    """The app of the demo, on a SQLite database."""
    steps = Migration("001 steps", "CREATE TABLE demo_step (task integer NOT NULL, stage text NOT NULL)")
    return App(url, pipelines=[offer], migrations=[steps])


app = demo_app(os.environ.get(VARIABLE, "sqlite:///onceward-demo.db"))
