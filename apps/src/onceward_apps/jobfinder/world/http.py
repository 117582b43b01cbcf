"""A small HTTP/1.1 server for one process and any number of hosts, which logs each request with its host and time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

LOG_HOST = "log.invalid"
"""A request for this host returns the log, and is not logged itself."""
HEAD_BYTES_MAX = 16_384


@dataclass(frozen=True, slots=True)
class Ask:
    """A request."""

    method: str
    host: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    target: str = ""
    """Path and query as they came."""

    @property
    def what(self) -> str:
        """All of it but the host, in a line."""
        return " ".join(
            part for part in (self.method, self.target or self.path, self.body.decode("utf-8", "replace")) if part
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """The path, part by part."""
        return tuple(part for part in self.path.split("/") if part)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a request."""

    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One line of the log: the time in seconds of a monotonic clock, the host, the request and the status."""

    at_s: float
    host: str
    what: str
    status: int


def html(body: str, status: int = 200) -> Answer:
    """A page."""
    return Answer(body.encode(), status=status)


def json(value: object, status: int = 200) -> Answer:
    """The JSON answer of an interface."""
    return Answer(msgspec.json.encode(value), "application/json; charset=utf-8", status)


def redirect(where: str) -> Answer:
    """A redirect to another address."""
    return Answer(b"", status=302, headers={"Location": where})


NOT_FOUND = html("<!doctype html><title>Not found</title><h1>There is no such page</h1>", 404)


class Server:
    """Answers on a port of loopback until it is closed."""

    def __init__(self, answer: Callable[[Ask], Answer], clock: Callable[[], float] = time.monotonic) -> None:
        self._answer = answer
        self._clock = clock
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Transport] = set()
        self.log: list[Entry] = []

    async def open(self, port: int = 0) -> int:
        """Listen; returns the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self._respond, self._open), "127.0.0.1", port, backlog=512
        )
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    async def close(self) -> None:
        """Stop listening, and end what is open."""
        if self._server is not None:
            self._server.close()
            for transport in tuple(self._open):
                transport.abort()
            self._server = None

    def _respond(self, ask: Ask) -> Answer:
        if ask.host == LOG_HOST:
            return json(self.log)
        answer = self._answer(ask)
        self.log.append(Entry(self._clock(), ask.host, ask.what, answer.status))
        return answer


class _Connection(asyncio.Protocol):
    """One connection, kept open from request to request as long as the other side wants it."""

    def __init__(self, respond: Callable[[Ask], Answer], open_ones: set[asyncio.Transport]) -> None:
        self._respond = respond
        self._open_ones = open_ones
        self._read = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_ones.add(transport)

    def connection_lost(self, error: Exception | None) -> None:
        """A client has left."""
        assert self._transport is not None
        self._open_ones.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        """A piece of a request, or several requests."""
        self._read += data
        while self._transport is not None and not self._transport.is_closing() and self._take():
            pass

    def _take(self) -> bool:
        """Answer the first request that is there whole, if there is one."""
        assert self._transport is not None
        end = self._read.find(b"\r\n\r\n")
        if end < 0:
            if len(self._read) > HEAD_BYTES_MAX:
                self._transport.close()
            return False
        method, target, headers = _head(bytes(self._read[:end]))
        size = int(headers.get("content-length", "0"))
        if len(self._read) < end + 4 + size:
            return False
        body = bytes(self._read[end + 4 : end + 4 + size])
        del self._read[: end + 4 + size]
        parts = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        host = headers.get("host", "").partition(":")[0].lower()
        answer = self._respond(Ask(method, host, unquote(parts.path) or "/", query, headers, body, target))
        ends = headers.get("connection", "").lower() == "close"
        self._transport.write(_written(answer, ends))
        if ends:
            self._transport.close()
        return True


def _head(head: bytes) -> tuple[str, str, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    return method, target, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _written(answer: Answer, ends: bool) -> bytes:
    status = HTTPStatus(answer.status)
    headers = {
        "Content-Type": answer.content_type,
        "Content-Length": str(len(answer.body)),
        "Connection": "close" if ends else "keep-alive",
        **answer.headers,
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status.value} {status.phrase}\r\n{lines}\r\n".encode("latin-1") + answer.body
