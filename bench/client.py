"""The process that enqueues: `python -m bench.client VERB …`; it prints one JSON line at its end.

It is a process of its own because enqueueing from beside a worker is what applications do, and because a
process may open a SQLite file through one library only.
"""

import base64
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from bench import runlog
from bench.plan import BULK_SIZE
from bench.target import Target, from_environment

WARM_UPS = 3
SETTLE_SECONDS = 0.5
PATIENCE_SECONDS = 30.0
BATCHES_PER_SECOND = 100
# Large payloads go in calls of about that many bytes.
CALL_BYTES = 8_000_000
PAYLOAD_AROUND = '{"number":12345,"pad":""}'


class Client(Protocol):
    """What a side offers to those who enqueue."""

    pad: str
    """What makes a payload as long as it is."""

    def enqueue(self, kind: str, number: int) -> None:
        """One job, durable on return."""

    def enqueue_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Many jobs in one call, durable on return."""

    def close(self) -> None:
        """Let go of the database."""


def connect(target: Target) -> Client:
    """The client of the target's side."""
    if target.side == "engine":
        from bench.engine import EngineClient

        return EngineClient()
    if target.store == "sqlite":
        from bench.floor_sqlite import SqliteFloorClient

        return SqliteFloorClient(target.url)
    from bench.floor_postgres import PostgresFloorClient

    return PostgresFloorClient(target.url)


def chunks(first: int, end: int, size: int = BULK_SIZE) -> Iterator[range]:
    """The numbers from `first` to before `end`, in the portions in which they are enqueued."""
    for start in range(first, end, size):
        yield range(start, min(start + size, end))


def fill(client: Client, kind: str, count: int) -> dict[str, Any]:
    """Make a backlog of `count` jobs."""
    for numbers in chunks(0, count):
        client.enqueue_many(kind, numbers)
    return {}


def fill_with(client: Client, count: int, payload_bytes: int) -> dict[str, Any]:
    """Make a backlog of jobs with payloads of that length, of letters that no database can compress."""
    letters = random.Random(payload_bytes).randbytes(payload_bytes)
    client.pad = base64.b64encode(letters).decode()[: payload_bytes - len(PAYLOAD_AROUND)]
    for numbers in chunks(0, count, max(1, min(BULK_SIZE, CALL_BYTES // payload_bytes))):
        client.enqueue_many("noop", numbers)
    return {}


def enqueue(client: Client, singles: int, bulk: int) -> dict[str, Any]:
    """Enqueue one by one, then in bulk; both after a first call that opens the connection and makes the tables."""
    client.enqueue("noop", 0)
    began = time.perf_counter()
    for number in range(1, singles + 1):
        client.enqueue("noop", number)
    singles_seconds = time.perf_counter() - began
    began = time.perf_counter()
    for numbers in chunks(singles + 1, singles + 1 + bulk):
        client.enqueue_many("noop", numbers)
    bulk_seconds = time.perf_counter() - began
    return {"singles_seconds": singles_seconds, "bulk_seconds": bulk_seconds}


def warm_up(client: Client, target: Target) -> None:
    """Tell the driver that there is a database to work on, then wait until a worker has run a few jobs and idles."""
    for number in range(WARM_UPS):
        client.enqueue("noop", number)
        if number == 0:
            print("ready", flush=True)
        end = time.monotonic() + PATIENCE_SECONDS
        while runlog.length(target.log) <= number:
            if time.monotonic() > end:
                raise SystemExit(f"no worker ran job {number} within {PATIENCE_SECONDS:.0f} s")
            time.sleep(0.01)
    time.sleep(SETTLE_SECONDS)


def latency(client: Client, target: Target, count: int, gap_ms: int) -> dict[str, Any]:
    """One job every `gap_ms` to an idle worker; the times are those just before each call."""
    warm_up(client, target)
    sent_ns: list[int] = []
    next_at = time.monotonic()
    for number in range(WARM_UPS, WARM_UPS + count):
        next_at += gap_ms / 1000
        time.sleep(max(0.0, next_at - time.monotonic()))
        sent_ns.append(time.monotonic_ns())
        client.enqueue("noop", number)
    return {"first_number": WARM_UPS, "sent_ns": sent_ns}


def steady(client: Client, target: Target, per_second: int, seconds: float) -> dict[str, Any]:
    """Enqueue `per_second` jobs a second in a hundred calls a second, catching up if a call was slow."""
    warm_up(client, target)
    size = per_second // BATCHES_PER_SECOND
    sent_ns: list[int] = []
    began = time.monotonic()
    for batch in range(int(seconds * BATCHES_PER_SECOND)):
        time.sleep(max(0.0, began + batch / BATCHES_PER_SECOND - time.monotonic()))
        first = WARM_UPS + batch * size
        sent_ns.extend([time.monotonic_ns()] * size)
        client.enqueue_many("noop", range(first, first + size))
    return {"first_number": WARM_UPS, "sent_ns": sent_ns, "began_ns": int(began * 1e9)}


def main() -> None:
    """Do what the driver asks and print what was measured."""
    target = from_environment()
    verb, *arguments = sys.argv[1:]
    client = connect(target)
    match verb, arguments:
        case "fill", [kind, count]:
            measured = fill(client, kind, int(count))
        case "fill-with", [count, payload_bytes]:
            measured = fill_with(client, int(count), int(payload_bytes))
        case "enqueue", [singles, bulk]:
            measured = enqueue(client, int(singles), int(bulk))
        case "latency", [count, gap_ms]:
            measured = latency(client, target, int(count), int(gap_ms))
        case "steady", [per_second, seconds]:
            measured = steady(client, target, int(per_second), float(seconds))
        case "fans", [first_child, count]:
            from bench.engine import enqueue_fans

            measured = {"fans": enqueue_fans(int(first_child), int(count))}
        case "callers", [count]:
            from bench.engine import callers

            measured = callers(int(count))
        case "plant", [count]:
            from bench.kinds import plant

            measured = {"tasks": plant(int(count))}
        case "guard", [large, rounds]:
            from bench.guard import guard

            measured = guard(int(large), int(rounds))
        case "governed", [sources, rounds]:
            from bench.governed import governed

            measured = governed(int(sources), int(rounds))
        case _:
            known = "fill, fill-with, enqueue, latency, steady, fans, callers, plant, guard, governed"
            raise SystemExit(f"unknown request {verb} {arguments}; known: {known}")
    client.close()
    print(json.dumps(measured), flush=True)


if __name__ == "__main__":
    main()
