"""What the benchmark asks of a system: the same few calls of each, written once per system under `adapters/`."""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from bench import runlog
from bench.peers.catalogue import System
from bench.plan import BULK_SIZE, PAD
from bench.target import Target

Kind = Literal["noop", "five"]
Record = Callable[[int], None]

POLL_SECONDS = 0.01


class Adapter(ABC):
    """One system on one fresh database.

    The calls are coroutines for all. Those of a system with a blocking client never wait, and then no event loop runs,
    so that each is timed as an application would use it.
    """

    blocking: ClassVar[bool] = False
    bulk_size: ClassVar[int] = BULK_SIZE

    def __init__(self, target: Target) -> None:
        """Connect to nothing yet."""
        self.target = target

    @abstractmethod
    async def open(self) -> None:
        """Make the tables, then connect a client."""

    @abstractmethod
    async def enqueue(self, kind: Kind, number: int) -> None:
        """One job, durable on return as far as the system's storage is."""

    async def enqueue_many(self, kind: Kind, numbers: Sequence[int]) -> None:
        """Many jobs in one call or one transaction; one by one where the system offers neither."""
        for number in numbers:
            await self.enqueue(kind, number)

    async def close(self) -> None:
        """Let go of what others would wait for; most hold nothing of the kind."""
        return

    @abstractmethod
    def work(self, processes: int) -> None:
        """Run the system's own worker in this process until it is killed; more processes only under its supervisor."""

    def recorder(self) -> Record:
        """What a handler calls first."""
        return runlog.recorder(self.target.log)


def payload(number: int) -> dict[str, Any]:
    """About 200 bytes of JSON, the same for every system."""
    return {"number": number, "pad": PAD}


def load(system: System, target: Target) -> Adapter:
    """The system's adapter; its library is imported here and nowhere before."""
    adapter: Adapter = importlib.import_module(f"bench.peers.adapters.{system.adapter}").Peer(target)
    return adapter
