"""Celery on Redis: acknowledged after the run, ten threads in a process (a process pool is slower for no-ops)."""

import os

from celery import Celery

from bench.peers.adapter import Adapter, Kind, payload
from bench.target import Target

THREADS = 10
PREFETCH_EACH = 10


class Peer(Adapter):
    """One application for client and worker."""

    blocking = True

    def __init__(self, target: Target) -> None:
        """Register the task."""
        super().__init__(target)
        record = self.recorder()

        def noop(job: dict[str, int]) -> None:
            record(job["number"])

        self.app = Celery("bench", broker=target.url.replace("unix://", "redis+socket://"))
        self.app.conf.update(
            task_acks_late=True,
            task_ignore_result=True,
            task_serializer="json",
            worker_prefetch_multiplier=PREFETCH_EACH,
            worker_send_task_events=False,
            worker_hijack_root_logger=False,
            worker_enable_remote_control=False,
            broker_connection_retry_on_startup=True,
        )
        self.noop = self.app.task(name="noop")(noop)

    async def open(self) -> None:
        """It connects when first used."""

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Send one."""
        self.noop.apply_async((payload(number),))

    def work(self, processes: int) -> None:
        """Run its worker."""
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "CRITICAL"]
        name = f"bench{os.getpid()}@localhost"
        self.app.worker_main(["worker", "--pool", "threads", "--concurrency", str(THREADS), "-n", name, *quiet])
