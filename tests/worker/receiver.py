"""A webhook on this machine: a real server that answers as it is told, and remembers what it was sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Receiver:
    """What came, and what is answered: 200 unless told otherwise."""

    def __init__(self, port: int = 0) -> None:
        self.bodies: list[Any] = []
        self.answers: list[int] = []
        """What is answered next, one after the other."""
        self.moved_to = ""
        self.hangs = False
        self.asked = threading.Event()
        self.let_go = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler_of(self))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/alerts"

    def close(self) -> None:
        self.let_go.set()
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """A webhook for as long as the block lasts."""
    made = Receiver(port)
    try:
        yield made
    finally:
        made.close()


def _handler_of(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.asked.set()
            if receiver.hangs:
                receiver.let_go.wait(60)
                return
            receiver.bodies.append(json.loads(body))
            self.send_response(receiver.answers.pop(0) if receiver.answers else 200)
            if receiver.moved_to:
                self.send_header("Location", receiver.moved_to)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            receiver.bodies.append("a GET")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
