"""Speed does not slip unnoticed: what a task, a stage, a spawn, a governed claim and an enqueue cost, counted.

A change that costs more fails here, on any machine and under any load. Where the cost is worth it, raise the bound in
the table in the same commit and say there what it buys; where a change costs less, lower the bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from onceward import Budget, Context, Payload, Pipeline, Source
from onceward.model.status import Status
from onceward.testing import Harness
from tests.worker.conftest import NOTES, Start, insert_note
from tests.worker.meter import Cost, Meter

TASKS = 100
"""How many tasks each figure is for: as many as one claim takes."""


class Noop(Payload, kind="noop"):
    number: int


class Blocking(Payload, kind="blocking"):
    number: int


class Five(Payload, kind="five"):
    number: int


class Fetching(Payload, kind="fetching"):
    number: int


class Parent(Payload, kind="parent"):
    number: int


class Joining(Payload, kind="joining"):
    number: int


class Writing(Payload, kind="writing"):
    number: int


class Governed(Payload, kind="governed"):
    number: int


class Charged(Payload, kind="charged"):
    number: int


noop, blocking, five, fetching = Pipeline(Noop), Pipeline(Blocking), Pipeline(Five), Pipeline(Fetching)
parents, joining = Pipeline(Parent), Pipeline(Joining)
writing, governed, charged = Pipeline(Writing), Pipeline(Governed), Pipeline(Charged)


@noop.stage
async def do_nothing(ctx: Context[Noop]) -> None:
    """Do nothing."""


@blocking.stage
def block(ctx: Context[Blocking]) -> None:
    """Take a thread."""


for place in range(5):

    async def step(ctx: Context[Five]) -> bool:
        """Return, and so have the next stage begin."""
        return True

    step.__name__ = f"step_{place}"
    five.stage(step)


@parents.stage
async def spawn(ctx: Context[Parent]) -> None:
    """Spawn one child."""
    ctx.spawn(Noop(ctx.payload.number))


@joining.stage
async def begin(ctx: Context[Joining]) -> bool:
    """Spawn one child, to be joined."""
    ctx.spawn(Noop(ctx.payload.number))
    return True


@joining.stage(join=True)
async def join(ctx: Context[Joining]) -> None:
    """Begin once the child has ended."""


@writing.stage
async def write(ctx: Context[Writing]) -> None:
    """Have one row written."""
    ctx.write(insert_note, ctx.payload.number, "a note")


@governed.stage(source=Source("web", rate="10000/s", burst=10_000, concurrency=1_000))
async def fetch(ctx: Context[Governed]) -> None:
    """Pass a source that has room for every task."""


far = Source("far", rate="10000/s", burst=10_000, concurrency=1_000)


@fetching.stage(source=far)
async def ask(ctx: Context[Fetching]) -> int:
    """Make one outside call through its source."""
    return await ctx.acall(far, answer)


async def answer() -> int:
    """Answer at once."""
    return 1


@charged.stage(budget=Budget("usd", 1_000_000), estimate=0.01)
async def pay(ctx: Context[Charged]) -> None:
    """Draw on a budget that has room for every task."""


class Work(NamedTuple):
    """Tasks of one payload, run by an app that has some pipelines."""

    payload: Callable[[int], Payload]
    pipelines: tuple[Pipeline[Any], ...]


WORK = {
    "no-op task": Work(Noop, (noop,)),
    "def task": Work(Blocking, (blocking,)),
    "five stages": Work(Five, (five,)),
    "spawn": Work(Parent, (parents, noop)),
    "spawn and join": Work(Joining, (joining, noop)),
    "domain write": Work(Writing, (writing,)),
    "governed claim": Work(Governed, (governed,)),
    "outside call": Work(Fetching, (fetching,)),
    "budget": Work(Charged, (charged,)),
}
BOUNDS: dict[str, dict[str, Cost]] = {
    "no-op task": {"sqlite": Cost(3_760, 17, 0, 2), "postgres": Cost(3_670, 9, 8, 1)},
    "five stages": {"sqlite": Cost(17_450, 56, 0, 6), "postgres": Cost(17_600, 30, 25, 5)},
    "def task": {"sqlite": Cost(5_500, 60, 0, 10), "postgres": Cost(5_500, 45, 43, 10)},
    "spawn": {"sqlite": Cost(15_700, 58, 0, 3), "postgres": Cost(15_600, 29, 27, 2)},
    "spawn and join": {"sqlite": Cost(28_850, 685, 0, 4), "postgres": Cost(35_050, 649, 646, 3)},
    "domain write": {"sqlite": Cost(10_700, 514, 0, 2), "postgres": Cost(15_850, 408, 407, 1)},
    "governed claim": {"sqlite": Cost(4_270, 29, 0, 1), "postgres": Cost(4_600, 23, 21, 2)},
    "outside call": {"sqlite": Cost(17_200, 40, 0, 2), "postgres": Cost(18_150, 39, 36, 3)},
    "budget": {"sqlite": Cost(7_680, 32, 0, 1), "postgres": Cost(7_980, 23, 21, 2)},
    "enqueue": {"sqlite": Cost(13_950, 600, 0, 100), "postgres": Cost(8_440, 100, 100, 100)},
    "enqueue_many": {"sqlite": Cost(140, 6, 0, 1), "postgres": Cost(133, 4, 3, 1)},
}
"""The most that a hundred of each may cost: calls, statements, round trips, commits; tasks beyond an idle worker that
begins and ends. Calls have room for half a hundredth more, which a few per transaction need and one per task exceeds;
the others are exact, except those of the `def` task: its threads end when they like, in up to ten transactions."""


@pytest.mark.untroubled("counts what a session does")
@pytest.mark.parametrize("name", WORK)
def test_a_task_costs_no_more_than_its_bound(name: str, start: Start) -> None:
    meter, work = Meter(), WORK[name]
    with meter.counting():
        harness = start(*work.pipelines, migrations=[NOTES])
        _load(harness, work)
        harness.drain()  # from now on everything is prepared
        idle = meter.cost_of(harness.drain)
        _load(harness, work)
        _hold(name, harness, meter, meter.cost_of(harness.drain) - idle)
    assert [status for status, count in harness.app.stats.counts().items() if count] == [Status.SUCCEEDED]


@pytest.mark.untroubled("counts what a session does")
@pytest.mark.parametrize("name", ["enqueue", "enqueue_many"])
def test_an_enqueue_costs_no_more_than_its_bound(name: str, start: Start) -> None:
    meter, work = Meter(), WORK["no-op task"]
    enqueue = _load if name == "enqueue" else _load_at_once
    with meter.counting():
        harness = start(*work.pipelines)
        enqueue(harness, work)
        # Once a second of real time a caller also reads the settings: the least of three has none of that.
        cost = min(meter.cost_of(lambda: enqueue(harness, work)) for _ in range(3))
        _hold(name, harness, meter, cost)


def _load(harness: Harness, work: Work) -> None:
    for number in range(TASKS):
        harness.enqueue(work.payload(number))


def _load_at_once(harness: Harness, work: Work) -> None:
    harness.app.enqueue_many([work.payload(number) for number in range(TASKS)])


def _hold(name: str, harness: Harness, meter: Meter, cost: Cost) -> None:
    bound = BOUNDS[name][harness.app.dialect]
    assert all(spent <= most for spent, most in zip(cost, bound, strict=True)), (
        f"{TASKS} x {name} on {harness.app.dialect} cost {cost}, bound is {bound}; most often called: {meter.busiest()}"
    )
