"""The list of tasks: its filter, its pages, and actions on some or on all that match."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from onceward import App, Context, Failed, Payload, Pipeline, Retry, Waiting
from onceward.model.status import Status
from onceward.testing import Harness
from onceward.web import carrying
from onceward.web.pages import tasks as pages
from tests.web.conftest import Client, client_of

HOSTILE = "<img src=x onerror=alert(1)>"


class Job(Payload, kind="job"):
    name: str
    fate: str = "fine"

    def key(self) -> str:
        return self.name


job = Pipeline(Job, retry=Retry(retries=0))


@job.stage
def work(ctx: Context[Job]) -> str:
    match ctx.payload.fate:
        case "broken":
            raise Failed(f"no answer from https://{ctx.payload.name}.example for {HOSTILE}")
        case "asks" if ctx.signal("approved") is None:
            raise Waiting(until="approved")
    return "good"


@pytest.fixture
def harness(store_url: str) -> Iterator[Harness]:
    made = Harness(App(store_url, [job]), url=store_url)
    yield made
    carrying.leave(made.app)
    made.app.close()


@pytest.fixture
def client(harness: Harness, runner: asyncio.Runner) -> Client:
    return client_of(harness.app, runner)


def enqueued(harness: Harness, count: int, fate: str = "fine") -> None:
    harness.app.enqueue_many([Job(f"{fate}-{number}", fate) for number in range(count)])
    harness.drain()


def shown(text: str) -> list[int]:
    return [int(number) for number in re.findall(r'id="task-(\d+)"', text)]


def test_a_filter_chooses_the_tasks_and_stays_in_the_address(harness: Harness, client: Client) -> None:
    enqueued(harness, 2)
    enqueued(harness, 3, "broken")
    text = client.get("/tasks?filter=status:failed%20kind:job").text
    assert len(shown(text)) == 3
    assert 'value="status:failed kind:job"' in text
    assert 'href="/tasks?filter=kind%3Ajob"' in text  # the filter without its first term
    assert len(shown(client.get("/tasks").text)) == 5


def test_a_mistake_in_the_filter_is_marked_where_it_stands(client: Client) -> None:
    answer = client.get("/tasks?filter=kind:job%20stat:failed")
    assert answer.status == 400
    assert '<span class="filter__word--bad">stat</span>' in answer.text
    assert "At character 10" in answer.text
    assert 'value="kind:job stat:failed"' in answer.text


def test_a_page_leads_to_the_next_without_showing_a_task_twice(
    harness: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "ON_A_PAGE", 3)
    enqueued(harness, 7)
    seen: list[int] = []
    address = "/tasks?filter=kind:job"
    while address:
        text = client.get(address).text
        seen += shown(text)
        found = re.search(r'href="([^"]+)" rel="next"', text)
        address = found[1].replace("&amp;", "&") if found else ""
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == len(set(seen)) == 7


def test_a_cursor_that_is_none_is_refused(client: Client) -> None:
    assert client.get("/tasks?cursor=x").status == 400


def test_an_empty_list_says_what_to_do(harness: Harness, client: Client) -> None:
    assert "There is no task yet" in client.get("/tasks").text
    enqueued(harness, 1)
    text = client.get("/tasks?filter=kind:job%20status:failed").text
    assert "No task matches" in text
    assert 'href="/tasks?filter=kind%3Ajob"' in text


def test_errors_that_are_alike_are_told_once_with_hostile_text_as_text(harness: Harness, client: Client) -> None:
    enqueued(harness, 3, "broken")
    text = client.get("/tasks/groups?filter=").text
    assert text.count("<tr data-row") == 1
    assert '<span class="hole">url</span>' in text
    assert "<img" not in text
    assert "Retry 3…" in text
    assert "3 matches" in client.get("/tasks/count?filter=status:failed").text.replace("match", "matches")


def test_the_page_without_scripts_counts_and_groups_by_itself(harness: Harness, client: Client) -> None:
    enqueued(harness, 3, "broken")
    text = client.get("/tasks?with=all").text
    assert "Errors that are alike" in text
    assert "3 match" in text


def test_a_completion_says_what_it_replaces(client: Client) -> None:
    found = client.get("/tasks/complete?text=status:fa&position=9").json
    assert {name: found[0][name] for name in ("text", "start", "end")} == {"text": "failed", "start": 7, "end": 9}
    assert client.get("/tasks/complete?text=x&position=y").status == 400


def test_an_action_on_many_asks_first_and_tells_the_command(harness: Harness, client: Client) -> None:
    enqueued(harness, 3, "broken")
    text = client.get("/tasks/act?action=retry&filter=kind:job").text
    assert "Retry 3 tasks" in text
    assert "onceward retry --filter" in text
    assert "They have cost nothing so far" in text
    assert client.get("/tasks/act?action=explode&filter=").status == 400


def test_chosen_tasks_are_retried_and_the_others_are_not(harness: Harness, client: Client) -> None:
    enqueued(harness, 3, "broken")
    asked = client.get("/tasks/act?action=retry&ids=1,3").text
    wanted = re.search(r'name="filter" value="([^"]+)"', asked)
    assert wanted is not None
    answer = client.form("/tasks/act", {"action": "retry", "filter": wanted[1]})
    bulk = answer.header("location")
    harness.app.bulk.carry_on(int(bulk.rpartition("/")[2]))
    assert [harness.task(number).status for number in (1, 2, 3)] == [Status.PENDING, Status.FAILED, Status.PENDING]
    page = client.get(bulk).text
    assert "<b>2</b> retried" in page
    [row] = harness.app.audit.list(limit=1)
    assert (row.outcome, row.count) == ("done", 2)


def test_tasks_that_wait_are_approved_together(harness: Harness, client: Client) -> None:
    enqueued(harness, 3, "asks")
    answer = client.form("/tasks/act", {"action": "approve", "filter": "waiting:signal:approved"})
    harness.app.bulk.carry_on(int(answer.header("location").rpartition("/")[2]))
    harness.drain()
    assert harness.app.stats.counts()[Status.SUCCEEDED] == 3


def test_an_action_on_nothing_or_on_more_than_was_typed_is_not_begun(
    harness: Harness, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.form("/tasks/act", {"action": "retry", "filter": "kind:other"})
    monkeypatch.setattr(pages, "TYPE_ABOVE", 2)
    enqueued(harness, 3, "broken")
    client.form("/tasks/act", {"action": "retry", "filter": "kind:job", "typed": "2"})
    assert harness.app.bulk.list() == []
    client.form("/tasks/act", {"action": "retry", "filter": "kind:job", "typed": "3"})
    assert len(harness.app.bulk.list()) == 1


def test_an_action_on_many_can_be_stopped(harness: Harness, client: Client) -> None:
    enqueued(harness, 3, "broken")
    started = harness.app.bulk.start("retry", "kind:job")
    assert f"/bulk/{started.id}/stop" in client.get("/tasks").text
    client.form(f"/bulk/{started.id}/stop", {})
    assert harness.app.bulk.get(started.id).state == "stopped"
    assert client.get("/bulk/4711").status == 404


@pytest.mark.parametrize("text", ['error:"a b"', "key:über/*", "payload.url~x'y"])
def test_a_filter_of_any_letters_is_carried_through(harness: Harness, client: Client, text: str) -> None:
    enqueued(harness, 1)
    assert client.get(f"/tasks?filter={quote(text)}").status == 200
    assert client.get(f"/tasks/act?action=retry&filter={quote(text)}").status == 200


def test_all_that_match_are_to_be_had_as_a_table(harness: Harness, client: Client) -> None:
    enqueued(harness, 2)
    enqueued(harness, 1, "broken")
    text = client.get("/tasks?filter=status:failed").text
    [link] = re.findall(r'href="([^"]+)" download', text)
    lines = client.get(html.unescape(link)).text.splitlines()
    assert [line.split(",")[2] for line in lines] == ["key", "broken-0"]
    assert " download" not in client.get("/tasks?filter=status:cancelled").text
