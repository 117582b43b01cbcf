"""The overview of an hour of crawling: whether work is done, what needs a person, and the buttons beside it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest
from msgspec import structs

from onceward import App
from onceward.operations.sources import SourceState
from onceward.web.facts import facts_of
from onceward.web.health import health
from onceward.web.roles import Role
from tests.web import demo
from tests.web.conftest import Client, client_of


@pytest.fixture
def app(store_url: str, caplog: pytest.LogCaptureFixture) -> Iterator[App]:
    caplog.set_level(logging.CRITICAL, "onceward")
    made = demo.seeded(store_url, minutes=14, limit="0.60")
    yield made
    made.close()


@pytest.fixture
def client(app: App, runner: asyncio.Runner) -> Client:
    return client_of(app, runner)


def test_it_says_first_what_stands_still_and_with_which_command_that_ends(app: App, client: Client) -> None:
    text = client.get("/").text
    main = text.partition("<main")[2]
    assert main.index("<h1>No worker is alive</h1>") < main.index("Needs you") < main.index("No worker is alive.")
    assert main.index("Budget model-usd is all but spent.") < main.index("wait for your approval")
    assert "onceward budgets model-usd --limit" in main
    assert "onceward tasks --filter waiting:signal:approved" in main
    assert "style=" not in text
    assert "javascript:" not in text


def test_its_figures_are_those_of_the_app(app: App, client: Client) -> None:
    text = client.get("/").text
    hour, counts = app.stats.hour(), app.stats.counts()
    assert f"{hour.ended:,} in the last hour" in text or f"{hour.ended:,} since" in text
    assert f"{sum(counts.values()):,} in all" in text
    assert f"{hour.cost:,.2f}" in text
    assert str(hour.lineages[0].lineage) in text


def test_the_limit_of_a_spent_budget_is_raised_in_place(app: App, client: Client) -> None:
    waiting = next(one.waiting for one in app.budgets.list("model-usd"))
    assert waiting
    client.form("/overview/limit", {"name": "model-usd", "scope": "", "limit": "100"})
    [budget] = app.budgets.list("model-usd")
    assert (budget.limit, budget.waiting) == (100, 0)


def test_a_role_below_admin_raises_no_limit(app: App, runner: asyncio.Runner) -> None:
    answer = client_of(app, runner, Role.OPERATOR).form("/overview/limit", {"name": "model-usd", "limit": "100"})
    assert answer.status == 403
    assert next(one.limit for one in app.budgets.list("model-usd")) != 100


def test_everything_is_paused_and_resumed_by_a_button(app: App, client: Client) -> None:
    client.form("/overview/pause", {})
    assert [(one.scope, one.author) for one in app.workers.pauses()] == [("everything", "local")]
    facts_of(app).facts._stale_at = 0
    text = client.get("/").text
    assert "Everything is paused" in text
    assert "onceward resume --everything" in text
    client.form("/overview/resume", {"scope": "everything"})
    assert app.workers.pauses() == []
    assert client.form("/overview/resume", {"scope": "nonsense"}).status == 400


def test_a_disabled_source_is_opened_by_a_button(app: App, client: Client) -> None:
    source = app.sources.list()[0].name
    app.sources.disable(source)
    text = client.get("/").text
    assert f"Source {source} is disabled." in text
    client.form("/overview/enable", {"source": source})
    assert app.sources.get(source)[0].state is SourceState.OPEN


def test_an_app_without_work_needs_nobody(store_url: str, runner: asyncio.Runner) -> None:
    with demo.app.on(store_url) as empty:
        text = client_of(empty, runner).get("/").text
    assert "There is nothing to do" in text
    assert "Nothing needs you" in text
    assert "Nothing has cost anything" in text


def test_a_database_alone_has_an_overview_too(app: App, runner: asyncio.Runner) -> None:
    with App(app.url) as bare:
        assert "no code here to say what bounds it" in client_of(bare, runner).get("/").text


def test_open_pages_share_what_is_read(app: App, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = app.stats.hour
    monkeypatch.setattr(app.stats, "hour", lambda: asked.append(1) or real())
    for _ in range(5):
        assert client.get("/").status == 200
    assert len(asked) == 1


@pytest.mark.parametrize("ready", [False, True])
def test_no_work_is_said_to_be_done_where_no_worker_is_left(app: App, ready: bool) -> None:
    app.enqueue(demo.Site("https://lantern-row.example/now"))
    known = facts_of(app)._read()
    lines = [line for line in known.standing.backlog.ready if ready]
    backlog = structs.replace(known.standing.backlog, ready=lines)
    standing = structs.replace(known.standing, workers=[], backlog=backlog)
    found = health(replace(known, hour=replace(known.hour, claims=7), pauses=[], standing=standing))
    assert found.headline == ("No worker is alive" if ready else "There is nothing to do")
    assert "7 claims in the last minute" in found.text
