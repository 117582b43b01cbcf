"""The pages of batches, sources, budgets, schedules, workers, alerts, settings and the store, on both databases."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from decimal import Decimal
from html import unescape
from urllib.parse import unquote

import pytest

from onceward import App, Limits, SourceState
from onceward.testing import Harness
from onceward.web.roles import Role
from tests.web import world
from tests.web.conftest import Client, client_of

PAGES = (
    "/lineages", "/batches", "/batches?status=open", "/sources", "/budgets", "/schedules", "/workers", "/alerts",
    "/settings", "/envelope", "/store", "/audit",
)  # fmt: skip


@pytest.fixture
def harness(store_url: str) -> Iterator[Harness]:
    """The world of the tests on an empty database, with a clock of its own."""
    harness = Harness(world.app, url=store_url, seed=3)
    world.clock = harness.clock
    yield harness
    world.clock = None
    harness.app.close()


@pytest.fixture
def site(harness: Harness, runner: asyncio.Runner) -> Client:
    return client_of(harness.app, runner)


def worked(harness: Harness) -> None:
    """Let some work be done, on a failing source too."""
    harness.enqueue(world.Scrape("now"), limits=Limits(max_depth=4, max_tasks=400, max_children=40, budget="0.90"))
    with harness.app.batch("night", then=world.Report("after night"), deadline="8h") as batch:
        for place in range(3):
            batch.add(world.Question(f"q{place}"))
        batch.add(world.Report("numbers of the quarter"))
    harness.drain(wait_for_due=False)
    harness.app.alerts.look()


def test_every_page_says_what_would_be_there_and_how_it_comes_to_be(store_url: str, runner: asyncio.Runner) -> None:
    with App(store_url) as app:
        site = client_of(app, runner)
        for path, said in {
            "/lineages": "No task has spawned another yet",
            "/batches": "There is no batch yet",
            "/batches?status=open": "No batch is open",
            "/sources": "No source has been used yet",
            "/budgets": "No budget is declared",
            "/schedules": "No schedule is declared",
            "/workers": "No worker is alive",
            "/alerts": "No rule finds anything now",
            "/settings?name=nothing-like-it": "No setting has this in its name",
            "/envelope": "This dashboard was started without your code",
            "/store": "onceward_task",
            "/audit": "Nothing has been changed from here",
        }.items():
            answer = site.get(path)
            assert (answer.status, said in answer.text) == (200, True), path


def test_every_page_shows_work_and_keeps_to_the_policy(harness: Harness, site: Client) -> None:
    worked(harness)
    for path in PAGES:
        answer = site.get(path)
        assert answer.status == 200, path
        assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?! src=)", answer.text), path
        assert len(answer.body) < 300_000, path


def test_a_batch_shows_how_far_it_is_and_what_follows(harness: Harness, site: Client) -> None:
    worked(harness)
    harness.advance("10m")
    text = site.get("/batches?status=open").text
    assert "night" in text
    assert re.search(r'3 <span class="quiet">of 4', text)
    assert re.search(r"<td class=\"num\">\dm\d\ds</td>", text)
    assert site.get("/batches?status=odd").status == 400


def test_a_database_alone_says_nothing_about_code_that_it_does_not_know(
    harness: Harness, site: Client, runner: asyncio.Runner
) -> None:
    worked(harness)
    with App(harness.app.url) as bare:
        alone = client_of(bare, runner)
        assert "not in the code of this app" not in alone.get("/sources").text
        envelope = alone.get("/envelope").text
    assert "started without your code" in envelope
    assert "unbounded" not in envelope
    assert "unbounded" in site.get("/envelope").text


def test_a_number_of_one_is_written_as_one(harness: Harness, site: Client) -> None:
    task = harness.enqueue(world.Report("numbers of the quarter"))
    text = site.get(f"/lineages/{harness.app.tasks.get(task).lineage}").text
    assert "Cancel 1 open task<" in text
    assert "Cancel 1 task<" in text
    assert "1 open tasks" not in text


def test_a_refused_form_leads_back_to_its_page_and_nowhere_else(site: Client) -> None:
    def refused(referer: str) -> str:
        return site.form("/budgets/limit", {"name": "model-usd", "limit": "much"}, {"referer": referer}).text

    assert '<a class="btn btn--primary" href="/budgets?name=a%22b">Back' in refused(
        "http://localhost/budgets?name=a%22b"
    )
    for elsewhere in ("", "https://evil.example/budgets", "http://localhost//evil.example", "javascript:alert(1)"):
        assert ">Back</a>" not in refused(elsewhere), elsewhere


def test_a_page_that_is_not_there_leads_to_the_overview(site: Client) -> None:
    answer = site.get("/nothing-like-it")
    assert answer.status == 404
    assert ">Overview</a>" in answer.text
    assert ">Sign in<" not in answer.text


def test_a_source_is_disabled_enabled_paused_and_resumed(harness: Harness, site: Client) -> None:
    worked(harness)

    def state(name: str) -> SourceState:
        return harness.app.sources.get(name)[0].state

    for word, expected in (
        ("disable", SourceState.DISABLED), ("enable", SourceState.OPEN),
        ("pause", SourceState.HELD), ("resume", SourceState.OPEN),
    ):  # fmt: skip
        answer = site.form(f"/sources/{word}", {"name": "model"})
        assert (answer.status, answer.header("location")) == (303, "/sources")
        assert state("model") is expected
    assert site.form("/sources/disable", {"name": "nowhere"}).status == 404
    assert "web/hedgerow-gate.example" in site.get("/sources?name=HEDGE").text
    assert "model" not in site.get("/sources?name=hedge").text.partition("<tbody>")[2].partition("</tbody>")[0]


def test_looks_note_how_sources_and_budgets_stood_for_a_day(harness: Harness, site: Client) -> None:
    app = harness.app
    worked(harness)
    harness.advance("5m")
    app.sources.disable("model")
    harness.enqueue(world.Question("one more"))
    app.alerts.look()
    points = app.sources.history()["model"]
    assert [point.state for point in points] == [SourceState.OPEN, SourceState.DISABLED]
    assert points[-1].calls >= points[0].calls > 0
    spent = app.budgets.history("model-usd")
    assert [point.limit for point in spent] == [Decimal(10), Decimal(10)]
    assert spent[-1].spent == next(one.spent for one in app.budgets.list("model-usd"))
    assert app.budgets.history("model") == []
    assert 'class="breaker__off"' in site.get("/sources").text
    assert 'class="chart__line"' in site.get("/budgets?name=model-usd").text
    harness.advance("25h")
    app.alerts.look()
    assert len(app.sources.history()["model"]) == 1


def test_a_budget_is_given_another_limit_by_an_admin_alone(harness: Harness, runner: asyncio.Runner) -> None:
    worked(harness)
    public = client_of(harness.app, runner, Role.NONE)
    operator = public.with_token(harness.app.tokens.add("ben", "operator"))
    admin = public.with_token(harness.app.tokens.add("ada", "admin"))
    assert operator.form("/budgets/limit", {"name": "model-usd", "limit": "20"}).status == 403
    answer = admin.form("/budgets/limit", {"name": "model-usd", "scope": "", "limit": "20"})
    assert (answer.status, answer.header("location")) == (303, "/budgets?name=model-usd&scope=")
    assert next(one.limit for one in harness.app.budgets.list("model-usd")) == 20
    [change] = harness.app.budgets.changes("model-usd")
    assert (change.limit, change.author) == (Decimal(20), "ada")
    assert "by ada" in admin.get("/budgets?name=model-usd").text
    assert admin.form("/budgets/limit", {"name": "model-usd", "limit": "much"}).status == 400
    assert admin.form("/budgets/limit", {"name": "none", "limit": "2"}).status == 404


def test_a_budget_of_a_lineage_is_told_apart(harness: Harness, site: Client) -> None:
    worked(harness)
    [one] = harness.app.budgets.list("lineage")
    assert f"lineage {one.scope}" in site.get(f"/budgets?name=lineage&scope={one.scope}").text


def test_a_schedule_runs_now_pauses_and_goes_on(harness: Harness, site: Client) -> None:
    app = harness.app
    assert "nightly" in site.get("/schedules").text
    before = sum(app.stats.counts().values())
    site.form("/schedules/run", {"name": "nightly"})
    assert sum(app.stats.counts().values()) == before + 1
    for word, is_paused in (("pause", True), ("resume", False)):
        site.form(f"/schedules/{word}", {"name": "nightly"})
        assert {one.name: one.paused for one in app.schedules.list()}["nightly"] is is_paused
    assert site.form("/schedules/run", {"name": "never"}).status == 400
    times = app.schedules._next_runs("nightly", 3)
    assert len(times) == 3
    assert times == sorted(set(times))
    assert app.schedules._next_runs("never") == []


def test_everything_a_pipeline_and_a_queue_are_paused_and_resumed(harness: Harness, site: Client) -> None:
    app = harness.app
    for fields, scope in (
        ({"what": "everything"}, "everything"),
        ({"what": "pipeline", "name": "job"}, "pipeline:job"),
        ({"what": "queue", "name": "default"}, "queue:default"),
    ):
        site.form("/workers/pause", fields)
        assert [one.scope for one in app.workers.pauses()] == [scope]
        assert "Resume" in site.get("/workers").text
        site.form("/workers/resume", fields)
        assert app.workers.pauses() == []
    assert site.form("/workers/pause", {"what": "pipeline", "name": "jb"}).status == 400
    assert site.form("/workers/pause", {"what": "planet", "name": "earth"}).status == 400


def test_alerts_are_looked_for_now(harness: Harness, site: Client) -> None:
    worked(harness)
    harness.app.sources.disable("model")
    answer = site.form("/alerts/look", {})
    assert answer.status == 303
    text = site.get("/alerts").text
    assert "source model is disabled" in text
    assert "onceward source NAME --enable" in text
    harness.app.sources.enable("model")
    site.form("/alerts/look", {})
    assert "Resolved" in site.get("/alerts").text


def test_a_setting_is_changed_and_taken_back_with_the_name_of_its_author(
    harness: Harness, runner: asyncio.Runner
) -> None:
    admin = client_of(harness.app, runner, Role.NONE).with_token(harness.app.tokens.add("ada", "admin"))
    assert admin.form("/settings/set", {"name": "match.min_score", "value": "0.9"}).status == 303
    assert harness.app.settings.get("match.min_score") == 0.9
    text = admin.get("/settings?name=match").text
    assert "ada, " in text
    assert "match.min_score is now 0.9" in text
    assert admin.form("/settings/set", {"name": "match.min_score", "value": "high"}).status == 400
    assert admin.form("/settings/set", {"name": "lease", "value": "1m"}).status == 400
    admin.form("/settings/unset", {"name": "match.min_score"})
    assert harness.app.settings.get("match.min_score") == 0.6
    assert [entry.action for entry in harness.app.audit.list()][:1] == ["POST /settings/unset"]


def test_a_viewer_sees_settings_and_changes_none(harness: Harness, runner: asyncio.Runner) -> None:
    viewer = client_of(harness.app, runner, Role.NONE).with_token(harness.app.tokens.add("eve", "viewer"))
    text = viewer.get("/settings").text
    assert "This needs the role admin" in text
    assert viewer.form("/settings/set", {"name": "match.min_score", "value": "0.9"}).status == 403
    assert viewer.get("/audit").status == 403
    assert viewer.form("/workers/pause", {"what": "everything"}).status == 403
    assert harness.app.workers.pauses() == []


def test_the_envelope_names_what_nothing_bounds(site: Client) -> None:
    text = site.get("/envelope").text
    assert "What nothing bounds" in text
    assert "unbounded" in text
    assert "one root makes at most 10,000 tasks, because of max_tasks" in text


def test_the_store_says_how_large_its_tables_are(harness: Harness, site: Client) -> None:
    worked(harness)
    health = harness.app.stats.store()
    rows = {table.name: table for table in health.facts.tables}
    assert {"onceward_task", "onceward_attempt", "onceward_claim", "onceward_refusal"} <= rows.keys()
    if harness.app.dialect == "sqlite":
        assert rows["onceward_task"].rows == sum(harness.app.stats.counts().values())
        assert rows["onceward_task"].sign == ""
        assert health.facts.free is not None
    else:
        assert rows["onceward_task"].sign == "≈"
        assert rows["onceward_task"].dead is not None
    assert (rows["onceward_task"].size or 0) > 0
    assert health.facts.size >= (rows["onceward_task"].size or 0)
    assert "Oldest lease" in site.get("/store").text


def test_a_page_of_the_audit_log_leads_to_the_next(harness: Harness, site: Client) -> None:
    for place in range(105):
        harness.app.audit.record(author="ada", role="admin", action="POST /x", target={"n": place}, note=world.HOSTILE)
    text = site.get("/audit").text
    older = re.search(r'rel="next" href="([^"]+)"', text)
    assert older is not None
    assert site.get(older[1]).text.count("<tr data-row>") == 5
    assert "<script>alert" not in text
    assert site.get("/audit?before=x").status == 400


def test_a_name_from_outside_stays_one_word_of_the_command_beside_it(site: Client) -> None:
    name = "web/a;touch $(x)"
    answer = site.form("/sources/pause", {"name": name})
    assert f"onceward pause --source '{name}'" in unquote(unquote(answer.header("set-cookie")))
    assert f"onceward resume --source '{name}'" in unescape(site.get("/workers").text)
