"""taskiq on Redis streams, whose messages are acknowledged when executed; its command line runs the worker."""

import os
import sys

from taskiq_redis import RedisStreamBroker

from bench import runlog
from bench.peers.adapter import Adapter, Kind, payload
from bench.plan import CONCURRENCY
from bench.target import from_environment

PREFETCH = 100

# Its command line imports the broker by name, so these are found at the top of the module.
target = from_environment()
record = runlog.recorder(target.log)
broker = RedisStreamBroker(url=target.url, consumer_id="0", xread_count=PREFETCH, xread_block=2000)


async def noop(job: dict[str, int]) -> None:
    """The handler."""
    record(job["number"])


task = broker.task(task_name="noop")(noop)


class Peer(Adapter):
    """An async client; the worker is its command in place of this process."""

    async def open(self) -> None:
        """Connect and make the stream's group."""
        await broker.startup()

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Send one."""
        await task.kiq(payload(number))

    def work(self, processes: int) -> None:
        """Run its worker with one child process."""
        options = {
            "--workers": 1,
            "--max-async-tasks": CONCURRENCY,
            "--max-prefetch": PREFETCH,
            "--ack-type": "when_executed",
            "--log-level": "CRITICAL",
        }
        flags = [str(part) for option in options.items() for part in option]
        os.execv(sys.executable, [sys.executable, "-m", "taskiq", "worker", f"{__name__}:broker", *flags])
