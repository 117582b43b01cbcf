"""The Onceward application under test: a no-op task and a five-stage workflow, each stage recorded in the run log.

Importable as `bench.jobs:app`; database and run log come from the environment (see `bench.target`).
"""

from bench import runlog
from bench.plan import STAGES
from bench.target import from_environment
from onceward import App, Context, Payload, Pipeline

target = from_environment()
record = runlog.recorder(target.log)


class Noop(Payload, kind="noop"):
    """A task that does nothing but say that it ran."""

    number: int
    pad: str


class Five(Payload, kind="five"):
    """A workflow of five stages, each durable before the next."""

    number: int
    pad: str


noop = Pipeline(Noop)
five = Pipeline(Five)


@noop.stage
async def run(ctx: Context[Noop]) -> None:
    """Say that it ran."""
    record(ctx.payload.number)


@five.stage
async def first(ctx: Context[Five]) -> bool:
    """Stage 1 of 5."""
    record(ctx.payload.number * STAGES)
    return True


@five.stage
async def second(ctx: Context[Five]) -> bool:
    """Stage 2 of 5."""
    record(ctx.payload.number * STAGES + 1)
    return True


@five.stage
async def third(ctx: Context[Five]) -> bool:
    """Stage 3 of 5."""
    record(ctx.payload.number * STAGES + 2)
    return True


@five.stage
async def fourth(ctx: Context[Five]) -> bool:
    """Stage 4 of 5."""
    record(ctx.payload.number * STAGES + 3)
    return True


@five.stage
async def fifth(ctx: Context[Five]) -> bool:
    """Stage 5 of 5."""
    record(ctx.payload.number * STAGES + 4)
    return True


app = App(target.url, pipelines=[noop, five])
