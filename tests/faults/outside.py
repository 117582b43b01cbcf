"""An outside service that notes who comes when, and an application whose stages go there.

`python -m tests.faults.outside` is a worker process of that application.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from onceward import App, Breaker, Context, Payload, Pipeline, Retry, Source
from tests.faults.work import DATABASE
from tests.faults.worker import main

PORT = "OUTSIDE_PORT"
PAUSE = "OUTSIDE_PAUSE"
PER_SECOND, BURST = 10, 10
FAILURES = 5
PLACES = 4


@dataclass(slots=True)
class Visit:
    """One call, as the service has seen it."""

    source: str
    task: int
    came_at: float
    left_at: float = 0.0
    failed: bool = False
    pid: int = 0


class Outside:
    """A loopback HTTP server in a thread of its own. `/source/task/pid` is a call; those of what is `down` fail."""

    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self.down: set[str] = set()
        self.takes_s: dict[str, float] = {}
        self.most: Counter[str] = Counter()
        self._inside: list[Visit] = []
        self._lost: set[int] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._open()), daemon=True)

    def __enter__(self) -> Outside:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(10)
        with warnings.catch_warnings():  # connections that came as the service ended are closed by nothing else
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def of(self, source: str) -> list[Visit]:
        """The calls for one source, in the order in which they came."""
        return [visit for visit in list(self.visits) if visit.source == source]

    def lose(self, pid: int) -> None:
        """Somebody is about to be killed. From then on it is not inside, though the system may take a while to hang
        up for it: by then the dead may have been buried, and another one let in."""
        lost = threading.Event()

        def forget() -> None:
            self._lost.add(pid)
            lost.set()

        self._loop.call_soon_threadsafe(forget)
        assert lost.wait(10)

    def _living(self, source: str) -> int:
        return sum(one.source == source and one.pid not in self._lost for one in self._inside)

    async def _open(self) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1_000)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._closing.wait()
        server.close()
        for one in self._serving:
            one.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        this = asyncio.current_task()
        assert this is not None
        self._serving.add(this)
        with suppress(asyncio.CancelledError):  # the service ends, and some still wait for an answer
            await self._answer(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        self._serving.discard(this)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came_at = time.time()
        line = (await reader.readline()).decode()
        if not line:
            return
        _, source, task, pid = line.split()[1].split("/")
        visit = Visit(source, int(task), came_at, failed=source in self.down, pid=int(pid))
        self.visits.append(visit)
        self._inside.append(visit)
        self.most[source] = max(self.most[source], self._living(source))
        # Whoever is killed hangs up.
        hung_up = asyncio.ensure_future(reader.read())
        await asyncio.wait([hung_up], timeout=self.takes_s.get(source, 0.0))
        hung_up.cancel()
        self._inside = [one for one in self._inside if one is not visit]
        visit.left_at = time.time()
        writer.write(b"HTTP/1.1 503 down\r\n\r\n" if visit.failed else b"HTTP/1.1 200 fine\r\n\r\n")


async def call(source: str, task: int) -> None:
    """Go there and back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ[PORT]))
    try:
        writer.write(f"GET /{source}/{task}/{os.getpid()} HTTP/1.1\r\n".encode())
        answer = await reader.readline()
    finally:
        writer.close()
    if b" 200 " not in answer:
        raise ConnectionError(answer.decode().strip() or "hung up")


class Limited(Payload, kind="limited"):
    """For a source with a rate."""

    number: int


class Fragile(Payload, kind="fragile"):
    """For a source with a breaker that is tried again soon."""

    number: int


class Crowded(Payload, kind="crowded"):
    """For a source that takes only a few at once."""

    number: int


class Good(Payload, kind="good"):
    """For one of eight that are well."""

    which: int
    number: int

    def key(self) -> str:
        return f"{self.which}/{self.number}"


class Dead(Payload, kind="dead"):
    """For one that does not answer."""

    number: int


class Slow(Payload, kind="slow"):
    """For one that takes one call a minute."""

    number: int


def which(key: str) -> str:
    """The instance of a key."""
    return key.partition("/")[0]


def going_to(name: str) -> Callable[[Context[Any]], Coroutine[Any, Any, None]]:
    """A stage that makes one call."""

    async def go(ctx: Context[Any]) -> None:
        await call(name, ctx.task.id)

    return go


def make_app(url: str) -> App:
    """The application on a database."""
    again_and_again = Retry(retries=1_000_000, base="20ms", cap="100ms", jitter=False)
    limited = Source("limited", rate=f"{PER_SECOND * 60}/min", burst=BURST, breaker=None)
    pause = os.environ.get(PAUSE, "1s")
    fragile = Source("fragile", concurrency=2, breaker=Breaker(failures=FAILURES, pause=pause))
    crowded = Source("crowded", concurrency=PLACES, breaker=None)
    good = Source("good", per=which, concurrency=2)
    dead = Source("dead", breaker=Breaker(failures=FAILURES, pause=pause))
    slow = Source("slow", rate="1/min", burst=1)
    pipelines: list[Pipeline[Any]] = []
    for payload, source in (
        (Limited, limited),
        (Fragile, fragile),
        (Crowded, crowded),
        (Good, good),
        (Dead, dead),
        (Slow, slow),
    ):
        pipeline: Pipeline[Any] = Pipeline(payload, retry=again_and_again)

        pipeline.stage(source=source)(going_to(source.name))
        pipelines.append(pipeline)
    return App(url, pipelines)


app = make_app(os.environ.get(DATABASE, "sqlite:///:memory:"))

if __name__ == "__main__":
    main(app)
