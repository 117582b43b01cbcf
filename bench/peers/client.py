"""The process that enqueues into a system: `python -m bench.peers.client SYSTEM VERB …`; it prints one JSON line."""

import asyncio
import json
import sys
import time
from collections.abc import Coroutine
from typing import Any

from bench import loops, runlog
from bench.client import PATIENCE_SECONDS, SETTLE_SECONDS, WARM_UPS
from bench.peers.adapter import Adapter, Kind, load
from bench.peers.catalogue import BY_NAME
from bench.target import from_environment


class Client:
    """Enqueues until a count or a time is reached, whichever comes first."""

    def __init__(self, adapter: Adapter, *, bulk: bool) -> None:
        """`bulk` tells whether the system takes many jobs in one call or transaction."""
        self.adapter = adapter
        self.bulk = bulk

    async def one_by_one(self, first: int, count: int, seconds: float) -> tuple[int, float]:
        """Enqueue singly; how many, and how long it took."""
        began, number = time.perf_counter(), first
        while number < first + count and time.perf_counter() - began < seconds:
            await self.adapter.enqueue("noop", number)
            number += 1
        return number - first, time.perf_counter() - began

    async def in_bulk(self, kind: Kind, first: int, count: int, seconds: float) -> tuple[int, float]:
        """Enqueue in portions; how many, and how long it took."""
        began, number = time.perf_counter(), first
        while number < first + count and time.perf_counter() - began < seconds:
            end = min(number + self.adapter.bulk_size, first + count)
            await self.adapter.enqueue_many(kind, range(number, end))
            number = end
        return number - first, time.perf_counter() - began

    async def backlog(self, singles: int, bulk: int, seconds: float) -> dict[str, Any]:
        """Enqueue one by one, then in bulk, after a first call that warms the connection."""
        await self.adapter.enqueue("noop", 0)
        one, one_seconds = await self.one_by_one(1, singles, seconds)
        many, many_seconds = await self.in_bulk("noop", 1 + one, bulk, seconds) if self.bulk else (0, 0.0)
        return {
            "total": 1 + one + many,
            "enqueue-one": one / one_seconds,
            "enqueue-bulk": many / many_seconds if many else None,
        }

    async def fill(self, kind: Kind, count: int, seconds: float) -> dict[str, Any]:
        """Make a backlog."""
        return {"total": (await self.in_bulk(kind, 0, count, seconds))[0]}

    async def latency(self, count: int, gap_seconds: float) -> dict[str, Any]:
        """One job now and then to an idle worker; the times are those just before each call."""
        for number in range(WARM_UPS):
            await self.adapter.enqueue("noop", number)
            if number == 0:
                print("ready", flush=True)
            await self.until_run(number + 1)
        await self.pause(SETTLE_SECONDS)
        sent_ns: list[int] = []
        next_at = time.monotonic()
        for number in range(WARM_UPS, WARM_UPS + count):
            next_at += gap_seconds
            await self.pause(max(0.0, next_at - time.monotonic()))
            sent_ns.append(time.monotonic_ns())
            await self.adapter.enqueue("noop", number)
        return {"total": WARM_UPS + count, "first_number": WARM_UPS, "sent_ns": sent_ns}

    async def until_run(self, count: int) -> None:
        """Wait until so many jobs have run."""
        end = time.monotonic() + PATIENCE_SECONDS
        while runlog.length(self.adapter.target.log) < count:
            if time.monotonic() > end:
                raise SystemExit(f"no worker ran job {count - 1} within {PATIENCE_SECONDS:.0f} s")
            await self.pause(0.01)

    async def pause(self, seconds: float) -> None:
        """Wait as the client's kind waits."""
        if self.adapter.blocking:
            time.sleep(seconds)  # noqa: ASYNC251 - no loop runs here
        else:
            await asyncio.sleep(seconds)


async def answer(client: Client, verb: str, arguments: list[str]) -> None:
    """Do what the driver asks and print what was measured."""
    await client.adapter.open()
    match verb, arguments:
        case "backlog", [singles, bulk, seconds]:
            measured = await client.backlog(int(singles), int(bulk), float(seconds))
        case "fill", [("noop" | "five") as kind, count, seconds]:
            measured = await client.fill(kind, int(count), float(seconds))
        case "latency", [count, gap_seconds]:
            measured = await client.latency(int(count), float(gap_seconds))
        case _:
            raise SystemExit(f"unknown request {verb} {arguments}; known: backlog, fill, latency")
    await client.adapter.close()
    print(json.dumps(measured), flush=True)


def run_without_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits."""
    try:
        main.send(None)
    except StopIteration:
        return
    raise SystemExit("an adapter that says it blocks has waited for an event loop")


def main() -> None:
    """Serve one request."""
    name, verb, *arguments = sys.argv[1:]
    system = BY_NAME[name]
    adapter = load(system, from_environment())
    request = answer(Client(adapter, bulk=system.bulk), verb, arguments)
    if adapter.blocking:
        run_without_loop(request)
    else:
        loops.run(request)


if __name__ == "__main__":
    main()
