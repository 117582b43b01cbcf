"""`onceward try` runs one task and nothing else, and stops where a stage raises; `run --reload` begins anew."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onceward import App, Status
from tests.cli.conftest import Ask

SHOP = """
from onceward import App, Context, Filtered, Payload, Pipeline

class Order(Payload, kind="order"):
    number: int
    note: str = ""

class Mail(Payload, kind="mail"):
    to: str

order, mail = Pipeline(Order), Pipeline(Mail)

@order.stage
def price(ctx: Context[Order]) -> int:
    return ctx.payload.number * 10

@order.stage(isolate="process", timeout="1ms")
def ship(ctx: Context[Order]) -> dict[str, int]:
    if ctx.payload.number == 13:
        reason = "unlucky"
        raise KeyError(reason)
    if ctx.payload.number == 14:
        raise Filtered("too many")
    ctx.spawn(Mail(f"customer {ctx.payload.number}"))
    return {"shipped": ctx.result(price)}

@mail.stage
async def send(ctx: Context[Mail]) -> None: ...

app = App("URL", [order, mail])
"""


@pytest.fixture
def place(app: App, tmp_path: Path) -> str:
    """The app in a file, on a database of one or the other kind."""
    path = tmp_path / "shop_to_try.py"
    path.write_text(SHOP.replace("URL", app.url), encoding="utf-8")
    return f"{path}:app"


def outcomes(document: dict[str, object]) -> list[tuple[str, object, object, object]]:
    return [(one["stage"], one["result"], one["verdict"], one["error"]) for one in document["stages"]]  # type: ignore[attr-defined, index]


@pytest.mark.parametrize("text", ["Order(7)", "Order(number=7, note='x')", '{"kind": "order", "number": 7}'])
def test_one_task_is_tried_with_its_children_on_a_database_of_its_own(
    ask: Ask, place: str, app: App, text: str
) -> None:
    done = ask("try", place, text, "--json")
    assert done.code == 0, done
    assert done.document["status"] == "succeeded"
    assert outcomes(done.document) == [
        ("price", 70, None, None), ("ship", {"shipped": 70}, None, None), ("send", None, None, None),
    ]  # fmt: skip
    assert app.tasks.list() == []


def test_on_the_real_database_a_trial_runs_nothing_else(ask: Ask, place: str, app: App) -> None:
    before = len(app.tasks.list())
    assert ask("try", place, "Order(7)").code == 0
    done = ask("try", place, "Order(7)", "--real")
    assert done.code == 0, done
    assert "order.ship" in done.out
    assert '{"shipped": 70}' in done.out
    assert len(app.tasks.list()) == before + 2
    assert {task.status for task in app.tasks.list()} == {Status.SUCCEEDED}


def test_an_error_of_a_stage_ends_the_trial_with_its_traceback_and_leaves_nothing_open(
    ask: Ask, place: str, app: App
) -> None:
    done = ask("try", place, "Order(13)", "--real")
    assert done.code == 1
    assert "raised KeyError: 'unlucky'" in done.out
    assert "in ship" in done.err
    assert "onceward/worker" not in done.err, "the frames of the engine are left out"
    assert [task.status for task in app.tasks.list()] == [Status.CANCELLED]


def test_a_verdict_is_shown(ask: Ask, place: str) -> None:
    done = ask("try", place, "Order(14)")
    assert (done.code, "Filtered: too many" in done.out, "filtered" in done.out) == (0, True, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Ordr(7)", "there is no payload 'Ordr' here; there are: Order, Mail"),
        ("Order('x')", "it is no Order: Expected `int`, got `str`"),
        ("Order(1, 'a', 2)", "Order has 2 fields, and 3 values are given"),
        ("Order(__import__('os').getpid())", "cannot be read"),
        ("7", "names no task"),
        ('{"number": 7}', "which kind?"),
        ('{"number": ', "that is no JSON"),
        ('{"kind": "nothing"}', "nothing"),
    ],
)
def test_what_means_no_task_is_refused_in_words(ask: Ask, place: str, text: str, says: str) -> None:
    done = ask("try", place, text)
    assert done.code == 2, done
    assert says in done.err


def test_on_a_terminal_a_trial_stops_in_the_debugger_where_the_stage_stands(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP.replace("URL", "sqlite:///shop.db"), encoding="utf-8")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "onceward", "try", "shop:app", "Order(13)"])
    try:
        until(terminal, "(Pdb)")
        os.write(terminal, b"p 'reason is ' + reason\n")
        said = until(terminal, "reason is unlucky")
        assert "reason is unlucky" in said
        os.write(terminal, b"q\n")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 1
    finally:
        os.close(terminal)


def until(terminal: int, text: str) -> str:
    """All that a terminal shows until a text is there."""
    said, deadline = "", time.monotonic() + 60
    while text not in said:
        assert time.monotonic() < deadline, said
        if select.select([terminal], [], [], 1)[0]:
            said += os.read(terminal, 65_536).decode(errors="replace")
    return said


def test_a_worker_for_development_begins_anew_when_the_source_changes(tmp_path: Path) -> None:
    source = tmp_path / "shop.py"
    source.write_text(SHOP.replace("URL", "sqlite:///shop.db"), encoding="utf-8")
    command = [sys.executable, "-m", "onceward", "run", "shop:app", "--reload", "--processes", "0"]
    with App(f"sqlite:///{tmp_path / 'shop.db'}") as app, (tmp_path / "log").open("wb") as log:
        app.prepare()
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log)
        try:
            first = name_of_worker(app, without="")
            source.write_text(SHOP.replace("URL", "sqlite:///shop.db") + "raise ValueError('half written')\n")
            deadline = time.monotonic() + 60
            while "begins anew when a file changes" not in (tmp_path / "log").read_text():
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()
                time.sleep(0.05)
            source.write_text(SHOP.replace("URL", "sqlite:///shop.db") + "# whole\n")
            assert name_of_worker(app, without=first)
        finally:
            process.terminate()
            assert process.wait(60) == 0
        assert app.workers.list() == [], "the worker has ended with the one that watches the source"
    assert json.dumps((tmp_path / "log").read_text()).count("the source has changed") == 2


def name_of_worker(app: App, *, without: str) -> str:
    deadline = time.monotonic() + 60
    while True:
        for worker in app.workers.list():
            if worker.name != without:
                return str(worker.name)
        assert time.monotonic() < deadline
        time.sleep(0.05)
