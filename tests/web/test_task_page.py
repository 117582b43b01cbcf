"""The page of a task, and what can be done there: nothing to a task that has changed since the page was shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from onceward import App, Budget, Context, Failed, Payload, Pipeline, Retry, Waiting
from onceward.model.status import Status
from onceward.testing import Harness
from onceward.web.roles import Role
from tests.web.conftest import Answer, Client, client_of

usd = Budget("model-usd", limit="0.05", per="total")
HOSTILE = "<script>alert(1)</script>\u202e{{ 7*7 }}'\""


class Job(Payload, kind="job"):
    name: str
    fate: str = "fine"

    def key(self) -> str:
        return self.name


job = Pipeline(Job, retry=Retry(retries=1, base="1ms"))


@job.stage
def read(ctx: Context[Job]) -> dict[str, str]:
    return {"read": ctx.payload.name}


@job.stage(budget=usd, estimate="0.04")
def judge(ctx: Context[Job]) -> str:
    ctx.charge(usd, 0)
    match ctx.payload.fate:
        case "broken":
            raise KeyError(ctx.payload.name)
        case "refused":
            raise Failed(f"nothing for {ctx.payload.name}")
        case "asks" if ctx.signal("approved") is None:
            raise Waiting(until="approved")
        case "listens" if ctx.signal("price") is None:
            raise Waiting(until="price")
        case "spends":
            ctx.charge(usd, "0.04")
        case "parent":
            ctx.spawn(Job(ctx.payload.name + " child"))
            ctx.spawn(Job(ctx.payload.name, fate="parent"))
    return "good"


@pytest.fixture
def harness(store_url: str) -> Iterator[Harness]:
    made = Harness(App(store_url, [job]), url=store_url)
    yield made
    made.app.close()


@pytest.fixture
def client(harness: Harness, runner: asyncio.Runner) -> Client:
    return client_of(harness.app, runner)


def ended(harness: Harness, name: str, fate: str = "fine") -> int:
    number = harness.enqueue(Job(name, fate)).id
    harness.drain()
    return number


def said(answer: Answer, client: Client) -> str:
    """What the next page says of an action."""
    assert answer.status == 303, answer.text
    cookie = answer.header("set-cookie").partition(";")[0]
    return client.get(answer.header("location"), {"cookie": cookie}).text


def test_a_failed_task_shows_why_first_its_stages_and_its_traceback(harness: Harness, client: Client) -> None:
    number = ended(harness, "one", "broken")
    page = client.get(f"/tasks/{number}")
    assert page.status == 200
    assert page.text.index("It has ended") < page.text.index('id="h-fall"')
    assert "Stages, over 3 attempts" in page.text
    assert "KeyError" in page.text
    assert "test_task_page.py" in page.text
    assert f"onceward retry {number}" in page.text
    assert "kept, not run again" in page.text
    assert f'href="/lineages/{harness.task(number).lineage}"' in page.text


def test_hostile_text_in_every_field_is_shown_as_text(harness: Harness, client: Client) -> None:
    for fate in ("broken", "refused", "parent"):
        number = ended(harness, HOSTILE + fate, fate)
        text = client.get(f"/tasks/{number}").text
        assert "<script>alert" not in text
        assert "49" not in text.partition("<main")[2].partition("alert(1)")[2][:40]
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_an_unknown_task_is_not_found(client: Client) -> None:
    answer = client.get("/tasks/4711")
    assert answer.status == 404
    assert "4711" in answer.text
    assert client.get("/tasks/99999999999999999999999").status == 404


def test_a_large_payload_is_cut_and_has_an_address_of_its_own(harness: Harness, client: Client) -> None:
    number = ended(harness, "x" * 300_000)
    page = client.get(f"/tasks/{number}")
    assert len(page.body) < 120_000
    assert f"/tasks/{number}/payload" in page.text
    whole = client.get(f"/tasks/{number}/payload")
    assert whole.header("content-type").startswith("text/plain")
    assert json.loads(whole.text)["name"] == "x" * 300_000
    stored = client.get(f"/tasks/{number}/stored?stage=read&part=")
    assert json.loads(stored.text) == {"read": "x" * 300_000}
    assert client.get(f"/tasks/{number}/stored?stage=none&part=").status == 404


@pytest.mark.parametrize(
    ("fields", "run", "kept"),
    [
        ({"how": "kept"}, 1, {"read": "one"}),
        ({"how": "stage", "stage": "read"}, 1, None),
        ({"how": "fresh"}, 2, None),
    ],
)
def test_a_task_is_retried_from_where_the_operator_says(
    harness: Harness, client: Client, fields: dict[str, str], run: int, kept: dict[str, str] | None
) -> None:
    number = ended(harness, "one", "refused")
    answer = client.form(f"/tasks/{number}/retry", {**fields, "seen": "1:failed"})
    assert f"onceward retry {number}" in said(answer, client)
    task = harness.task(number)
    assert (task.status, task.run) == (Status.PENDING, run)
    assert task.results.get("read") == (kept and {"read": "one"})
    [row] = harness.app.audit.list(limit=1)
    assert (row.outcome, row.count) == ("done", 1)


@pytest.mark.parametrize("action", ["retry", "cancel", "approve", "signal"])
@pytest.mark.parametrize("seen", ["1:running", "2:failed", "", "nonsense"])
def test_an_action_from_a_stale_page_changes_nothing_and_says_so(
    harness: Harness, client: Client, action: str, seen: str
) -> None:
    number = ended(harness, "one", "refused")
    before = harness.task(number)
    answer = client.form(f"/tasks/{number}/{action}", {"seen": seen, "name": "price", "how": "kept"})
    text = said(answer, client)
    assert "has changed since" in text
    assert "Nothing was done" in text
    assert harness.task(number) == before
    assert not [row for row in harness.app.audit.list(limit=5) if row.outcome == "done"]


def test_a_task_is_cancelled_with_a_reason_in_the_name_of_the_caller(harness: Harness, client: Client) -> None:
    number = harness.enqueue(Job("one")).id
    client.form(f"/tasks/{number}/cancel", {"seen": "1:pending", "reason": ""})
    task = harness.task(number)
    assert (task.status, task.reason) == (Status.CANCELLED, "cancelled by local")


def test_a_task_that_asks_is_approved_in_place(harness: Harness, client: Client) -> None:
    number = ended(harness, "one", "asks")
    text = client.get(f"/tasks/{number}").text
    assert "It waits for the signal" in text
    assert 'data-opens="approve"' in text
    said(client.form(f"/tasks/{number}/approve", {"seen": "1:waiting"}), client)
    harness.drain()
    assert harness.task(number).status is Status.SUCCEEDED


def test_a_signal_carries_a_value_in_json(harness: Harness, client: Client) -> None:
    number = ended(harness, "one", "listens")
    said(client.form(f"/tasks/{number}/signal", {"seen": "1:waiting", "name": "price", "value": "[1, 2]"}), client)
    harness.drain()
    assert harness.task(number).status is Status.SUCCEEDED


def test_the_budget_that_a_task_waits_for_is_raised_from_its_page(harness: Harness, client: Client) -> None:
    ended(harness, "one", "spends")
    number = ended(harness, "two")
    text = client.get(f"/tasks/{number}").text
    assert "It waits for budget model-usd" in text
    assert "onceward budgets model-usd --limit 0.08" in text
    said(client.form(f"/tasks/{number}/limit", {"limit": "1"}), client)
    harness.drain()
    assert harness.task(number).status is Status.SUCCEEDED
    again = client.form(f"/tasks/{number}/limit", {"limit": "2"})
    assert "no longer waits for a budget" in said(again, client)


def test_a_pause_that_holds_a_task_is_ended_from_its_page(harness: Harness, client: Client) -> None:
    number = harness.enqueue(Job("one")).id
    harness.app.workers.pause(pipeline="job")
    assert "Resume…" in client.get(f"/tasks/{number}").text
    said(client.form(f"/tasks/{number}/unblock", {"cause": "paused"}), client)
    assert harness.app.workers.pauses() == []
    again = client.form(f"/tasks/{number}/unblock", {"cause": "paused"})
    assert "Something else holds" in said(again, client)


def test_children_and_refusals_stand_beside_their_parent(harness: Harness, client: Client) -> None:
    number = ended(harness, "tree", "parent")
    text = client.get(f"/tasks/{number}").text
    assert "tree child" in text
    assert "and 1 refused" in text
    assert "cycle" in text
    child = harness.task(number + 1)
    assert f"{number} job" in client.get(f"/tasks/{child.id}").text


def test_a_viewer_sees_the_buttons_disabled_with_the_role_they_need(harness: Harness, runner: asyncio.Runner) -> None:
    number = ended(harness, "one", "refused")
    viewer = client_of(harness.app, runner, Role.VIEWER)
    assert "This needs the role operator" in viewer.get(f"/tasks/{number}").text
    assert viewer.form(f"/tasks/{number}/retry", {"how": "kept", "seen": "1:failed"}).status == 403
    assert harness.task(number).status is Status.FAILED
