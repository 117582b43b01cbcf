"""Connections to checked addresses only.

A host's name is looked up once for each connection, every address it stands for is checked, and the connection goes
to one of those very addresses. There is no second look-up that could answer otherwise. Host header, TLS server name
and certificate are still those of the name.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import httpcore2
import httpx2

from onceward_apps.jobfinder.addresses import check_addresses, check_port, is_address
from onceward_apps.jobfinder.errors import Refused, RefusedReason, Unavailable, UnavailableReason

Resolve = Callable[[str, int], Awaitable[Iterable[str]]]
"""From a host and a port to all its IP addresses."""

StandIns = Mapping[str, str]
"""Where a host is served instead, in plain HTTP: `{"acme.example": "127.0.0.1:8000"}`; `*` is every other."""

NO_STAND_INS: StandIns = MappingProxyType({})
ADDRESSES_TRIED = 3
MOST_LOOK_UPS = 64
"""How many names are looked up at a time; those given up count until the resolver has given up as well."""
_names_looked_up = 0


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as this machine's resolver orders them; an address is its own."""
    if is_address(host):
        return [host]
    try:
        found = await _looked_up(host, port)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)):
            raise Refused(RefusedReason.UNKNOWN_HOST, f"{host}: no such host") from error
        raise Unavailable(UnavailableReason.DNS, f"{host} could not be looked up: {error.strerror}") from error
    except UnicodeError as error:
        raise Refused(RefusedReason.BAD_URL, f"{host!r} is not a name of a host") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def _looked_up(host: str, port: int) -> list[Any]:
    """Look a name up in a thread of its own, which nothing waits for if its answer is no longer wanted.

    In the threads of the event loop, names whose servers do not answer would hold up all who use these threads.
    """
    global _names_looked_up
    if _names_looked_up >= MOST_LOOK_UPS:
        raise Unavailable(UnavailableReason.DNS, f"{host} was not looked up: {_names_looked_up} names have no answer")
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[Any]] = loop.create_future()

    def give(found: list[Any] | Exception) -> None:
        global _names_looked_up
        _names_looked_up -= 1
        if answer.done():
            return
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def look_up() -> None:
        found: list[Any] | Exception
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except Exception as error:  # raised in the awaiting task
            found = error
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(give, found)

    _names_looked_up += 1
    threading.Thread(target=look_up, name=f"look-up of {host}", daemon=True).start()
    return await answer


class CheckedNetwork(httpcore2.AsyncNetworkBackend):
    """Opens connections to public addresses, and to loopback where that is allowed."""

    def __init__(self, *, allow_loopback: bool, resolve: Resolve) -> None:
        self._allow_loopback = allow_loopback
        self._resolve = resolve
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """A connection to the first address of the host that takes one."""
        if not self._allow_loopback:
            check_port(host, port)
        addresses = tuple(await self._resolve(host.strip("[]"), port))
        if not addresses:
            raise Refused(RefusedReason.UNKNOWN_HOST, f"{host}: no such host")
        check_addresses(host, port, addresses, allow_loopback=self._allow_loopback)
        *others, last = addresses[:ADDRESSES_TRIED]
        for address in others:
            try:
                return await self._network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return await self._network.connect_tcp(last, port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Never: pages come over the network."""
        raise Refused(RefusedReason.NOT_PUBLIC, f"{path} is a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Carries requests over a CheckedNetwork.

    What is meant for a host that another one stands in for goes there in plain HTTP, with the Host header of its own.
    """

    def __init__(self, network: CheckedNetwork, tls: ssl.SSLContext, stand_ins: StandIns = NO_STAND_INS) -> None:
        self._pool = httpcore2.AsyncConnectionPool(ssl_context=tls, network_backend=network)
        self._stand_ins = stand_ins

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; the body of the answer is read later."""
        url = request.url
        place = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
        if stand_in := self._stand_ins.get(url.host) or self._stand_ins.get("*"):
            host, _, port = stand_in.rpartition(":")
            place = httpcore2.URL(scheme=b"http", host=host.encode(), port=int(port), target=url.raw_path)
        answer = await self._pool.handle_async_request(
            httpcore2.Request(
                request.method,
                place,
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        return httpx2.Response(
            answer.status, headers=answer.headers, stream=_Body(answer), extensions=dict(answer.extensions)
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


class _Body(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._answer.aiter_stream():
            yield piece

    async def aclose(self) -> None:
        await self._answer.aclose()


def translated(error: Exception, host: str) -> Refused | Unavailable:
    """The refusal or outage that an error on the way to a host means for the fetching task."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Refused(RefusedReason.CERTIFICATE, f"{host}: {cause.verify_message or cause}")
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpcore2.TimeoutException | httpx2.TimeoutException):
        return Unavailable(UnavailableReason.TIMEOUT, f"{host} did not answer in time")
    if isinstance(error, httpcore2.ConnectError | httpx2.ConnectError):
        return Unavailable(UnavailableReason.CONNECT, f"{host} cannot be reached: {error or type(error).__name__}")
    return Unavailable(UnavailableReason.BROKEN_OFF, f"{host} broke off: {error or type(error).__name__}")
