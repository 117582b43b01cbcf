"""The floor and the engine, through the clients and workers that `python -m bench` measures them with."""

import os
import sys
from collections.abc import Sequence

from bench import client, processes, worker
from bench.peers.adapter import Adapter, Kind


class Peer(Adapter):
    """Whichever of the two the target names."""

    blocking = True

    async def open(self) -> None:
        """Connect; both make their tables when first used."""
        self.client = client.connect(self.target)

    async def enqueue(self, kind: Kind, number: int) -> None:
        """Enqueue one."""
        self.client.enqueue(kind, number)

    async def enqueue_many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Enqueue many in one call."""
        self.client.enqueue_many(kind, numbers)

    def work(self, processes_wanted: int) -> None:
        """Run a worker here, or the engine's supervisor in place of this process."""
        if processes_wanted > 1:
            command = processes.supervised_command(processes_wanted)
            os.execv(command[0], command)
        sys.argv = sys.argv[:1]
        worker.main()
