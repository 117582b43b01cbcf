"""One POST of a JSON document, with a time limit for all of it: looking the name up, connecting, sending, the answer.

No redirect is followed: what is posted, and the headers it goes with, reach the given address and no other.
"""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from email.message import Message
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import IO, Any
from urllib.error import HTTPError


def post(url: str, document: Mapping[str, Any], headers: Mapping[str, str], *, time_limit_s: float) -> None:
    """Post it. Any answer but 2xx is an error, as is none in time.

    The work is done in a thread of its own, because neither a name look-up nor an answer that comes byte by byte can
    be bounded from within. A thread that is late is left behind with its connection closed.
    """
    request = urllib.request.Request(
        url,
        data=json.dumps(document, ensure_ascii=False).encode(),
        headers={"Content-Type": "application/json", "User-Agent": "onceward", **headers},
        method="POST",
    )
    exchange = _Exchange(request, time_limit_s)
    thread = threading.Thread(target=exchange.run, name="onceward post", daemon=True)
    thread.start()
    thread.join(time_limit_s)
    if thread.is_alive():
        exchange.break_off()
        raise TimeoutError(f"no answer within {time_limit_s:g} s")
    if exchange.error is not None:
        raise exchange.error


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class _Exchange(urllib.request.HTTPSHandler, urllib.request.HTTPHandler):
    """A request and its answer, on connections that another thread can break off."""

    def __init__(self, request: urllib.request.Request, time_limit_s: float) -> None:
        super().__init__()
        self.error: BaseException | None = None
        self._request = request
        self._time_limit_s = time_limit_s
        self._connections: list[HTTPConnection] = []

    def run(self) -> None:
        """Send it, and keep what goes wrong for the caller."""
        try:
            with urllib.request.build_opener(_NoRedirects, self).open(self._request, timeout=self._time_limit_s):
                pass
        except BaseException as error:
            if isinstance(error, HTTPError):
                error.close()  # it is an answer as well
            self.error = error

    def break_off(self) -> None:
        """Close what is open: the thread that reads there ends."""
        for connection in self._connections:
            if connection.sock is not None:
                with suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Open a plain connection, and remember it."""
        return self.do_open(self._remembered(HTTPConnection), req)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        """Open a connection with TLS, and remember it."""
        return self.do_open(self._remembered(HTTPSConnection), req)

    def _remembered(self, kind: type[HTTPConnection]) -> Any:
        def made(*arguments: Any, **named: Any) -> HTTPConnection:
            self._connections.append(kind(*arguments, **named))
            return self._connections[-1]

        return made
