"""Dramatiq on Redis: eight threads in a process, as its command line starts by default, with a deeper prefetch."""

import os
import threading

# Read when the library is imported.
os.environ.setdefault("dramatiq_queue_prefetch", "200")

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from bench.peers.adapter import Adapter, Kind, payload
from bench.target import Target

THREADS = 8


class Peer(Adapter):
    """One broker for client and worker."""

    blocking = True

    def __init__(self, target: Target) -> None:
        """Register the actor."""
        super().__init__(target)
        record = self.recorder()

        def noop(job: dict[str, int]) -> None:
            record(job["number"])

        self.broker = RedisBroker(url=target.url)
        dramatiq.set_broker(self.broker)
        self.noop = dramatiq.actor(noop, actor_name="noop")

    async def open(self) -> None:
        """It connects when first used."""

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Send one."""
        self.noop.send(payload(number))

    def work(self, processes: int) -> None:
        """Run its worker threads."""
        dramatiq.Worker(self.broker, worker_threads=THREADS).start()
        threading.Event().wait()
