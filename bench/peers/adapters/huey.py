"""Huey on SQLite: WAL mode with fsync, which its documentation names as the durable choice; it has no bulk call."""

import logging

from huey import SqliteHuey

from bench.peers.adapter import POLL_SECONDS, Adapter, Kind, payload
from bench.target import Target


class Peer(Adapter):
    """One consumer thread a process: more only contend for the one writer's lock."""

    blocking = True

    def __init__(self, target: Target) -> None:
        """The queue makes its tables at once."""
        super().__init__(target)
        filename = target.url.removeprefix("sqlite:///")
        self.huey = SqliteHuey("bench", filename=filename, fsync=True, results=False, store_none=False, timeout=30)
        self.job = self.huey.task(name="noop")(self.run)
        self.record = self.recorder()

    def run(self, job: dict[str, int]) -> None:
        """The handler."""
        self.record(job["number"])

    async def open(self) -> None:
        """Nothing more to do."""

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Enqueue one."""
        self.job(payload(number))

    def work(self, processes: int) -> None:
        """Run the consumer."""
        logging.getLogger("huey").setLevel(logging.ERROR)
        self.huey.create_consumer(
            workers=1,
            worker_type="thread",
            initial_delay=POLL_SECONDS,
            max_delay=POLL_SECONDS,
            backoff=1.0,
            periodic=False,
            check_worker_health=False,
        ).run()
