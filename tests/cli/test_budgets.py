"""What `onceward budgets` shows and does, on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onceward import App, Status
from tests.cli import oracle
from tests.cli.conftest import Ask


@pytest.fixture
def spent(url: str) -> Iterator[App]:
    """Five questions, and money for two of them."""
    made = oracle.app.on(url)
    made.enqueue_many([oracle.Question(number) for number in range(5)])
    made.run(until_idle=True)
    yield made
    made.close()


def test_budgets_shows_what_is_spent_and_who_waits(spent: App, ask: Ask) -> None:
    [found] = ask("budgets", "--json", "--db", spent.url).document["budgets"]
    assert found.pop("window_at") < found.pop("resets_at")
    assert found == {
        "name": "model-usd", "scope": "", "unit": "usd", "per": "day", "limit": 0.05, "spent": 0.04, "reserved": 0.0,
        "held": 0.0, "left": 0.01, "waiting": 3, "closed": False,
    }  # fmt: skip
    header, line = ask("budgets", "--db", spent.url).out.splitlines()
    assert header.split()[:7] == ["name", "for", "unit", "limit", "spent", "reserved", "left"]
    assert line.split()[:8] == ["model-usd", "the", "app", "usd", "0.05", "0.04", "0", "0.01"]
    waiting = spent.tasks.list(status="waiting")[0]
    assert "waits for budget model-usd" in ask("why", waiting.id, "--db", spent.url).out
    assert "waits for budget model-usd" in ask("lineage", waiting.id, "--db", spent.url).out


def test_budgets_lists_what_tasks_hold_beyond_their_stages(url: str, ask: Ask) -> None:
    with oracle.app.on(url) as app:
        tasks = app.enqueue_many([oracle.Night(1), oracle.Night(2)])
        app.run(until_idle=True)
    answer = ask("budgets", "savings", "--json", "--db", url).document
    assert (answer["budgets"][0]["held"], answer["budgets"][0]["waiting"]) == (3.0, 1)
    holds = answer["holds"]
    assert {(one["task"], one["name"], one["amount"]) for one in holds} == {(one.id, "batch", 3.0) for one in tasks}
    assert sorted(one["state"] for one in holds) == ["held", "waiting"]
    lines = ask("budgets", "savings", "--db", url).out.splitlines()
    assert lines[-3].split() == ["held", "as", "by", "task", "kind", "budget", "amount", "state", "since"]
    assert sorted(line.split()[5] for line in lines[-2:]) == ["held", "waiting"]


def test_a_new_limit_wakes_those_who_wait(spent: App, ask: Ask) -> None:
    answer = ask("budgets", "model-usd", "--limit", "0.10", "--author", "ada", "--json", "--db", spent.url)
    assert (answer.code, answer.document["budgets"][0]["limit"]) == (0, 0.1)
    spent.run(until_idle=True)
    assert spent.stats.counts()[Status.SUCCEEDED] == 5
    task = ask("task", spent.tasks.list()[0].id, "--json", "--db", spent.url).document
    assert task["cost_usd"] == 0.02
    assert ask("lineage", spent.tasks.list()[0].id, "--json", "--db", spent.url).document["cost_usd"] == 0.02
    rows = spent.read(lambda connection: connection.execute("SELECT author FROM onceward_budget_limit").fetchall())
    assert [tuple(row) for row in rows] == [("ada",)]


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("eur",), 1, "there is no budget 'eur'"),
        (("eur", "--limit", "5"), 1, "there is no budget 'eur'"),
        (("model-usd", "--limit", "lots"), 2, "it is a number"),
        (("model-usd", "--limit=-5"), 2, "not below zero"),
        (("--limit", "5"), 2, "give its name"),
        (("model-usd", "--author", "ada"), 2, "give --limit"),
        (("lineage", "--limit", "5"), 2, "of which lineage"),
    ],
)
def test_what_cannot_be_meant_is_said(spent: App, ask: Ask, arguments: tuple[str, ...], code: int, why: str) -> None:
    answer = ask("budgets", *arguments, "--db", spent.url)
    assert (answer.code, why in answer.err) == (code, True), answer.err


def test_no_budget_is_an_answer(app: App, ask: Ask) -> None:
    assert ask("budgets", "--db", app.url).out == "no budget was drawn from yet\n"
