"""PgQueuer on asyncpg: batches of 100 claimed at once, acknowledgements gathered, tables logged (its default)."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer.db import AsyncpgDriver
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries

from bench import loops
from bench.peers.adapter import Adapter, Kind, payload

BATCH = 100
AT_ONCE = 200


class Peer(Adapter):
    """One connection for the client, one for each worker."""

    async def connect(self) -> Any:
        """Its queries over a new connection."""
        return Queries(AsyncpgDriver(await asyncpg.connect(self.target.url)))

    async def open(self) -> None:
        """Install its schema."""
        self.queries = await self.connect()
        await self.queries.install()

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Enqueue one."""
        await self.queries.enqueue(kind, encoded(number))

    async def enqueue_many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Enqueue many by its array call."""
        count = len(numbers)
        await self.queries.enqueue([kind] * count, [encoded(number) for number in numbers], [0] * count)

    def work(self, processes: int) -> None:
        """Run its queue manager."""
        loops.run(self.serve())

    async def serve(self) -> None:
        """Handle jobs until killed."""
        record = self.recorder()

        async def noop(job: Any) -> None:
            record(json.loads(job.payload)["number"])

        manager = QueueManager(await self.connect())
        manager.entrypoint("noop")(noop)
        await manager.run(dequeue_timeout=timedelta(seconds=5), batch_size=BATCH, max_concurrent_tasks=AT_ONCE)


def encoded(number: int) -> bytes:
    """The payload as its client takes it."""
    return json.dumps(payload(number)).encode()
