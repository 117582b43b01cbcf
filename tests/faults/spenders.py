"""An app that spends money, and the provider that takes it and keeps a ledger of its own.

`python -m tests.faults.spenders` is a worker; its database, its provider and its limit stand in the environment. With
`alone` it is one whose stages run in processes of their own, until nothing is left to do.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from onceward import App, Budget, Config, Context, Payload, Pipeline, Retry, Waiting
from tests.faults.work import DATABASE

PROVIDER = "FAULTS_PROVIDER"
LIMIT = "FAULTS_LIMIT"
DEAREST = Decimal("0.05")
"""What one call costs at most."""


class Question(Payload, kind="question"):
    """Something that the provider is asked."""

    number: int


class Order(Payload, kind="order"):
    """Something that the provider does for a while, and is polled for."""

    number: int


def spending_app(url: str, limit: str) -> App:
    """Questions that cost up to 0.05 USD each, some of which fail after they were answered and paid for."""
    usd = Budget("usd", limit)
    question = Pipeline(Question, retry=Retry(retries=50, base="20ms"))

    @question.stage(budget=usd, estimate=DEAREST)
    def ask(ctx: Context[Question]) -> str:
        cost = ask_provider(ctx.task.id)
        if random.random() < 0.05:
            raise RuntimeError("lost on the way back")
        ctx.charge(usd, cost)
        if random.random() < 0.05:
            raise RuntimeError("not what was asked for")
        return cost

    order = Pipeline(Order, retry=Retry(retries=50, base="20ms"))

    @order.stage(holds=usd)
    def submit(ctx: Context[Order]) -> tuple[str, str]:
        name = uuid.uuid4().hex  # each submission is paid for, so each is held under a name of its own
        ctx.hold(usd, DEAREST, name=name)
        return name, ask_provider(ctx.task.id)

    @order.stage
    def collect(ctx: Context[Order]) -> None:
        name, cost = ctx.result(submit)
        polls = (ctx.cursor or 0) + 1
        if polls < 4:
            ctx.checkpoint(polls)
            raise Waiting(after="30ms")
        ctx.settle(usd, cost, name=name)

    return App(url, [question, order], config=Config(lease="5s", concurrency=4))


class Alone(Payload, kind="alone"):
    """Something that is done in a process of its own."""

    fate: str


alone_usd = Budget("alone-usd", 10)
alone = Pipeline(Alone, retry=Retry(retries=0))


@alone.stage(budget=alone_usd, estimate=1, isolate="process")
def work_alone(ctx: Context[Alone]) -> None:
    """Charge, keep something, charge again; then end as the payload says."""
    if ctx.payload.fate == "hold":
        ctx.hold(alone_usd, 4, name="large")
        ctx.hold(alone_usd, 2, name="small")
        ctx.settle(alone_usd, 1, name="large", keep_rest=True)
        ctx.checkpoint(1)
        ctx.settle(alone_usd, 1, name="small")
        return
    if ctx.payload.fate == "too much":
        ctx.hold(alone_usd, "9.5", name="large")
    ctx.charge(alone_usd, "0.1")
    ctx.checkpoint(1)
    ctx.charge(alone_usd, "0.2")
    if ctx.payload.fate == "error":
        raise RuntimeError("boom")
    if ctx.payload.fate == "death":
        os._exit(3)


@alone.stage
def settle_after(ctx: Context[Alone]) -> None:
    """Settle what the stage before has left, under the same lease."""
    if (held := ctx.held(alone_usd, name="large")) is not None:
        ctx.settle(alone_usd, held, name="large")
    assert ctx.held(alone_usd, name="small") is None


alone_app = App(os.environ.get(DATABASE, "sqlite:///alone.db"), [alone], config=Config(max_lost_workers=1))


def ask_provider(task: int) -> str:
    """One call, which costs what the provider says."""
    with urllib.request.urlopen(f"{os.environ[PROVIDER]}/{task}", timeout=60) as answer:
        cost: str = json.load(answer)["usd"]
        return cost


class Ledger:
    """What the provider has been paid: a line for each call, written before it is answered."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()
        self._lock = threading.Lock()

    def add(self, task: str, usd: str) -> None:
        """One more call."""
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(f"{task} {usd}\n")

    def total(self) -> Decimal:
        """All that was ever paid."""
        lines = self._path.read_text(encoding="utf-8").splitlines()
        return sum((Decimal(line.split()[1]) for line in lines), Decimal(0))


@contextmanager
def provider(ledger: Ledger) -> Iterator[str]:
    """A real server on a loopback address that answers slowly and takes its money first; yields where it is."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            usd = f"0.{random.randint(1, 5):02}"
            ledger.add(self.path.strip("/"), usd)
            time.sleep(random.uniform(0.002, 0.03))
            body = json.dumps({"usd": usd}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """Whoever asked was killed meanwhile."""

    server = Server(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    from tests.faults.worker import end_with_the_tests

    end_with_the_tests()
    if sys.argv[1:] == ["alone"]:
        importlib.import_module("tests.faults.spenders").alone_app.run(until_idle=True)
        sys.exit()
    spending_app(os.environ[DATABASE], os.environ[LIMIT]).run()
