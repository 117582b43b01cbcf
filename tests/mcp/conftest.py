"""The server for assistants, asked by the official client over its standard streams, on both databases."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import TextContent

from onceward import App
from onceward.store.attempts.workers import NewWorker, register
from tests.mcp import plant

HERE = Path(__file__).parent
LEASE_MS = 600_000


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """A database with the engine's tables, once of each kind."""
    found: str = request.getfixturevalue(f"migrated_{request.param}_url")
    return found


@pytest.fixture
def app(url: str) -> Iterator[App]:
    """The plant on that database, before its first task."""
    made = plant.app.on(url)
    made.prepare()
    yield made
    made.close()


def have_worker(app: App, kinds: str = "page,question,doc,order") -> None:
    """Let a worker be alive, on another machine, that takes nothing by itself."""
    new = NewWorker("ant", "elsewhere", 7, None, kinds, "default", LEASE_MS)
    app._transact(lambda: register(new, app._store.clock.now()))


class Assistant:
    """A client that counts its calls."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.calls = 0
        self.is_error = False

    async def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool and return its text."""
        self.calls += 1
        answer = await self.client.call_tool(tool, arguments)
        self.is_error = bool(answer.is_error)
        texts = [one.text for one in answer.content if isinstance(one, TextContent)]
        assert len(texts) == len(answer.content) == 1
        return texts[0]


@asynccontextmanager
async def assistant(url: str, *options: str, with_code: bool = True) -> AsyncIterator[Assistant]:
    """A server in a process of its own, and a client on its standard streams."""
    place = [f"{HERE / 'plant.py'}:app", "--db", url] if with_code else ["--db", url]
    started = StdioServerParameters(
        command=sys.executable, args=["-m", "onceward", "mcp", *place, *options], env={"USER": "ann"}
    )
    async with Client(stdio_client(started)) as client:
        yield Assistant(client)


def talk(url: str, *options: str, with_code: bool = True) -> Callable[[Callable[[Assistant], Awaitable[None]]], None]:
    """Run a conversation with a server."""

    def run(conversation: Callable[[Assistant], Awaitable[None]]) -> None:
        async def whole() -> None:
            with anyio.fail_after(60):
                async with assistant(url, *options, with_code=with_code) as one:
                    await conversation(one)

        anyio.run(whole)

    return run
