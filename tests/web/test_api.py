"""The JSON API: what it answers, what it changes, and the sentence that bad input gets."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from onceward import App, Status
from tests.web.conftest import Answer, Client, client_of
from tests.web.shop import Order, Report, fill, shop

V1 = "/api/v1"


@dataclass
class Shop:
    """An app whose tasks have gone as far as they do, and who asks its site."""

    app: App
    client: Client
    tasks: dict[str, int]

    def get(self, path: str) -> Any:
        answer = self.client.get(V1 + path)
        assert answer.status == 200, answer.text
        return answer.json

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post(V1 + path, body, named)

    def viewer(self) -> Client:
        return self.client.with_token(self.app.tokens.add("vera", "viewer"))


@pytest.fixture
def there(store_url: str, runner: asyncio.Runner) -> Iterator[Shop]:
    with shop(store_url) as app:
        yield Shop(app, client_of(app, runner), fill(app))


def problem(answer: Answer, status: int) -> str:
    """The sentence of a problem."""
    assert answer.status == status, answer.text
    assert answer.header("content-type") == "application/problem+json"
    assert answer.json["status"] == status
    sentence: str = answer.json["detail"]
    return sentence


# Looking


def test_a_task_has_its_numbers_as_text_its_payload_and_its_history(there: Shop) -> None:
    number = there.tasks[""]
    task = there.get(f"/tasks/{number}")
    assert task["id"] == str(number)
    assert task["status"] == "succeeded"
    assert task["cost"] == "0.0125"
    assert task["payload"] == {"name": "plain", "way": "", "card": "4111"}
    assert task["results"] == {"take": {"taken": "plain"}}
    assert [one["event"] for one in task["history"]] == ["finished"]


def test_a_list_goes_on_at_its_cursor_and_misses_no_task(there: Shop) -> None:
    seen, cursor = [], ""
    while cursor is not None:
        page = there.get("/tasks?limit=2" + (f"&cursor={cursor}" if cursor else ""))
        assert len(page["tasks"]) <= 2
        seen += [int(one["id"]) for one in page["tasks"]]
        cursor = page["next"]
    assert seen == sorted((one.id for one in there.app.tasks.list(limit=100)), reverse=True)


def test_a_list_is_filtered_counted_and_grouped(there: Shop) -> None:
    failed = there.get("/tasks?filter=status:failed")["tasks"]
    assert [int(one["id"]) for one in failed] == [there.tasks["fail"]]
    assert there.get("/tasks/count?filter=status:failed") == {"n": 1, "is_exact": True}
    [group] = there.get("/tasks/errors")
    assert group["message"] == "no such article"
    assert group["example"] == str(there.tasks["fail"])
    assert "status:failed" in [one["text"] for one in there.get("/tasks/completions?filter=status:fa")] or any(
        "failed" in one["text"] for one in there.get("/tasks/completions?filter=status:fa")
    )


def test_why_names_the_cause_and_the_command(there: Shop) -> None:
    why = there.get(f"/tasks/{there.tasks['wait']}/why")
    assert why["task"] == str(there.tasks["wait"])
    assert why["cause"] == "signal"
    assert "approve" in why["command"]


def test_a_lineage_is_a_tree_with_its_refusals(there: Shop) -> None:
    root = there.tasks["spawn"]
    tree = there.get(f"/lineages/{root}")
    assert [one["parent"] for one in tree["tasks"]] == [None, str(root)]
    assert [one["rule"] for one in tree["refused"]] == ["cycle"]
    assert tree["max_tasks"] == 9
    assert there.get(f"/lineages/{tree['id']}")["id"] == tree["id"]
    assert [one["id"] for one in there.get("/lineages?largest=true")]


@pytest.mark.parametrize(
    "path",
    ["/batches", "/batches/some", "/sources", "/sources/bank", "/budgets", "/budgets/usd", "/holds", "/schedules",
     "/settings", "/pauses", "/alerts?open_only=false", "/workers", "/audit", "/stats", "/stats/counts",
     "/stats/backlog", "/envelope", "/envelope?measured=true", "/cron?expression=30+2+*+*+*&tz=Europe/Berlin"],
)  # fmt: skip
def test_every_report_answers(there: Shop, path: str) -> None:
    assert there.get(path) is not None


def test_amounts_are_exact_texts(there: Shop) -> None:
    [usd] = there.get("/budgets/usd")
    assert usd["limit"] == "100"
    spent = sum(one.cost for one in there.app.tasks.list(limit=100))
    assert usd["spent"] == f"{spent.normalize():f}"


# Acting


def test_a_failed_task_is_opened_again_and_the_audit_log_says_so(there: Shop) -> None:
    number = there.tasks["fail"]
    answer = there.post(f"/tasks/{number}/retry", {"fresh": True})
    assert answer.json["task"]["status"] == "pending"
    assert there.app.tasks.get(number).run == 2
    [line] = there.get("/audit")
    assert (line["author"], line["role"], line["action"]) == ("local", "admin", f"POST {V1}/tasks/{{id}}/retry")
    assert (line["target"], line["outcome"], line["count"]) == (f"id={number}", "done", 1)


def test_a_task_is_cancelled_signalled_and_approved(there: Shop) -> None:
    later, wait = there.tasks["later"], there.tasks["wait"]
    assert there.post(f"/tasks/{later}/cancel", {"reason": "too late"}).json["task"]["status"] == "cancelled"
    assert there.app.tasks.get(later).reason == "too late"
    assert there.post(f"/tasks/{wait}/signal", {"name": "paid", "value": {"a": 1}}).status == 200
    assert there.post(f"/tasks/{wait}/approve").json["task"]["status"] == "pending"


def test_an_action_on_a_task_that_has_moved_since_is_refused(there: Shop) -> None:
    number = there.tasks["fail"]
    seen = there.client.get(f"{V1}/tasks/{number}").header("etag")
    there.app.tasks.retry(number)
    sentence = problem(there.post(f"/tasks/{number}/cancel", {}, if_match=seen), 412)
    assert sentence == f"task {number} has changed since you looked at it: it is pending in run 1 now; look at it again"
    assert there.app.tasks.get(number).status is Status.PENDING
    seen = there.client.get(f"{V1}/tasks/{number}").header("etag")
    assert there.post(f"/tasks/{number}/cancel", {}, if_match=seen).status == 200
    assert "changed since" in problem(there.post(f"/tasks/{number}/retry", {"version": seen.strip('"')}), 412)


def test_what_the_transition_table_refuses_is_a_conflict(there: Shop) -> None:
    assert "cancelled" in problem(there.post(f"/tasks/{there.tasks['']}/cancel", {}), 409)


def test_a_lineage_is_paused_resumed_cancelled_and_widened(there: Shop) -> None:
    root = there.tasks["wait"]
    assert there.post(f"/lineages/{root}/pause").json == {"tasks": 1}
    assert there.post(f"/lineages/{root}/resume").json == {"tasks": 1}
    wider = there.client.ask("PATCH", f"{V1}/lineages/{root}/limits", b'{"max_tasks":20,"deadline":"60h"}',
                             {"content-type": "application/json"})  # fmt: skip
    assert wider.status == 200, wider.text
    assert (wider.json["max_tasks"], wider.json["deadline"]) == (20, "216000s")
    assert there.post(f"/lineages/{root}/cancel", {"reason": "enough"}).json["tasks"] == [str(root)]
    assert there.post(f"/lineages/{there.tasks['fail']}/retry").json["tasks"] == [str(there.tasks["fail"])]


def test_sources_budgets_schedules_settings_and_pauses_change(there: Shop) -> None:
    assert there.post("/sources/bank/disable").json == {"names": ["bank"]}
    assert there.get("/sources/bank")[0]["state"] == "disabled"
    assert there.post("/sources/bank/enable").json == {"names": ["bank"]}
    typed = {"content-type": "application/json"}
    [usd] = there.client.ask("PUT", f"{V1}/budgets/usd/limit", b'{"limit":"7.25"}', typed).json
    assert usd["limit"] == "7.25"
    assert there.post("/schedules/nightly/pause").status == 200
    assert there.get("/schedules")[0]["paused"] is True
    assert there.post("/schedules/nightly/resume").status == 200
    assert there.post("/schedules/nightly/run").json["created"] is True
    assert there.client.ask("PUT", f"{V1}/settings/size", b'{"value":"60"}', typed).json["value"] == 60
    assert there.app.settings.get("size") == 60
    assert there.client.ask("DELETE", f"{V1}/settings/size").json["value"] == 50
    assert there.post("/pauses", {"pipeline": "order"}).json == {"scope": "pipeline:order"}
    assert [one["author"] for one in there.get("/pauses")] == ["local"]
    assert there.post("/pauses/resume", {"pipeline": "order"}).status == 200
    assert len(there.get("/audit")) == 10


# Enqueueing


def test_a_task_is_enqueued(there: Shop) -> None:
    body = {"kind": "order", "payload": {"name": "by http"}, "priority": 1, "after": "5m",
            "limits": {"max_tasks": 3, "budget": "1.5"}}  # fmt: skip
    answer = there.post("/tasks", body)
    assert answer.status == 201
    task = there.app.tasks.get(int(answer.json["task"]))
    assert (task.payload, task.priority, task.due_at is not None) == (Order("by http"), 1, True)


def test_what_is_enqueued_for_a_task_elsewhere_is_its_child(there: Shop) -> None:
    parent = there.app.enqueue(Order("parent"))
    lineage = there.app.tasks.get(parent).lineage
    baggage = f"other=1,onceward.lineage={lineage},onceward.task={parent.id},onceward.depth=0"
    answer = there.post("/tasks", {"kind": "report", "payload": {"name": "child"}}, baggage=baggage)
    child = there.app.tasks.get(int(answer.json["task"]))
    assert (child.parent, child.lineage, child.depth) == (parent.id, lineage, 1)
    unknown = f"onceward.lineage={uuid.uuid4()},onceward.task=999999"
    assert problem(there.post("/tasks", {"kind": "report", "payload": {"name": "x"}}, baggage=unknown), 400)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"kind": "nothing", "payload": {}}, "no pipeline handles kind 'nothing'; this app knows: order, report"),
        ({"kind": "order", "payload": {"nam": "x"}}, "the payload does not fit kind order"),
        ({"kind": "order", "payload": {"name": "x"}, "priority": 9}, "priority: Expected int <= 2"),
        ({"kind": "order", "payload": {"name": "x"}, "after": "5 parsecs"}, "5 parsecs"),
        ({"kind": "order", "payload": {"name": "x"}, "limits": {"max_depth": 10**9}}, "limits.max_depth: Expected int"),
        ({"kind": "order", "payload": {"name": "x"}, "afer": "5m"}, "Object contains unknown field afer"),
        ({"kind": "order"}, "Object missing required field payload"),
        ({"kind": "order", "payload": {"name": "a\ud800b"}}, "no JSON"),
    ],
)
def test_what_cannot_be_enqueued_is_said_in_a_sentence(there: Shop, body: Any, sentence: str) -> None:
    assert sentence in problem(there.post("/tasks", body), 400)


# Bad input


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/tasks?cursor=abc", 400, "'abc' is no cursor"),
        ("/tasks?cursor=" + "9" * 99, 400, "is no cursor"),
        ("/tasks?limit=1000000000000000000000", 400, "limit: "),
        ("/tasks?limit=501", 400, "limit: Expected int <= 500"),
        ("/tasks?limit=many", 400, "limit: Expected int"),
        ("/tasks?limt=5", 400, "there is no parameter 'limt'; did you mean limit?"),
        ("/tasks?filter=status:faild", 400, "at character 8 of the filter: there is no status 'faild'"),
        ("/tasks?filter=a%00b", 400, "NUL"),
        ("/tasks/99999999", 404, "there is no task 99999999"),
        ("/tasks/" + "9" * 30, 404, "is not the number of a task"),
        ("/tasks/x%3Cscript%3E", 404, "is not the number of a task"),
        ("/lineages/0190aaaa-0000-7000-8000-000000000000", 404, "there is no lineage"),
        ("/lineages/x", 400, "'x' is neither the number of a task nor the id of a lineage"),
        ("/batches/none", 404, "there is no batch 'none'"),
        ("/batches?status=funny", 400, "there are: open"),
        ("/sources/none", 404, "there is no source 'none'"),
        ("/stats?since=5%20parsecs", 400, "5 parsecs"),
        ("/cron?expression=99+*+*+*+*", 400, "99"),
        ("/cron?expression=*/0+*+*+*+*", 400, "*/0"),
        ("/cron?expression=0-99999999999+*+*+*+*", 400, "99999999999"),
        ("/cron?expression=0+0+30+2+*", 400, ""),
        ("/cron?expression=0+0+*+*+*&tz=Mars/Base", 400, "Mars/Base"),
        ("/nothing", 404, "there is no GET /api/v1/nothing"),
    ],
)
def test_a_bad_question_gets_a_sentence(there: Shop, path: str, status: int, sentence: str) -> None:
    assert sentence in problem(there.client.get(V1 + path), status)


def test_a_filter_that_does_not_parse_has_the_position(there: Shop) -> None:
    answer = there.client.get(f"{V1}/tasks?filter=status:faild").json
    assert (answer["at"], answer["position"], answer["length"]) == ("filter", 7, 5)


def test_a_body_that_is_no_json_too_large_or_of_another_type_is_refused(there: Shop) -> None:
    path, typed = f"{V1}/tasks", {"content-type": "application/json"}
    assert "no JSON" in problem(there.client.ask("POST", path, b"{", typed), 400)
    assert "no JSON" in problem(there.client.ask("POST", path, b'{"kind": "\xff"}', typed), 400)
    assert problem(there.client.ask("POST", path, b"[" * 100_000, typed), 400)
    assert "application/json" in problem(there.client.ask("POST", path, b"{}", {"content-type": "text/plain"}), 415)
    assert "8,388,608" in problem(there.client.ask("POST", path, b" " * 10_000_000, typed), 413)
    said = {**typed, "content-length": "10000000000"}
    assert problem(there.client.ask("POST", path, b"{}", said), 413)


def test_a_method_that_a_path_does_not_take_is_said_with_those_that_it_does(there: Shop) -> None:
    answer = there.client.ask("PUT", f"{V1}/tasks")
    assert problem(answer, 405)
    assert answer.header("allow") == "GET, POST"


def test_unknown_names_in_actions_get_a_sentence(there: Shop) -> None:
    typed = {"content-type": "application/json"}
    assert "there is no task 999999" in problem(there.post("/tasks/999999/retry", {}), 404)
    assert "nothing" in problem(there.client.ask("PUT", f"{V1}/settings/nothing", b'{"value":1}', typed), 400)
    assert "size" in problem(there.client.ask("PUT", f"{V1}/settings/size", b'{"value":"x"}', typed), 400)
    assert problem(there.client.ask("PUT", f"{V1}/budgets/nothing/limit", b'{"limit":"1"}', typed), 404)
    assert problem(there.client.ask("PUT", f"{V1}/budgets/usd/limit", b'{"limit":"much"}', typed), 400)
    assert "there is no pipeline 'x'" in problem(there.post("/pauses", {"pipeline": "x"}), 400)
    assert problem(there.post("/schedules/none/pause"), 404)
    assert there.get("/audit") == []


# Exports and secrets


def test_an_export_holds_all_that_match_and_no_formula(there: Shop) -> None:
    for n in range(450):
        there.app.enqueue(Report(f"=cmd|' /C calc'!A{n}"))
    answer = there.client.get(f"{V1}/tasks/export?filter=kind:report")
    assert answer.header("content-disposition") == 'attachment; filename="tasks.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 451
    assert len({row["id"] for row in rows}) == 451
    assert {row["key"][0] for row in rows} == {"'", "o"}
    lines = there.client.get(f"{V1}/tasks/export?filter=kind:report&format=jsonl").text.splitlines()
    assert [json.loads(line)["id"] for line in lines] == [row["id"] for row in rows]


def test_a_viewer_sees_no_secret_field_anywhere_and_cannot_ask_for_it(there: Shop) -> None:
    root = there.tasks["spawn"]
    viewer = there.viewer()
    paths = [
        f"/tasks/{root}",
        "/tasks",
        f"/lineages/{root}",
        "/lineages",
        "/tasks/export",
        "/tasks/export?format=jsonl",
    ]
    operator = there.client.with_token(there.app.tokens.add("otto", "operator"))
    for path in paths:
        assert "4111" in operator.get(V1 + path).text
        answer = viewer.get(V1 + path)
        assert answer.status == 200
        assert "4111" not in answer.text, path
    for filter_text in ("payload.card:4111", "payload.card~41", "-payload.card~41", "key~4111", "key:*4111*"):
        found = viewer.get(f"{V1}/tasks?filter={filter_text}").json["tasks"]
        assert {one["kind"] for one in found} <= {"report"}, filter_text
        assert viewer.get(f"{V1}/tasks/count?filter={filter_text}%20kind:order").json == {"n": 0, "is_exact": True}
    assert viewer.get(f"{V1}/tasks?filter=payload.way:fail").json["tasks"]


# The document


def test_the_document_names_every_operation_with_its_role(there: Shop) -> None:
    from onceward.web.routes import ROUTES

    document = there.get("/openapi.json")
    assert document["openapi"] == "3.1.0"
    named = {
        (method.upper(), path, one["x-role"])
        for path, ones in document["paths"].items()
        for method, one in ones.items()
    }
    served = {(one.method, one.path.replace(":path}", "}"), one.role.word) for one in ROUTES if one.kind == "api"}
    assert named == served
    names = [one["operationId"] for ones in document["paths"].values() for one in ones.values()]
    assert len(names) == len({*names})


# Many tasks at once


def test_an_action_on_all_that_match_is_counted_begun_followed_and_stopped(there: Shop) -> None:
    counted = there.get("/bulk/preview?action=retry&filter=kind:order")
    assert counted == {"action": "retry", "filter": "kind:order status:failed", "count": {"n": 1, "is_exact": True}}
    begun = there.post("/bulk", {"action": "retry", "filter": "kind:order"})
    assert (begun.status, begun.json["state"], begun.json["author"]) == (202, "open", "local")
    number = begun.json["id"]
    there.app.bulk.carry_on(int(number))
    ended = there.get(f"/bulk/{number}")
    assert (ended["state"], ended["done"], ended["progress"]) == ("done", 1, 1.0)
    assert there.app.tasks.get(there.tasks["fail"]).status is Status.PENDING
    assert there.post(f"/bulk/{number}/stop").json["state"] == "done"
    assert [one["id"] for one in there.get("/bulk")] == [number]
    assert problem(there.post("/bulk/99/stop"), 404)
    assert problem(there.post("/bulk", {"action": "prune", "filter": "kind:order"}), 400)
    assert problem(there.post("/bulk", {"action": "cancel", "filter": ""}), 400)
    assert "character 1" in problem(there.post("/bulk", {"action": "cancel", "filter": "#"}), 400)


def test_the_last_hour_adds_up(there: Shop) -> None:
    hour = there.get("/stats/hour")
    assert hour["failed"] == 1
    assert len(hour["minutes"]) == 60
