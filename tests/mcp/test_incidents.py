"""Why does nothing run? In five incidents an assistant knows after at most three calls, led by the answers alone."""

from __future__ import annotations

import json
import re

import pytest

from onceward import App
from tests.mcp import old_plant, plant
from tests.mcp.conftest import Assistant, have_worker, talk

MOST_CALLS = 3


def all_paused(app: App) -> None:
    app.enqueue_many([plant.Order(f"item {number}") for number in range(3)])
    app.workers.pause(author="ann")
    have_worker(app)


def budget_spent(app: App) -> None:
    app.enqueue_many([plant.Question(f"why {number}?") for number in range(3)])
    app.run(until_idle=True)
    have_worker(app)


def source_disabled(app: App) -> None:
    app.sources.disable("web")
    app.enqueue_many([plant.Page(f"https://example.com/{number}") for number in range(3)])
    app.run(until_idle=True)
    have_worker(app)


def no_worker(app: App) -> None:
    app.enqueue_many([plant.Order(f"item {number}") for number in range(3)])


def old_data(app: App) -> None:
    with App(app.url, pipelines=[old_plant.doc]) as before:
        before.enqueue(old_plant.Doc("https://example.com"))
    app.run(until_idle=True)
    have_worker(app)


INCIDENTS = {
    "everything is paused": (
        all_paused,
        r"everything is paused since .* by <stored>ann</stored>",
        "resume --everything",
    ),
    "a budget is spent": (
        budget_spent,
        r"budget <stored>model-usd</stored> has 0\.02 of 0\.05 .* left; tasks that wait for it: 2",
        "onceward budgets model-usd --limit 0.07",
    ),
    "a source is disabled": (
        source_disabled,
        r"source <stored>web</stored> is disabled.*tasks in line for it: 3",
        "onceward source web --enable",
    ),
    "no worker is alive": (no_worker, r"no worker is alive; open tasks: 3", "onceward run APP"),
    "code that does not fit": (
        old_data,
        r"tasks parked: 1; what is stored of them does not fit the code",
        "onceward run APP",
    ),
}


@pytest.mark.parametrize("incident", INCIDENTS)
def test_an_assistant_knows_after_three_calls_why_nothing_runs(incident: str, app: App) -> None:
    stage, says, command = INCIDENTS[incident]
    stage(app)

    async def ask(assistant: Assistant) -> None:
        heard = told = await assistant.call("status")
        first = re.search(r"^1\. (.*)", heard, re.M)
        assert first is not None, heard
        assert re.search(says, first[1]), heard
        while (led := re.search(r"^   next: (\w+) (\{.*\})$", heard, re.M)) and assistant.calls < MOST_CALLS:
            heard = await assistant.call(led[1], **json.loads(led[2]))
            told += heard
            assert not assistant.is_error, heard
        assert command in told, "what takes it away"
        assert assistant.calls <= MOST_CALLS

    talk(app.url)(ask)


def test_work_that_runs_is_held_back_by_nothing(app: App) -> None:
    app.enqueue(plant.Order("one"))
    app.run(until_idle=True)
    have_worker(app)

    async def ask(assistant: Assistant) -> None:
        assert "Nothing holds work back." in await assistant.call("status")

    talk(app.url)(ask)


def test_a_kind_that_no_worker_takes_is_named(app: App) -> None:
    app.enqueue(plant.Order("one"))
    have_worker(app, kinds="page")

    async def ask(assistant: Assistant) -> None:
        heard = await assistant.call("status")
        assert "no living worker takes kind <stored>order</stored>" in heard

    talk(app.url)(ask)
