"""What the commands say and do, on both databases."""

from __future__ import annotations

from datetime import datetime

import pytest

from onceward import App, Status
from onceward.store.attempts.claims import claim
from onceward.store.attempts.workers import NewWorker, register
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Op
from tests.cli import shop
from tests.cli.conftest import Ask

TASK_KEYS = {
    "id", "kind", "key", "status", "stage", "reason", "run", "queue", "priority", "failures", "crashes", "deferrals",
    "lineage", "parent", "depth", "waiting_for", "paused", "cost_usd", "worker", "heartbeat_at", "heartbeat_age_s",
    "due_at", "scheduled_at", "created_at", "started_at", "ended_at",
}  # fmt: skip


def test_status_counts_tasks_backlog_and_workers(worked: App, ask: Ask) -> None:
    worked.enqueue(shop.Order("now"))
    worked.enqueue(shop.Order("tomorrow"), after="1d")

    document = ask("status", "--json", "--db", worked.url).document

    assert document["total"] == 7
    assert {word: count for word, count in document["tasks"].items() if count} == {
        "pending": 2, "succeeded": 1, "filtered": 1, "failed": 2, "waiting": 1,
    }  # fmt: skip
    assert (document["backlog"]["ready"], document["backlog"]["later"]) == (1, 1)
    assert document["backlog"]["lines"][0] | {"since": ""} == {
        "queue": "default", "kind": "order", "suspects": False, "priority": 0, "tasks": 1, "since": "",
    }  # fmt: skip
    assert document["workers"] == []


def test_status_shows_a_living_worker_and_what_it_holds(app: App, ask: Ask) -> None:
    app.enqueue(shop.Order("one"))
    _claim_all(app, silent_ms=2_000, lease_ms=300_000)

    [worker] = ask("status", "--json", "--db", app.url).document["workers"]

    assert (worker["name"], worker["pid"], worker["holds"], worker["silent"]) == ("ant", 7, 1, False)
    assert 1 < worker["heartbeat_age_s"] < 60
    text = ask("status", "--db", app.url).out
    assert "1 alive" in text
    assert "ant" in text


def test_tasks_lists_the_newest_first_with_all_they_say(unchanged: App, ask: Ask) -> None:
    answer = ask("tasks", "--db", unchanged.url)

    header, *lines = answer.out.splitlines()
    assert " ".join(header.split()) == "id kind key status stage worker heartbeat since created ended why"
    assert [line.split()[0] for line in lines] == ["5", "4", "3", "2", "1"]
    assert "no such [bold]item[/bold]" in answer.out
    assert "ValueError: no luck" in answer.out
    assert "\x1b" not in answer.out


@pytest.mark.parametrize("columns", ["80", "160"])
def test_a_long_key_presses_no_other_column_out_of_sight(
    columns: str, app: App, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.enqueue(shop.Order("a" * 200))
    monkeypatch.setenv("COLUMNS", columns)

    header, line = ask("tasks", "--db", app.url).out.splitlines()

    assert " ".join(header.split()) == "id kind key status stage worker heartbeat since created ended why"
    assert line.split()[:2] == ["1", "order"]
    assert "aaa…  pending" in line


def test_settings_say_where_and_by_whom_on_a_narrow_screen(app: App, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    app.settings.set("poll", "3s", author="ann")
    monkeypatch.setenv("COLUMNS", "80")

    header, *lines = ask("settings", "--db", app.url).out.splitlines()

    assert header.split() == ["name", "value", "default", "source", "changed", "by", "what", "it", "is"]
    [poll] = [line.split() for line in lines if line.startswith("poll ")]
    assert (poll[3], poll[5]) == ("live", "ann")


def test_tasks_as_json_have_stable_keys_and_iso_times(unchanged: App, ask: Ask) -> None:
    tasks = ask("tasks", "--json", "--db", unchanged.url).document["tasks"]

    assert [task["id"] for task in tasks] == [5, 4, 3, 2, 1]
    assert all(set(task) == TASK_KEYS for task in tasks)
    assert all(datetime.fromisoformat(task["created_at"]).tzinfo is not None for task in tasks)


def test_tasks_can_be_filtered(unchanged: App, ask: Ask) -> None:
    def found(*options: str) -> list[int]:
        return [task["id"] for task in ask("tasks", "--json", "--db", unchanged.url, *options).document["tasks"]]

    assert found("--status", "failed") == [4, 3]
    assert found("--status", "failed", "--limit", "1") == [4]
    assert found("--key", "item/thing fine") == [1]
    assert found("--key", "item/thing f*") == [4, 1]
    assert found("--kind", "order", "--limit", "2") == [5, 4]
    assert found("--kind", "parcel") == []
    assert found("--stuck") == []


def test_stuck_tasks_show_their_silent_worker(app: App, ask: Ask) -> None:
    app.enqueue(shop.Order("one"))
    _claim_all(app, silent_ms=60_000, lease_ms=1_000)

    [task] = ask("tasks", "--stuck", "--json", "--db", app.url).document["tasks"]
    header, line = ask("tasks", "--stuck", "--db", app.url).out.splitlines()

    assert task["worker"] == "ant"
    assert 59 < task["heartbeat_age_s"] < 120
    assert " ".join(header.split()) == "id kind key status stage worker heartbeat since created"
    assert " ant " in line
    assert "1m" in line


def test_a_key_cannot_command_the_terminal(app: App, ask: Ask) -> None:
    app.enqueue(shop.Order("\x1b[2J\nred"))

    answer = ask("tasks", "--db", app.url)

    assert "\x1b" not in answer.out
    assert r"item/\x1b[2J red" in answer.out


def test_a_task_is_shown_whole_without_its_code(unchanged: App, ask: Ask) -> None:
    document = ask("task", "1", "--json", "--db", unchanged.url).document

    assert set(document) == TASK_KEYS | {"payload", "stages", "progress", "history"}
    assert document["payload"] == {"item": "thing fine", "fate": "fine"}
    assert [(stage["name"], stage["state"], stage["result"]) for stage in document["stages"]] == [
        ("check", "finished", "checked thing fine"),
        ("ship", "finished", {"parcel": "CHECKED THING FINE"}),
    ]
    assert [(one["event"], one["status"], one["stage"]) for one in document["history"]] == [
        ("stage committed", "running", "check"),
        ("progressed", "running", "ship"),
        ("finished", "succeeded", "ship"),
    ]
    assert (document["progress"]["done"], document["progress"]["total"]) == (1, 2)


def test_a_task_is_shown_with_the_stages_to_come_where_the_code_is_known(unchanged: App, ask: Ask) -> None:
    document = ask("task", "5", "--json", "--app", "tests.cli.shop:app", "--db", unchanged.url).document
    text = ask("task", "5", "--app", "tests.cli.shop:app", "--db", unchanged.url).out

    assert [(stage["name"], stage["state"]) for stage in document["stages"]] == [
        ("check", "current"),
        ("ship", "to come"),
    ]
    for part in ("task 5", "waiting for the signal 'approved'", "Stages", "to come", "History", "parked"):
        assert part in text


def test_a_stage_that_ended_its_task_shows_how(unchanged: App, ask: Ask) -> None:
    document = ask("task", "2", "--json", "--app", "tests.cli.shop:app", "--db", unchanged.url).document

    assert [(stage["name"], stage["state"]) for stage in document["stages"]] == [
        ("check", "filtered"),
        ("ship", "not run"),
    ]


def test_retry_opens_what_has_ended_and_says_what_it_could_not(worked: App, ask: Ask) -> None:
    answer = ask("retry", "3", "999", "4", "--json", "--db", worked.url)

    assert answer.code == 1
    assert answer.document == {"retried": [3, 4], "refused": [{"task": 999, "error": "there is no task 999"}]}
    assert answer.err.splitlines() == ["onceward: task 999 was not retried: there is no task 999"]
    assert worked.tasks.get(3).status is Status.PENDING


def test_retry_from_a_stage_forgets_that_stage_only(worked: App, ask: Ask) -> None:
    answer = ask("retry", "1", "--from-stage", "ship", "--app", "tests.cli.shop:app", "--db", worked.url)

    assert (answer.code, answer.out) == (0, "retried task 1\n")
    assert worked.tasks.get(1).results == {"check": "checked thing fine"}
    assert worked.tasks.get(1).stage == "ship"
    document = ask("task", "1", "--json", "--app", "tests.cli.shop:app", "--db", worked.url).document
    assert [stage["state"] for stage in document["stages"]] == ["finished", "current"]


def test_a_fresh_retry_forgets_everything(worked: App, ask: Ask) -> None:
    ask("retry", "1", "--fresh", "--db", worked.url)

    assert (worked.tasks.get(1).run, worked.tasks.get(1).results) == (2, {})
    document = ask("task", "1", "--json", "--app", "tests.cli.shop:app", "--db", worked.url).document
    assert [stage["state"] for stage in document["stages"]] == ["current", "to come"]


def test_cancel_ends_a_task_with_a_reason(worked: App, ask: Ask) -> None:
    answer = ask("cancel", "5", "1", "--reason", "sold", "--db", worked.url)

    assert (answer.code, answer.out) == (1, "cancelled task 5\n")
    assert "task 1 was not cancelled" in answer.err
    assert (worked.tasks.get(5).status, worked.tasks.get(5).reason) == (Status.CANCELLED, "sold")


def test_signal_wakes_a_task_with_a_value_in_json_or_text(worked: App, ask: Ask) -> None:
    def value_of(*value: str) -> object:
        return ask("signal", "5", "note", *value, "--json", "--db", worked.url).document["value"]

    assert [value_of(), value_of("yes"), value_of("-5"), value_of('{"by": "phone"}')] == [
        True,
        "yes",
        -5,
        {"by": "phone"},
    ]
    assert worked.tasks.get(5).status is Status.WAITING

    answer = ask("signal", "5", "approved", "--db", worked.url)

    assert (answer.code, answer.out) == (0, "task 5 has the signal approved\n")
    assert worked.tasks.get(5).status is Status.PENDING


def test_verify_says_what_it_checked(unchanged: App, ask: Ask) -> None:
    document = ask("verify", "--json", "--db", unchanged.url).document
    answer = ask("verify", "--db", unchanged.url)

    assert document["ok"]
    assert document["tasks"] == 5
    assert {"claims", "fences", "stages", "moves", "leases"} <= {check["name"] for check in document["checks"]}
    assert answer.code == 0
    assert "every promise holds for 5 tasks" in answer.out


def test_verify_ends_with_1_and_names_the_tasks_of_a_breach(worked: App, ask: Ask) -> None:
    worked._raw_session().opened().execute("UPDATE onceward_task SET failures = 9 WHERE id IN (1, 3)")

    answer = ask("verify", "--db", worked.url)
    as_json = ask("verify", "--json", "--db", worked.url)

    assert (answer.code, as_json.code) == (1, 1)
    assert "2 breaches in tasks 1, 3" in answer.out
    assert "task 1 says 9 failures" in answer.out
    assert not as_json.document["ok"]
    [broken] = [check for check in as_json.document["checks"] if check["broken"]]
    assert [breach["tasks"] for breach in broken["breaches"]] == [[1], [3]]


def test_migrate_lists_what_it_applied_once(empty_url: str, ask: Ask) -> None:
    first = ask("migrate", "--json", "--app", "tests.cli.shop:app", "--db", empty_url)
    second = ask("migrate", "--app", "tests.cli.shop:app", "--db", empty_url)

    assert first.document["applied"][0] == "schema"
    assert first.document["applied"][-1] == "001 parcels"
    assert (second.code, second.out) == (0, "nothing to do: the database is up to date\n")


def test_prune_deletes_what_ended_long_ago(worked: App, ask: Ask) -> None:
    kept = ask("prune", "--older-than", "1h", "--db", worked.url)
    deleted = ask("prune", "--older-than", "0s", "--json", "--db", worked.url)

    assert kept.out == "nothing was old enough to be deleted\n"
    assert deleted.document["tasks"] == 4
    assert [task.id for task in worked.tasks.list()] == [5]


def _claim_all(app: App, *, silent_ms: int, lease_ms: int) -> None:
    """Have a worker hold all tasks that has been silent for a while."""
    now = app._store.clock.now()

    def act() -> Op[None]:
        worker = yield from register(NewWorker("ant", "host", 7, None, "order", "default", lease_ms), now - silent_ms)
        yield from claim(LineMemory(app._registry.lanes(None), sweeps=app.dialect == "postgres"), worker, 100, now)

    app._transact(act)
