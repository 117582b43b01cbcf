"""What commands print fits a real terminal of 80 columns."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from onceward import App, Budget, Context, Cron, Limits, Payload, Pipeline, Retry

COLUMNS = 80


class Order(Payload, kind="order-of-a-customer"):
    number: int


class Question(Payload, kind="question-to-a-model"):
    number: int


def printed_on_a_terminal(*arguments: str) -> list[str]:
    """The lines that a command prints on a terminal of 80 columns, without colours."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    surroundings = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"NO_COLOR": "1"}
    command = [sys.executable, "-m", "onceward", *arguments]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env={**surroundings, "TERM": "dumb"}):
        os.close(slave)
        pieces = []
        try:
            while piece := os.read(master, 65_536):
                pieces.append(piece)
        except OSError:  # the terminal is closed by its last user
            pass
    os.close(master)
    return b"".join(pieces).decode().replace("\r\n", "\n").splitlines()


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with an order that has failed after a retry, and an open batch."""
    file: Path = tmp_path_factory.mktemp("narrow") / "shop.db"
    order = Pipeline(Order, retry=Retry(retries=1, base="1ms"))

    @order.stage
    def ask_for_the_price(ctx: Context[Order]) -> None:
        raise ConnectionError("the service that knows all the prices has hung up, as it so often does on Mondays")

    question = Pipeline(Question)
    money = Budget("money-for-all-models", 10, per="day")

    @question.stage(budget=money, estimate="0.2")
    def ask_a_model(ctx: Context[Question]) -> None:
        ctx.hold(money, "0.1", name=f"answer-to-question-{ctx.payload.number}")
        ctx.charge(money, "0.2")

    nightly = Cron("0 2 * * *", Order(7), tz="Europe/Berlin", name="every-night-at-two")
    url = f"sqlite:///{file}"
    with App(url, pipelines=[order, question], schedules=[nightly]) as app:
        app.enqueue(Order(1))
        app.enqueue(Question(1), limits=Limits(budget="0.3"))
        app.enqueue(Question(2), limits=Limits(budget="0.1"))
        app.run(until_idle=True, name="a-worker-with-a-long-name")
        with app.batch("everything-of-this-night") as batch:
            batch.add(Order(2))
    return url


@pytest.mark.parametrize(
    "command",
    [
        "task 1",
        "tasks",
        "status",
        "batches",
        "why 1",
        "why 3",
        "stats",
        "sources",
        "budgets",
        "schedules",
        "alerts",
        "settings",
        "cache",
        "lineages",
        "lineage 2",
        "limits 2",
    ],
)
def test_no_line_is_longer_than_a_terminal_of_80_columns(database: str, command: str) -> None:
    lines = printed_on_a_terminal(*command.split(), "--db", database)
    assert lines
    assert [line for line in lines if len(line.rstrip()) > COLUMNS] == []
