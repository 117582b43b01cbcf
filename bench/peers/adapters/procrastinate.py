"""Procrastinate on its psycopg connector: NOTIFY wakes it, a pool of twenty serves a hundred jobs at once."""

import logging
from collections.abc import Sequence

from procrastinate import App, PsycopgConnector

from bench import loops
from bench.peers.adapter import Adapter, Kind, payload
from bench.plan import CONCURRENCY
from bench.target import Target

QUEUE = "bench"


class Peer(Adapter):
    """One application for client and worker."""

    def __init__(self, target: Target) -> None:
        """Register the task."""
        super().__init__(target)
        record = self.recorder()

        async def noop(number: int, pad: str) -> None:
            record(number)

        self.app = App(connector=PsycopgConnector(conninfo=target.url, min_size=4, max_size=20))
        self.noop = self.app.task(name="noop", queue=QUEUE)(noop)

    async def open(self) -> None:
        """Install its schema."""
        await self.app.open_async()
        await self.app.schema_manager.apply_schema_async()

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Defer one."""
        await self.noop.defer_async(**payload(number))

    async def enqueue_many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Defer many in one call."""
        await self.noop.batch_defer_async(*[payload(number) for number in numbers])

    def work(self, processes: int) -> None:
        """Run its worker."""
        logging.disable(logging.CRITICAL)
        loops.run(self.serve())

    async def serve(self) -> None:
        """Handle jobs until killed."""
        async with self.app.open_async():
            await self.app.run_worker_async(
                queues=[QUEUE], concurrency=CONCURRENCY, fetch_job_polling_interval=5.0, listen_notify=True
            )
