"""Absurd: its SQL functions do the work in the database; the schema is the one that absurdctl carries."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import absurdctl
import psycopg
from absurd_sdk import Absurd, AsyncAbsurd

from bench import loops
from bench.peers.adapter import POLL_SECONDS, Adapter, Kind, payload
from bench.plan import CONCURRENCY, STAGES

QUEUE = "bench"


class Peer(Adapter):
    """A blocking client on one connection, an async worker."""

    blocking = True
    bulk_size = 500

    async def open(self) -> None:
        """Install its schema and make a queue."""
        self.connection = psycopg.connect(self.target.url, autocommit=True)
        self.connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        self.client = Absurd(self.connection, queue_name=QUEUE)
        self.client.create_queue(QUEUE)

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Spawn one."""
        self.client.spawn(kind, payload(number), queue=QUEUE)

    async def enqueue_many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Spawn many in one transaction."""
        with self.connection.transaction():
            for number in numbers:
                self.client.spawn(kind, payload(number), queue=QUEUE)

    def work(self, processes: int) -> None:
        """Run its worker."""
        loops.run(self.serve())

    async def serve(self) -> None:
        """Handle jobs until killed."""
        record = self.recorder()

        async def noop(job: dict[str, int], context: Any) -> None:
            record(job["number"])

        async def step(number: int) -> bool:
            record(number)
            return True

        async def five(job: dict[str, int], context: Any) -> None:
            for place in range(STAGES):
                await context.step(f"step {place}", partial(step, job["number"] * STAGES + place))

        worker = AsyncAbsurd(self.target.url, queue_name=QUEUE)
        worker.register_task("noop")(noop)
        worker.register_task("five")(five)
        await worker.start_worker(concurrency=CONCURRENCY, batch_size=CONCURRENCY, poll_interval=POLL_SECONDS)
