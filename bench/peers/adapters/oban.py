"""Oban for Python, open-source edition: fetches in batches, woken by NOTIFY; its bulk insert is its own call."""

import asyncio
from collections.abc import Sequence
from typing import Any

from oban import Oban, worker
from oban.schema import install
from psycopg_pool import AsyncConnectionPool

from bench import loops
from bench.peers.adapter import Adapter, Kind, payload
from bench.plan import CONCURRENCY
from bench.target import Target

QUEUE = "bench"


class Peer(Adapter):
    """A pool of ten connections in each process."""

    def __init__(self, target: Target) -> None:
        """Register the worker class, which both sides need."""
        super().__init__(target)
        record = self.recorder()

        class Noop:
            async def process(self, job: Any) -> None:
                record(job.args["number"])

        self.noop = worker(queue=QUEUE)(Noop)

    async def start(self, queues: dict[str, int], *, fresh: bool) -> Any:
        """An instance on a new pool; its tables are made before, if wanted."""
        pool = AsyncConnectionPool(
            conninfo=self.target.url, min_size=1, max_size=10, open=False, kwargs={"autocommit": False}
        )
        await pool.open()
        if fresh:
            await install(pool)
        instance = Oban(pool=pool, queues=queues)
        await instance.start()
        return instance

    async def open(self) -> None:
        """Install its schema and start an instance without queues."""
        self.instance = await self.start({}, fresh=True)

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Enqueue one."""
        await self.noop.enqueue(payload(number))

    async def enqueue_many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Enqueue many in one call."""
        await self.instance.enqueue_many([self.noop.new(payload(number)) for number in numbers])

    async def close(self) -> None:
        """Stop the instance, which else stays the leader until its term is over."""
        await self.instance.stop()

    def work(self, processes: int) -> None:
        """Run an instance with the queue."""
        loops.run(self.serve())

    async def serve(self) -> None:
        """Handle jobs until killed."""
        await self.start({QUEUE: CONCURRENCY}, fresh=False)
        await asyncio.Event().wait()
