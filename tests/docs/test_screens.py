"""The screens of docs/how-to/operate.md are what its app shows today on a terminal of 80 columns."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.test_narrow_terminals import COLUMNS, printed_on_a_terminal

PAGE = Path(__file__).parents[2] / "docs/how-to/operate.md"
TEXT = PAGE.read_text(encoding="utf-8")
SCREENS = dict(re.findall(r"<!-- screen: (.*?) -->\n```\n(.*?)```", TEXT, re.DOTALL))
SLOW = "import pathlib, time\n    pathlib.Path('began').touch()\n    time.sleep(3)\n    return 1"
CHANGES = (  # what differs from run to run, and the folder
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "DAY"),
    (r"\d\d:\d\d:\d\d(\.\d+)?", "TIME"),
    (r"[0-9a-f-]{36}", "LINEAGE"),
    (r"(transactions|commits|after_s)=[\d.]+", r"\1=N"),
)


def essence(text: str) -> str:
    """A screen without its line breaks, spaces, times and ids."""
    joined = "".join(text.replace("/srv/shop/", "").split())
    for pattern, word in CHANGES:
        joined = re.sub(pattern.replace(" ", ""), word, joined)
    return joined


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The app of the page, in a folder of its own, and its two tasks."""
    found = re.search(r"```python\n(# shop\.py\n.*?)```", TEXT, re.DOTALL)
    assert found is not None
    (tmp_path / "shop.py").write_text(found[1], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    enqueue(12, 13)
    return tmp_path


def enqueue(*numbers: int) -> None:
    code = f"from shop import Order, app; app.enqueue_many([Order(number) for number in {numbers}])"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def changed(shop: Path, old: str, new: str) -> None:
    text = (shop / "shop.py").read_text(encoding="utf-8")
    assert old in text
    (shop / "shop.py").write_text(text.replace(old, new), encoding="utf-8")


def run() -> str:
    """The log of a run until idle."""
    command = [sys.executable, "-m", "onceward", "run", "shop:app", "--until-idle", "--name", "shop-1"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr


def shows(screen: str, printed: str, folder: Path) -> None:
    """Fail if a screen is not a part of what was printed; `...` stands for anything."""
    seen = essence(printed.replace(f"{folder}/", ""))
    for piece in SCREENS[screen].split("...\n"):
        before, found, seen = seen.partition(essence(piece))
        assert found, f"{screen}: {essence(piece)}\nis not in\n{before}"


def test_no_screen_is_wider_than_the_terminal() -> None:
    assert len(SCREENS) == 7
    lines = [line.removeprefix("^C") for text in SCREENS.values() for line in text.splitlines()]
    assert [line for line in lines if len(line) > COLUMNS] == []


def test_a_failing_stage_and_a_parked_task_look_as_the_page_shows_them(shop: Path) -> None:
    log = run()
    shows("fails", log, shop)
    shows("task 2", "\n".join(printed_on_a_terminal("task", "2", "--app", "shop:app")), shop)
    subprocess.run(
        [sys.executable, "-m", "onceward", "signal", "1", "approved", "true", "--app", "shop:app"],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    changed(shop, "    number: int\n", "    number: int\n    customer: str\n")
    shows("parks", run(), shop)
    for command in ("status", "why 1"):
        shows(command, "\n".join(printed_on_a_terminal(*command.split(), "--db", "sqlite:///shop.db")), shop)


def test_a_stop_by_ctrl_c_looks_as_the_page_shows_it(shop: Path) -> None:
    run()
    changed(shop, "return ctx.payload.number * 100", SLOW)
    changed(shop, "@order.stage\ndef charge", "def charge")
    enqueue(14)
    command = [sys.executable, "-m", "onceward", "run", "shop:app"]
    with (shop / "log").open("wb") as log, subprocess.Popen(command, stderr=log, start_new_session=True) as process:
        until(lambda: (shop / "began").exists())
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(60) == 0
    shows("stops", "^C" + (shop / "log").read_text().partition("queues=default\n")[2], shop)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
