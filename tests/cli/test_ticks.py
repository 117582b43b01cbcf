"""`onceward tick`, as cron starts it; chains and kills of real processes are tried among the faults."""

from __future__ import annotations

import pytest

from onceward import App, Status
from tests.cli import shop
from tests.cli.conftest import Ask


def test_a_tick_works_and_stdout_is_one_document(app: App, command: Ask) -> None:
    app.enqueue_many([shop.Order(f"thing {number}") for number in range(5)])
    answer = command("tick", "tests.cli.shop:app", "--max-tasks", 4, "--trigger", "none", SHOP_DB=app.url)
    assert answer.code == 0, answer.err
    report = answer.document
    assert (report["tasks"], report["outcomes"], report["ended"]) == (4, {"succeeded": 4}, "max tasks")
    assert (report["work_left"], report["triggered"]) == (True, False)
    assert "a stage prints what it likes" in answer.err
    assert app.stats.counts()[Status.SUCCEEDED] == 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--max-tasks", 0), "max-tasks"),
        (("--time-limit", 0), "time-limit"),
        (("--chain", 1, "--chain-left", 2), "chain_left=2 is more than chain=1"),
        (("--trigger", "pigeon"), "is no address for a trigger"),
        (("--queues", "nowhere"), "no stage uses the queue nowhere"),
    ],
)
def test_what_cannot_be_meant_is_refused(command: Ask, options: tuple[object, ...], says: str) -> None:
    answer = command("tick", "tests.cli.shop:app", *options, SHOP_DB="sqlite:///:memory:")
    assert (answer.code, says in answer.err) == (2, True)
