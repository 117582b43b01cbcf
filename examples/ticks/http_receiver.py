"""Starts the tick that another tick posts: `python http_receiver.py`, then `onceward tick … --trigger URL`.

Every accepted request spends your machine's time, so the receiver asks for a token and keeps its own bounds. Put it
behind TLS, or on an address that only your machines reach. The token stands in `ONCEWARD_TICK_TOKEN`, here and where
ticks run.
"""

from __future__ import annotations

import hmac
import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from onceward import NextTick, SubprocessTrigger

LARGEST_BODY = 10_000
MOST_TASKS, LONGEST_S, LONGEST_CHAIN = 1_000, 600, 2
"""What the schedule says too: a request can ask for less, not for more."""


class Receiver(BaseHTTPRequestHandler):
    """Answers a POST: 401 without the token, 400 to what is no tick, 202 when the tick was started."""

    timeout = 10
    running: subprocess.Popen[bytes] | None = None

    def do_POST(self) -> None:
        """Start the next tick, if the request carries the token."""
        if not is_allowed(self.headers.get("Authorization") or ""):
            self._answer(401)
            return
        try:
            size = int(self.headers["Content-Length"])
            if size > LARGEST_BODY:
                raise ValueError("no tick is that long")
            command = command_of(json.loads(self.rfile.read(size)))
        except (ValueError, TypeError, KeyError):
            self._answer(400)
            return
        if Receiver.running is None or Receiver.running.poll() is not None:
            Receiver.running = subprocess.Popen(command, start_new_session=True)
        self._answer(202)

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()


def is_allowed(header: str) -> bool:
    """Whether an `Authorization` header has the token; comparing takes the same time however much of it is right."""
    token = os.environ["ONCEWARD_TICK_TOKEN"]
    return len(token) >= 32 and hmac.compare_digest(header.encode(), f"Bearer {token}".encode())


def command_of(asked: dict[str, Any]) -> list[str]:
    """The command line of the tick that is asked for: of this app, whatever the request names, within our bounds."""
    chain = min(int(asked["chain"]), LONGEST_CHAIN)
    tick = NextTick(
        app="tasks:app",
        max_tasks=max(1, min(int(asked["max_tasks"]), MOST_TASKS)),
        time_limit_s=max(1.0, min(float(asked["time_limit_s"]), LONGEST_S)),
        chain=chain,
        chain_left=max(0, min(int(asked["chain_left"]), chain)),
    )
    return SubprocessTrigger(python=sys.executable).command(tick)


if __name__ == "__main__":
    HTTPServer(("127.0.0.1", int(os.environ.get("SHOP_TICK_PORT", "8123"))), Receiver).serve_forever()
