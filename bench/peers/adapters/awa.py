"""Awa: a Rust core with Python handlers, on its segmented queue storage; jobs come in by COPY."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

import awa

from bench import loops
from bench.peers.adapter import Adapter, Kind, payload
from bench.target import Target

SCHEMA = "awa_queue"
QUEUE = "bench"
AT_ONCE = 200


@dataclass
class Noop:
    """The payload as its client takes it."""

    number: int
    pad: str


class Peer(Adapter):
    """A client process and worker processes, each with a pool of its own."""

    def __init__(self, target: Target) -> None:
        """Its driver wants a host in the address, and the socket's directory as a parameter."""
        super().__init__(target)
        parts = urlsplit(target.url)
        directory = parse_qs(parts.query)["host"][0]
        self.url = f"postgres://{parts.username}@localhost{parts.path}?host={directory}"

    async def open(self) -> None:
        """Install its schema and its queue storage."""
        self.client = awa.AsyncClient(self.url)
        await self.client.migrate()
        await self.client.install_queue_storage(schema=SCHEMA, reset=True)

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Enqueue one."""
        await self.client.insert(Noop(**payload(number)), queue=QUEUE)

    async def enqueue_many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Enqueue many by COPY."""
        await self.client.enqueue_many_copy([Noop(**payload(number)) for number in numbers], queue=QUEUE)

    def work(self, processes: int) -> None:
        """Run its workers."""
        loops.run(self.serve())

    async def serve(self) -> None:
        """Handle jobs until killed."""
        record = self.recorder()

        async def noop(job: Any) -> None:
            record(job.args.number)

        client = awa.AsyncClient(self.url)
        client.task(Noop, queue=QUEUE)(noop)
        await client.start([(QUEUE, AT_ONCE)], queue_storage_schema=SCHEMA)
        await asyncio.Event().wait()
