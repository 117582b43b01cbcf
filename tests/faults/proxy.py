"""A loopback proxy before PostgreSQL that can lose a COMMIT, or the reply to one, and then its connection.

It reads just enough of the protocol to know which message commits: one with a COMMIT in it, be it alone, the last of
several statements in one message, or prepared, so that only its name goes over the wire; or a statement that writes
outside of a transaction.
"""

from __future__ import annotations

import asyncio
import re
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

import psycopg


class Fault(Enum):
    """What becomes of a commit."""

    NONE = "nothing"
    REPLY_LOST = "it arrives, its reply is lost"
    LOST = "it does not arrive"
    IN_FLIGHT = "it arrives while we have already hung up"
    SILENCE = "it arrives, and nothing is heard any more for a while, not even that the connection is gone"


FAULTS = (Fault.REPLY_LOST, Fault.LOST, Fault.IN_FLIGHT, Fault.SILENCE)

_PARTS = (b"P", b"B", b"D", b"E", b"C", b"H")
"""Messages that are part of a request: Parse, Bind, Describe, Execute, Close, Flush."""

Chooser = Callable[[int], Fault]
"""From the number of a commit, counted from 1, to what becomes of it."""

_BEGINS = re.compile(rb"(BEGIN|START\s+TRANSACTION)\b", re.IGNORECASE)
_COMMITS = re.compile(rb"(COMMIT|END)\b", re.IGNORECASE)
_ROLLS_BACK = re.compile(rb"(ROLLBACK(?!\s+TO\b)|ABORT)\b", re.IGNORECASE)
_WRITES = re.compile(rb"\b(INSERT|UPDATE|DELETE|TRUNCATE|CREATE|ALTER|DROP)\b", re.IGNORECASE)
_COMMENTS = re.compile(rb"--[^\n]*")


class Proxy:
    """Listens on a port of its own, in a thread of its own."""

    def __init__(
        self,
        server_url: str,
        choose: Chooser = lambda _: Fault.NONE,
        *,
        silence_s: float = 0.3,
        host: str = "127.0.0.1",
    ) -> None:
        info = psycopg.conninfo.conninfo_to_dict(server_url)
        self._server = f"{info['host']}/.s.PGSQL.{info.get('port') or 5432}"
        self._database = info["dbname"]
        self._silence_s = silence_s
        self._host = host
        self.choose = choose
        self.connections = 0
        """How many were asked for."""
        self.commits = 0
        self.faults = 0
        self.autocommits = 0
        """How many of the faults have met a statement outside of a transaction."""
        self.recovery_s: list[float] = []
        """How long it took after a fault until a commit came through."""
        self._fault_at: float | None = None
        self.is_down = False
        """While it is, connections are refused."""
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._listening.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)

    @property
    def url(self) -> str:
        """The address of the database through this proxy."""
        return f"postgresql://postgres:@{self._host}:{self._port}/{self._database}?sslmode=disable&gssencmode=disable"

    def _run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.close()

    async def _listen(self) -> None:
        self._end = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        listener = await asyncio.start_server(self._accept, self._host, 0)
        self._port = listener.sockets[0].getsockname()[1]
        self._listening.set()
        await self._end.wait()
        listener.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # for the callbacks that hang up

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.is_down:
            _hang_up(writer)
            return
        serving = self._loop.create_task(self._serve(reader, writer))
        self._connections.add(serving)
        serving.add_done_callback(self._connections.discard)
        serving.add_done_callback(lambda _: _hang_up(writer))

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_unix_connection(self._server)
        mute = asyncio.Event()
        answers = asyncio.ensure_future(self._pass_answers(server, to_client, mute))
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                await self._pass_requests(client, to_server, answers, mute)
        finally:
            answers.cancel()
            _hang_up(to_server)

    async def _pass_answers(
        self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter, mute: asyncio.Event
    ) -> None:
        with suppress(OSError):
            while data := await server.read(65_536):
                if not mute.is_set():
                    to_client.write(data)
        if not mute.is_set():
            _hang_up(to_client)

    async def _pass_requests(
        self,
        client: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
        answers: asyncio.Future[None],
        mute: asyncio.Event,
    ) -> None:
        head = await client.readexactly(4)
        to_server.write(head + await client.readexactly(struct.unpack("!I", head)[0] - 4))
        conversation = _Conversation()
        messages = b""  # of one request, which ends with a Sync or is a Query
        while True:
            kind = await client.readexactly(1)
            length = await client.readexactly(4)
            body = await client.readexactly(struct.unpack("!I", length)[0] - 4)
            messages += kind + length + body
            conversation.hear(kind, body)
            if kind == b"H":  # a Flush: what is there so far goes on, and commits nothing yet
                to_server.write(messages)
                messages = b""
            if kind in _PARTS:
                continue
            fault = self._decide(conversation)
            if fault is not Fault.NONE:
                mute.set()
            if fault is not Fault.LOST:
                to_server.write(messages)
                await to_server.drain()
            messages = b""
            if fault in (Fault.REPLY_LOST, Fault.SILENCE):
                # The server hangs up when it has read our goodbye, which it reads after it has committed.
                to_server.write(b"X" + struct.pack("!I", 4))
                await answers
            if fault is Fault.SILENCE:
                await asyncio.sleep(self._silence_s)
            if fault is not Fault.NONE:
                return

    def _decide(self, conversation: _Conversation) -> Fault:
        """What becomes of the request that has come to its end."""
        commits = conversation.ends_request()
        if commits is None:
            return Fault.NONE
        self.commits += 1
        fault = self.choose(self.commits)
        if fault is Fault.NONE:
            if self._fault_at is not None:
                self.recovery_s.append(time.monotonic() - self._fault_at)
                self._fault_at = None
        else:
            self.faults += 1
            self.autocommits += commits == "by itself"
            self._fault_at = self._fault_at or time.monotonic()
        return fault


class _Conversation:
    """What a client has said so far: whether it is in a transaction, and what the names of its statements mean."""

    def __init__(self) -> None:
        self._prepared: dict[bytes, bytes] = {}
        self._texts: list[bytes] = []
        self._in_transaction = False

    def hear(self, kind: bytes, body: bytes) -> None:
        """One message of a request."""
        if kind == b"Q":
            self._texts.append(body.rstrip(b"\x00"))
        elif kind == b"P":
            name, text, *_ = body.split(b"\x00")
            self._prepared[name] = text
        elif kind == b"B":
            _, name, *_ = body.split(b"\x00")
            self._texts.append(self._prepared[name])

    def ends_request(self) -> str | None:
        """The request is whole. How it commits, if it does."""
        texts, self._texts = self._texts, []
        commits = None
        for text in texts:
            for statement in _COMMENTS.sub(b"", text).split(b";"):
                said = statement.strip()
                if _BEGINS.match(said):
                    self._in_transaction = True
                elif _COMMITS.match(said):
                    commits, self._in_transaction = "by a COMMIT", False
                elif _ROLLS_BACK.match(said):
                    self._in_transaction = False
                elif not self._in_transaction and _WRITES.search(said):
                    commits = "by itself"
        return commits


def _hang_up(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, RuntimeError):
        writer.transport.abort()
