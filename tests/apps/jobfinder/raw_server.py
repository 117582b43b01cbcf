"""A server on loopback that says, byte for byte, what a test wants, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

Route = bytes | Callable[[], AsyncIterator[bytes]]


def answer(body: bytes = b"", status: int = 200, content_type: str | None = "text/html", **headers: str) -> bytes:
    """A whole HTTP answer; a header `x_y` is written `x-y`."""
    lines = [f"HTTP/1.1 {status} x", f"content-length: {len(body)}", "connection: close"]
    if content_type is not None:
        lines.append(f"content-type: {content_type}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def moved(location: str, status: int = 302) -> bytes:
    """A redirect."""
    return answer(status=status, location=location)


@dataclass
class RawServer:
    """Serves routes by path; anything else is 404, so that there is no robots.txt unless a test has one."""

    routes: dict[str, Route] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    """Method, path, headers and body of each request."""
    port: int = 0
    tls: ssl.SSLContext | None = None
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def paths(self) -> list[str]:
        """The paths that were asked for, but for robots.txt."""
        return [path for _, path, _, _ in self.requests if path != "/robots.txt"]

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ", 2)
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((method, path, headers, body))
        route = self.routes.get(path, answer(status=404))
        if isinstance(route, bytes):
            writer.write(route)
        else:
            async for piece in route():
                writer.write(piece)
                await writer.drain()
        await writer.drain()
