"""Lists by filter, and actions on all that match, as commands on both databases."""

from __future__ import annotations

import io
import sys

import pytest

from onceward import App
from onceward.cli import many_tasks
from onceward.store.operations import bulk
from tests.cli import shop
from tests.cli.conftest import Ask


@pytest.fixture
def many(worked: App, monkeypatch: pytest.MonkeyPatch) -> App:
    """The shop with twelve more orders that no worker has seen yet."""
    monkeypatch.setattr(bulk, "TASKS_AT_ONCE", 5)
    worked.enqueue_many([shop.Order(f"late {number}", "sold") for number in range(12)])
    return worked


def statuses(app: App, wanted: str) -> list[str]:
    return [one.status.word for one in app.tasks.search(wanted).tasks]


def test_a_filter_lists_what_matches_and_how_many(many: App, ask: Ask) -> None:
    answer = ask("tasks", "--filter", "key~late status:pending", "--limit", 5, "--db", many.url)
    assert answer.code == 0
    assert "5 of 12 that match" in answer.out
    assert "--cursor 13 goes on" in answer.out
    document = ask("tasks", "--filter", "key~late", "--cursor", 13, "--json", "--db", many.url).document
    assert [one["id"] for one in document["tasks"]] == [12, 11, 10, 9, 8, 7, 6]
    assert (document["count"], document["count_is_exact"], document["next"]) == (12, True, None)


def test_a_filter_may_begin_with_a_hyphen(many: App, ask: Ask) -> None:
    document = ask("tasks", "--filter=-status:pending kind:order", "--json", "--db", many.url).document
    assert {one["status"] for one in document["tasks"]} >= {"succeeded", "failed"}
    assert document["count"] == 5
    assert "no task matches" in ask("tasks", "--filter", "id:4711", "--db", many.url).out


def test_a_filter_that_cannot_be_read_says_where(many: App, ask: Ask) -> None:
    answer = ask("tasks", "--filter", "status:faild", "--db", many.url)
    assert answer.code == 2
    assert "at character 8 of the filter: there is no status 'faild'; did you mean failed?" in answer.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("tasks", "--filter", "id:1", "--status", "failed"),
        ("tasks", "--filter", "id:1", "--stuck"),
        ("retry", 1, "--filter", "id:1"),
        ("retry", "--lineage", 1, "--filter", "id:1"),
        ("retry", "--fresh", "--filter", "id:1"),
        ("cancel",),
        ("approve",),
        ("approve", 1, "--filter", "id:1"),
        ("bulk", "stop"),
        ("bulk", "list", 1),
    ],
)
def test_what_does_not_go_together_is_refused(many: App, ask: Ask, arguments: tuple[object, ...]) -> None:
    assert ask(*arguments, "--db", many.url).code == 2


def test_nothing_is_done_to_many_tasks_without_a_yes(many: App, ask: Ask) -> None:
    answer = ask("cancel", "--filter", "key~late", "--db", many.url)
    assert answer.code == 2
    assert "this would cancel 12 tasks that match: key~late status:open; say --yes" in answer.err
    assert statuses(many, "key~late") == ["pending"] * 12


def test_a_cancellation_of_all_that_match_keeps_its_reason(many: App, ask: Ask) -> None:
    answer = ask("cancel", "--filter", "key~late", "--yes", "--reason", "too late", "--db", many.url)
    assert (answer.code, answer.out.strip()) == (0, "cancelled 12 tasks")
    assert {one.reason for one in many.tasks.search("status:cancelled").tasks} == {"too late"}
    listed = ask("bulk", "list", "--db", many.url)
    assert "key~late status:open" in listed.out
    assert ask("bulk", "show", 1, "--json", "--db", many.url).document["done"] == 12


def test_a_retry_of_all_that_match_tells_of_it_as_json(many: App, ask: Ask) -> None:
    failed = many.tasks.count("status:failed").n
    document = ask("retry", "--filter", "kind:order", "--yes", "--json", "--db", many.url).document
    assert (document["state"], document["done"], document["filter"]) == ("done", failed, "kind:order status:failed")
    again = ask("retry", "--filter", "kind:order", "--yes", "--json", "--db", many.url).document
    assert (again["id"], again["done"]) == (None, 0)


def test_an_approval_of_all_that_match(many: App, ask: Ask) -> None:
    waiting = many.tasks.count("waiting:signal:approved").n
    answer = ask("approve", "--filter", "", "--yes", "--json", "--db", many.url)
    assert answer.document["done"] == waiting


class Terminal(io.StringIO):
    """A standard input at which a person sits."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("said", "code", "left"), [("y\n", 0, 0), ("n\n", 1, 12), ("", 1, 12)])
def test_a_person_is_asked_first(
    many: App, ask: Ask, monkeypatch: pytest.MonkeyPatch, said: str, code: int, left: int
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(said))
    answer = ask("cancel", "--filter", "key~late", "--db", many.url)
    assert answer.code == code
    assert "cancel 12 tasks that match: key~late status:open" in answer.err
    assert many.tasks.count("key~late status:open").n == left


def test_ctrl_c_stops_it_and_keeps_what_was_done(many: App, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(many_tasks.Progress, "show", interrupt)
    answer = ask("cancel", "--filter", "key~late", "--yes", "--db", many.url)
    assert answer.code == 130
    assert "cancelled 5 tasks; stopped, of 12" in answer.out
    assert many.tasks.count("key~late status:open").n == 7
    [stopped] = many.bulk.list()
    assert stopped.state == "stopped"


def test_what_another_process_began_is_stopped_and_carried_on_by_number(many: App, ask: Ask) -> None:
    first, second = many.bulk.start("cancel", "key~late"), many.bulk.start("cancel", "key~late")
    assert "stopped, of 12" in ask("bulk", "stop", first.id, "--db", many.url).out
    assert "cancelled 12 tasks" in ask("bulk", "go-on", second.id, "--db", many.url).out
    missing = ask("bulk", "show", 4711, "--db", many.url)
    assert (missing.code, "there is no action 4711" in missing.err) == (1, True)
