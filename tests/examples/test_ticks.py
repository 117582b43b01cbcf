"""The examples of ticks do what they say: the line for cron, the units for systemd, the receiver, the handler."""

from __future__ import annotations

import configparser
import importlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import boto3
import pytest
from botocore.stub import Stubber
from cronsim import CronSim

from onceward import App, HttpTrigger, NextTick, Status
from onceward.support import http_post
from tests.nursery import nursery

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "ticks"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder like /srv/shop, with work for it."""
    for file in FOLDER.glob("*.py"):
        (tmp_path / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    code = "from tasks import Mail, app; app.enqueue_many([Mail(f'{number}') for number in range(7)])"
    assert nursery().start(["python", "-c", code], folder=tmp_path, environment=environment()).wait(60) == 0
    return tmp_path


def environment() -> dict[str, str]:
    """Without a database of somebody else's, and with the commands of this environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**{name: value for name, value in os.environ.items() if name != "SHOP_DATABASE"}, "PATH": path}


def reported(command: list[str], folder: Path) -> dict[str, Any]:
    """What the command of an example says, run here instead of in /srv/shop."""
    assert command[0].endswith(".venv/bin/onceward")
    done = subprocess.run(
        [sys.executable, "-m", "onceward", *command[1:]], cwd=folder, env=environment(), check=True, capture_output=True
    )
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def test_the_line_for_cron(place: Path) -> None:
    line = (FOLDER / "crontab").read_text(encoding="utf-8").splitlines()[-1]
    *fields, command = line.split(None, 5)
    times = CronSim(" ".join(fields), datetime(2026, 1, 1, tzinfo=UTC))
    first, second = next(times), next(times)
    assert second - first == timedelta(minutes=5)
    folder, tick = re.fullmatch(r"cd (\S+) && (.*?) >> tick.jsonl 2>> tick.log", command).groups()  # type: ignore[union-attr]
    assert folder == "/srv/shop"
    report = reported(shlex.split(tick), place)
    assert (report["tasks"], report["ended"]) == (7, "idle")


def test_the_units_for_systemd(place: Path) -> None:
    service, timer = (unit(name) for name in ("shop-tick.service", "shop-tick.timer"))
    assert service["Service"]["Type"] == "oneshot"
    assert timer["Timer"]["OnCalendar"] == "*:0/5"
    command = shlex.split(service["Service"]["ExecStart"])
    limit_s = float(command[command.index("--time-limit") + 1])
    assert float(service["Service"]["TimeoutStartSec"]) > limit_s, "systemd must not end it before it does so itself"
    assert service["Service"]["KillMode"] == "process", "or what it triggers would be killed with it"
    assert reported(command, place)["tasks"] == 7


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.optionxform = str  # type: ignore[assignment, method-assign]
    found.read(FOLDER / name)
    return found


class Remaining:
    """The context that Lambda gives to a handler."""

    def __init__(self, ms: int) -> None:
        self._ms = ms

    def get_remaining_time_in_millis(self) -> int:
        return self._ms


@pytest.fixture
def handler(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of the handler, as Lambda imports it."""
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite:///{place / 'shop.db'}")
    monkeypatch.syspath_prepend(place)
    for name in ("tasks", "lambda_handler"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("lambda_handler")
    sys.modules.pop("tasks").app.close()
    sys.modules.pop("lambda_handler")


def test_the_handler_for_lambda(handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "shop-tick")
    client = boto3.client("lambda", region_name="eu-central-1", aws_access_key_id="x", aws_secret_access_key="x")
    monkeypatch.setattr(boto3, "client", lambda name: client)
    sent = {"app": "tasks:app", "max_tasks": 3, "time_limit_s": 600.0, "chain": 2, "chain_left": 1}
    expected = {"FunctionName": "shop-tick", "InvocationType": "Event", "Payload": json.dumps(sent).encode()}
    with Stubber(client) as stubber:
        stubber.add_response("invoke", {"StatusCode": 202}, expected)
        first = handler.handler({"max_tasks": 3}, Remaining(660_000))
        assert (first["tasks"], first["triggered"]) == (3, True)
    second = handler.handler({**sent, "max_tasks": 10}, Remaining(660_000))
    assert (second["chain"], second["tasks"], second["ended"]) == (1, 4, "idle")
    json.dumps(second)
    assert handler.app.stats.counts()[Status.SUCCEEDED] == 7


def test_the_handler_heeds_what_lambda_leaves_it(handler: Any) -> None:
    with pytest.raises(Exception, match="longer than a tick of 30s"):
        handler.handler({}, Remaining(60_000))


def test_the_handler_takes_no_more_than_its_own_bounds_and_nothing_over_a_url(handler: Any) -> None:
    assert handler.handler({"requestContext": {"http": {}}, "max_tasks": 3}, Remaining(660_000)) == {"statusCode": 403}
    assert handler.app.stats.counts()[Status.SUCCEEDED] == 0
    report = handler.handler({"max_tasks": 10**9, "chain": 99, "chain_left": 2}, Remaining(660_000))
    assert (report["tasks"], report["chain_left"]) == (7, 2)


TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def receiver(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of the receiver, with one tick that it may start."""
    monkeypatch.setenv("ONCEWARD_TICK_TOKEN", TOKEN)
    monkeypatch.setenv("SHOP_DATABASE", f"sqlite:///{place / 'shop.db'}")
    monkeypatch.syspath_prepend(place)
    monkeypatch.chdir(place)
    module = importlib.import_module("http_receiver")
    server = module.HTTPServer(("127.0.0.1", 0), module.Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()
    if module.Receiver.running is not None:
        module.Receiver.running.wait(60)
    sys.modules.pop("http_receiver")


def test_the_receiver_starts_a_tick_for_a_caller_with_the_token(place: Path, receiver: str) -> None:
    asked = NextTick("elsewhere:app", 10**9, 9_999.0, 99, 50)
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}):
        with pytest.raises(HTTPError, match="401"):
            HttpTrigger(receiver, headers=headers)(asked)
    right = {"Authorization": f"Bearer {TOKEN}"}
    with pytest.raises(HTTPError, match="400"):
        http_post.post(receiver, {"max_tasks": "many"}, right, time_limit_s=10)
    assert done(place) == 0
    HttpTrigger(receiver, headers=right)(asked)
    assert sys.modules["http_receiver"].Receiver.running.wait(60) == 0
    assert done(place) == 7
    command = sys.modules["http_receiver"].command_of(asked.document)
    assert command[command.index("tick") + 1 :] == [
        "tasks:app", "--max-tasks", "1000", "--time-limit", "600", "--chain", "2", "--chain-left", "2",
    ]  # fmt: skip


def done(place: Path) -> int:
    with App(f"sqlite:///{place / 'shop.db'}") as app:
        return app.stats.counts()[Status.SUCCEEDED]
