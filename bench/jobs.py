"""The Onceward application under test: a no-op task, a five-stage workflow and a task that spawns, each stage recorded
in the run log.

Importable as `bench.jobs:app`; database and run log come from the environment (see `bench.target`).
"""

from bench import runlog
from bench.plan import CHILDREN, FANS, STAGES
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


class Fan(Payload, kind="fan"):
    """A task whose first stage spawns no-op tasks. It has two numbers of its own, one for each stage."""

    number: int
    first_child: int
    pad: str


noop = Pipeline(Noop)
five = Pipeline(Five)
fan = Pipeline(Fan, queue=FANS)


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


@fan.stage
async def spread(ctx: Context[Fan]) -> bool:
    """Ask for a hundred children."""
    record(ctx.payload.number)
    for number in range(ctx.payload.first_child, ctx.payload.first_child + CHILDREN):
        ctx.spawn(Noop(number, ctx.payload.pad))
    return True


@fan.stage
async def spread_out(ctx: Context[Fan]) -> None:
    """The children are durable now."""
    record(ctx.payload.number + 1)


app = App(target.url, pipelines=[noop, five, fan])
