"""SAQ on Redis: a hundred jobs at once, finished ones not kept."""

import logging
from typing import Any

from redis.asyncio import from_url
from saq import Worker
from saq.queue.redis import RedisQueue

from bench import loops
from bench.peers.adapter import Adapter, Kind, payload
from bench.plan import CONCURRENCY

NOT_KEPT = -1


class Peer(Adapter):
    """An async client and its own worker."""

    async def open(self) -> None:
        """Connect."""
        self.queue = RedisQueue(from_url(self.target.url), name="bench")
        await self.queue.connect()

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Enqueue one."""
        await self.queue.enqueue(kind, ttl=NOT_KEPT, timeout=60, **payload(number))

    def work(self, processes: int) -> None:
        """Run its worker."""
        logging.disable(logging.CRITICAL)
        loops.run(self.serve())

    async def serve(self) -> None:
        """Handle jobs until killed."""
        record = self.recorder()

        async def noop(context: Any, *, number: int, pad: str) -> None:
            record(number)

        await self.open()
        worker = Worker(self.queue, functions=[("noop", noop)], concurrency=CONCURRENCY, dequeue_timeout=5)
        await worker.start()
