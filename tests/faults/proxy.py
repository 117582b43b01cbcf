"""A loopback proxy before PostgreSQL that can lose a COMMIT, or the reply to one, and then its connection.

It reads just enough of the protocol to know which message carries a COMMIT, also when the statement is prepared and
only its name goes over the wire.
"""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

import psycopg


class Fault(Enum):
    """What becomes of a COMMIT."""

    NONE = "nothing"
    REPLY_LOST = "it arrives, its reply is lost"
    LOST = "it does not arrive"
    IN_FLIGHT = "it arrives while we have already hung up"


Chooser = Callable[[int], Fault]
"""From the number of a COMMIT, counted from 1, to what becomes of it."""


class Proxy:
    """Listens on a port of its own, in a thread of its own."""

    def __init__(self, server_url: str, choose: Chooser = lambda _: Fault.NONE) -> None:
        info = psycopg.conninfo.conninfo_to_dict(server_url)
        self._server = f"{info['host']}/.s.PGSQL.{info.get('port') or 5432}"
        self._database = info["dbname"]
        self.choose = choose
        self.commits = 0
        self.faults = 0
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
        return f"postgresql://postgres:@127.0.0.1:{self._port}/{self._database}?sslmode=disable&gssencmode=disable"

    def _run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._loop.close()

    async def _listen(self) -> None:
        self._end = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = listener.sockets[0].getsockname()[1]
        self._listening.set()
        await self._end.wait()
        listener.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await asyncio.sleep(0)  # for the callbacks that hang up

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        commits: set[bytes] = set()  # names of prepared statements that are a COMMIT
        fault = Fault.NONE
        while True:
            kind = await client.readexactly(1)
            length = await client.readexactly(4)
            body = await client.readexactly(struct.unpack("!I", length)[0] - 4)
            if _is_commit(kind, body, commits):
                self.commits += 1
                fault = self.choose(self.commits)
                if fault is not Fault.NONE:
                    self.faults += 1
                    mute.set()
                if fault is Fault.LOST:
                    return
            to_server.write(kind + length + body)
            if fault is not Fault.NONE and kind in (b"S", b"Q"):  # the end of the message that holds the COMMIT
                await to_server.drain()
                if fault is Fault.REPLY_LOST:
                    # The server hangs up when it has read our goodbye, which it reads after it has committed.
                    to_server.write(b"X" + struct.pack("!I", 4))
                    await answers
                return


def _is_commit(kind: bytes, body: bytes, commits: set[bytes]) -> bool:
    if kind == b"Q":
        return body.startswith(b"COMMIT")
    if kind == b"P":
        name, text, *_ = body.split(b"\x00")
        if text.startswith(b"COMMIT"):
            commits.add(name)
    elif kind == b"B":
        _, name, *_ = body.split(b"\x00")
        return name in commits
    return False


def _hang_up(writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, RuntimeError):
        writer.transport.abort()
