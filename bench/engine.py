"""Onceward as a side of the benchmark, driven through its public API alone."""

from collections.abc import Sequence

from bench.jobs import Fan, Five, Noop, app
from bench.plan import CHILDREN, CONCURRENCY, PAD

PAYLOADS: dict[str, type[Noop] | type[Five]] = {"noop": Noop, "five": Five}


class EngineClient:
    """Enqueues through the app; each call is durable when it returns."""

    def enqueue(self, kind: str, number: int) -> None:
        """Enqueue one task."""
        app.enqueue(PAYLOADS[kind](number=number, pad=PAD))

    def enqueue_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Enqueue all of them in one call."""
        payload = PAYLOADS[kind]
        app.enqueue_many([payload(number=number, pad=PAD) for number in numbers])

    def close(self) -> None:
        """Nothing to do: the app closes with its process."""


def enqueue_fans(first_child: int, count: int) -> int:
    """Enqueue those who will spawn `count` no-op tasks with numbers from `first_child` on; how many they are."""
    fans = count // CHILDREN
    first = first_child + count
    app.enqueue_many([Fan(first + 2 * place, first_child + CHILDREN * place, PAD) for place in range(fans)])
    return fans


def work(*, until_idle: bool, queues: list[str] | None = None) -> None:
    """Run a worker in this process, without a supervisor."""
    app.run(concurrency=CONCURRENCY, until_idle=until_idle, queues=queues)
