"""DBOS on SQLite or PostgreSQL: every job a durable workflow from a queue, five of its steps for the step workload."""

import threading
from collections.abc import Sequence
from typing import Any

from dbos import DBOS, DBOSClient

from bench.peers.adapter import POLL_SECONDS, Adapter, Kind, payload
from bench.plan import CONCURRENCY, STAGES

QUEUE = "bench"
VERSION = "1"


class Peer(Adapter):
    """Jobs are async functions and steps sync ones: for each the faster of the two."""

    blocking = True
    bulk_size = 500

    def launch(self) -> None:
        """Start DBOS in this process, which makes its tables where there are none."""
        record = self.recorder()

        async def noop(job: dict[str, int]) -> None:
            record(job["number"])

        def step(number: int) -> bool:
            record(number)
            return True

        durable_step = DBOS.step(name="step")(step)

        def five(job: dict[str, int]) -> None:
            for place in range(STAGES):
                durable_step(job["number"] * STAGES + place)

        DBOS.workflow(name="noop")(noop)
        DBOS.workflow(name="five")(five)
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self.target.url,
                "application_version": VERSION,
                "log_level": "ERROR",
                "console_log_level": "ERROR",
                "sys_db_pool_size": 20,
            }
        )
        DBOS.launch()

    async def open(self) -> None:
        """Launch once for the tables and the queue, then connect as an application outside would."""
        self.launch()
        DBOS.register_queue(QUEUE, polling_interval_sec=POLL_SECONDS, worker_concurrency=CONCURRENCY)
        DBOS.destroy()
        self.client = DBOSClient(system_database_url=self.target.url)

    def options(self, kind: Kind) -> dict[str, Any]:
        """Which workflow, on which queue."""
        return {"queue_name": QUEUE, "workflow_name": kind, "app_version": VERSION}

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Enqueue one."""
        self.client.enqueue(self.options(kind), payload(number))

    async def enqueue_many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Enqueue many in one transaction; its engine is not public, but the call that takes a transaction is."""
        options = self.options(kind)
        with self.client._sys_db.engine.begin() as connection:
            for number in numbers:
                self.client.enqueue_in_transaction(connection, options, payload(number))

    def work(self, processes: int) -> None:
        """Run the queue."""
        self.launch()
        threading.Event().wait()
