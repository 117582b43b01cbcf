"""Other tasks than plain ones: `def` stages, stages that wait, stages behind a source, and trees that grow as they run.

An application of its own, `bench.kinds:app`, so that what these pipelines cost a worker is not in the figures of the
plain ones.
"""

import asyncio

from bench import runlog
from bench.plan import PAD, TREE_LEVELS, TREE_WIDTH, WAIT_S
from bench.target import from_environment
from onceward import App, Context, Payload, Pipeline, Source

target = from_environment()
record = runlog.recorder(target.log)

TREE_TASKS: int = (TREE_WIDTH ** (TREE_LEVELS + 1) - 1) // (TREE_WIDTH - 1)
ample = Source("ample", rate="100000/s")


class Blocking(Payload, kind="blocking"):
    """A task whose stage is a `def`, which runs in a thread."""

    number: int
    pad: str


class Patient(Payload, kind="patient"):
    """A task that waits for a while, as for an answer from outside."""

    number: int
    pad: str


class Governed(Payload, kind="governed"):
    """A task behind a source that has room for everybody."""

    number: int
    pad: str


class Node(Payload, kind="node"):
    """A task of a tree. Its place counts from 0, the root, level by level."""

    tree: int
    place: int
    level: int
    pad: str

    @property
    def number(self) -> int:
        """The number of its handler start in the run log."""
        return self.tree * TREE_TASKS + self.place


blocking = Pipeline(Blocking)
patient = Pipeline(Patient)
governed = Pipeline(Governed)
trees = Pipeline(Node)


@blocking.stage
def run_blocking(ctx: Context[Blocking]) -> None:
    """Say that it ran."""
    record(ctx.payload.number)


@patient.stage
async def wait(ctx: Context[Patient]) -> None:
    """Say that it ran, and wait."""
    record(ctx.payload.number)
    await asyncio.sleep(WAIT_S)


@governed.stage(source=ample)
async def run_governed(ctx: Context[Governed]) -> None:
    """Say that it ran."""
    record(ctx.payload.number)


@trees.stage
async def grow(ctx: Context[Node]) -> None:
    """Ask for the children, but on the last level."""
    node = ctx.payload
    record(node.number)
    if node.level < TREE_LEVELS:
        for place in range(node.place * TREE_WIDTH + 1, (node.place + 1) * TREE_WIDTH + 1):
            ctx.spawn(Node(node.tree, place, node.level + 1, PAD))


app = App(target.url, pipelines=[blocking, patient, governed, trees])


def plant(count: int) -> int:
    """Enqueue the roots of so many trees; how many tasks they will have come to."""
    app.enqueue_many([Node(tree, 0, 0, PAD) for tree in range(count)])
    return count * TREE_TASKS
