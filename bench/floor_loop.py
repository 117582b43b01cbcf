"""The floor's worker: one group commit after another, and no feature beyond that.

Finished jobs, durable steps and the next claim share a transaction. Up to `CONCURRENCY` handlers run at
once, up to five times as many rows are claimed ahead. There are no retries, timeouts, leases that expire,
results or events: what a real engine costs more than this is what its features cost.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import msgspec

from bench.plan import CONCURRENCY, STAGES

AHEAD = CONCURRENCY * 5
STEP_RESULT = b"true"


class Job(msgspec.Struct, frozen=True):
    """The floor's payload: the same two fields as the engine's."""

    number: int
    pad: str


class Step(NamedTuple):
    """One finished step of a workflow, waiting to become durable."""

    job: int
    stage: int


class Claimed(NamedTuple):
    """One row a claim has brought."""

    id: int
    kind: str
    payload: bytes


class FloorStore(Protocol):
    """What the loop needs of a database."""

    wake: asyncio.Event

    async def tick(self, done: list[int], steps: list[Step], want: int) -> list[Claimed]:
        """Commit finished jobs and steps, and claim up to `want` jobs, in one transaction."""

    def has_news(self) -> bool:
        """Whether somebody may have enqueued since the last claim."""

    async def pause(self) -> None:
        """Return when `wake` is set or when it is time to look again."""


encoder = msgspec.json.Encoder()


def encode(number: int, pad: str) -> bytes:
    """The stored payload of one job."""
    return encoder.encode(Job(number, pad))


async def work(store: FloorStore, record: Callable[[int], None], *, until_idle: bool) -> None:
    """Run jobs as they come; with `until_idle`, return when nothing is left and all is durable."""
    decode = msgspec.json.Decoder(Job).decode
    loop = asyncio.get_running_loop()
    ready: deque[Claimed] = deque()
    done: list[int] = []
    steps: list[Step] = []
    durable: list[asyncio.Future[None]] = []
    wake = store.wake
    running = 0
    more = True

    async def run_noop(job: Claimed) -> None:
        nonlocal running
        record(decode(job.payload).number)
        done.append(job.id)
        running -= 1
        wake.set()

    async def run_workflow(job: Claimed) -> None:
        nonlocal running
        first = decode(job.payload).number * STAGES
        for stage in range(STAGES):
            record(first + stage)
            future = loop.create_future()
            steps.append(Step(job.id, stage))
            durable.append(future)
            wake.set()
            await future
        done.append(job.id)
        running -= 1
        wake.set()

    handlers = {"noop": run_noop, "five": run_workflow}
    tasks: set[asyncio.Task[None]] = set()
    while True:
        while ready and running < CONCURRENCY:
            running += 1
            job = ready.popleft()
            task = loop.create_task(handlers[job.kind](job))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        wake.clear()
        await asyncio.sleep(0)
        if ready and running < CONCURRENCY:
            continue
        more = more or store.has_news()
        want = AHEAD - len(ready) if more and len(ready) < CONCURRENCY else 0
        if done or steps or want:
            finished, done = done, []
            stepped, steps = steps, []
            waiting, durable = durable, []
            claimed = await store.tick(finished, stepped, want)
            if want:
                ready.extend(claimed)
                more = len(claimed) == want
            for future in waiting:
                future.set_result(None)
        elif until_idle and not running:
            return
        else:
            await store.pause()
