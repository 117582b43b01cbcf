"""Onceward as a side of the benchmark, driven through its public API alone."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench import jobs
from bench.loops import new_loop
from bench.plan import CALLERS, CHILDREN, CONCURRENCY, FEW_SLOTS, PAD
from onceward import App


def app_of(kind: str) -> tuple[App, type[Any]]:
    """The application that knows a kind, and its payload class."""
    if kind in ("noop", "five"):
        return jobs.app, {"noop": jobs.Noop, "five": jobs.Five}[kind]
    from bench import kinds

    return kinds.app, {"blocking": kinds.Blocking, "patient": kinds.Patient, "governed": kinds.Governed}[kind]


class EngineClient:
    """Enqueues through the app; each call is durable when it returns."""

    def __init__(self) -> None:
        self.pad = PAD

    def enqueue(self, kind: str, number: int) -> None:
        """Enqueue one task."""
        app, payload = app_of(kind)
        app.enqueue(payload(number=number, pad=self.pad))

    def enqueue_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Enqueue all of them in one call."""
        app, payload = app_of(kind)
        app.enqueue_many([payload(number=number, pad=self.pad) for number in numbers])

    def close(self) -> None:
        """Nothing to do: the app closes with its process."""


def enqueue_fans(first_child: int, count: int) -> int:
    """Enqueue those who will spawn `count` no-op tasks with numbers from `first_child` on; how many they are."""
    fans = count // CHILDREN
    first = first_child + count
    jobs.app.enqueue_many([jobs.Fan(first + 2 * place, first_child + CHILDREN * place, PAD) for place in range(fans)])
    return fans


def callers(count: int) -> dict[str, Any]:
    """Enqueue one by one from one caller, and from many at once, `count` each time: in an event loop, then in threads.

    The numbers go on from one to the next. A first round of each that is not measured opens what is kept open.
    """
    measured: dict[str, Any] = {}
    next_number = 0

    def numbers(many: int) -> Iterable[int]:
        nonlocal next_number
        next_number += many
        return iter(range(next_number - many, next_number))

    loop = new_loop()
    for name, at_once in (("callers_1", 1), ("callers_many", CALLERS)):
        loop.run_until_complete(_asking(numbers(at_once), at_once))
        began = time.perf_counter()
        loop.run_until_complete(_asking(numbers(count), at_once))
        measured[name] = count / (time.perf_counter() - began)
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    with ThreadPoolExecutor(CALLERS) as threads:
        for name, at_once in (("threads_1", 1), ("threads_many", CALLERS)):
            list(threads.map(_ask, numbers(at_once)))
            began = time.perf_counter()
            for _ in threads.map(_ask_for_all, [numbers(count // at_once) for _ in range(at_once)]):
                pass
            measured[name] = count / (time.perf_counter() - began)
    return {**measured, "asked_for": next_number}


async def _asking(numbers: Iterable[int], at_once: int) -> None:
    """So many callers who share the numbers, each waiting for its own call before it makes the next."""

    async def caller() -> None:
        for number in numbers:
            await jobs.app.aenqueue(jobs.Noop(number=number, pad=PAD))

    await asyncio.gather(*(caller() for _ in range(at_once)))


def _ask(number: int) -> None:
    jobs.app.enqueue(jobs.Noop(number=number, pad=PAD))


def _ask_for_all(numbers: Iterable[int]) -> None:
    for number in numbers:
        _ask(number)


def work(*, until_idle: bool, queues: list[str] | None = None, kinds: bool = False, few: bool = False) -> None:
    """Run a worker in this process, without a supervisor; with `kinds` one for other tasks than plain ones, with `few`
    one that has few slots."""
    app = jobs.app
    if kinds:
        from bench import kinds as other

        app = other.app
    app.run(concurrency=FEW_SLOTS if few else CONCURRENCY, until_idle=until_idle, queues=queues)
