"""What `onceward schedules` shows and does, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward import App, Cron
from tests.cli import shop
from tests.cli.conftest import Ask

NIGHTLY = """
from onceward import App, Cron
from tests.cli.shop import Order, order
app = App({url!r}, [order], schedules=[Cron("30 2 * * *", Order("stock"), tz="Europe/Berlin", name="nightly")])
"""


@pytest.fixture
def planned(url: str) -> Iterator[App]:
    """The shop with a schedule, after a worker has been there."""
    cron = Cron("30 2 * * *", shop.Order("stock"), tz="Europe/Berlin", name="nightly")
    with App(url, [shop.order], schedules=[cron]) as made:
        made.run(until_idle=True)
        yield made


@pytest.fixture
def app_file(url: str, tmp_path: Path) -> Path:
    file = tmp_path / "nightly.py"
    file.write_text(NIGHTLY.format(url=url))
    return file


def test_schedules_lists_them_with_their_next_time(planned: App, ask: Ask) -> None:
    [found] = ask("schedules", "--json", "--db", planned.url).document["schedules"]
    next_at = planned.schedules.list()[0].next_at
    assert found == {
        "name": "nightly", "kind": "order", "expression": "30 2 * * *", "tz": "Europe/Berlin", "missed": "once",
        "next_at": next_at.isoformat(timespec="milliseconds"), "last_at": None,
        "last_task": None, "fired": 0, "paused": False,
    }  # fmt: skip
    header, line = ask("schedules", "--db", planned.url).out.splitlines()
    assert header.split() == ["name", "kind", "times", "tz", "missed", "next", "last", "task", "fired"]
    assert line.split()[:9] == ["nightly", "order", "30", "2", "*", "*", "*", "Europe/Berlin", "once"]


def test_schedules_are_paused_and_resumed_by_name_without_the_code(planned: App, ask: Ask) -> None:
    assert ask("schedules", "--pause", "nightly", "--db", planned.url).out == "paused nightly\n"
    assert "paused" in ask("schedules", "--db", planned.url).out
    assert planned.schedules.list()[0].paused
    assert ask("schedules", "--resume", "nightly", "--json", "--db", planned.url).document == {"resumed": "nightly"}
    assert not planned.schedules.list()[0].paused
    answer = ask("schedules", "--pause", "daily", "--db", planned.url)
    assert (answer.code, "there is no schedule 'daily'" in answer.err) == (1, True)


def test_run_now_needs_the_code_and_enqueues(planned: App, app_file: Path, ask: Ask) -> None:
    answer = ask("schedules", "--run-now", "nightly", "--db", planned.url)
    assert (answer.code, "give --app" in answer.err) == (2, True)
    done = ask("schedules", "--run-now", "nightly", "--json", "--app", f"{app_file}:app").document
    [task] = planned.tasks.list()
    assert done == {"schedule": "nightly", "task": task.id, "created": True, "reason": None}
    assert task.scheduled_at == task.created_at
    shown = ask("task", task.id, "--json", "--db", planned.url).document
    assert shown["scheduled_at"] == shown["created_at"]
    assert ask("schedules", "--run-now", "daily", "--app", f"{app_file}:app").code == 2


def test_schedules_does_one_thing_at_a_time_and_says_when_there_is_none(app: App, ask: Ask) -> None:
    assert ask("schedules", "--db", app.url).out == "no schedule\n"
    assert ask("schedules", "--pause", "a", "--resume", "b", "--db", app.url).code == 2
