"""What a stage says from a process of its own is heard as if it had run here; only a death there counts as one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

import pytest

from onceward import App, Status, Task
from tests.worker import isolated_app
from tests.worker.conftest import assert_verified, notes
from tests.worker.isolated_app import DATABASE, NOTES, Apart, Kept, apart, kept


@pytest.fixture
def app(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """An app that the processes of its stages can import."""
    monkeypatch.setenv(DATABASE, store_url)
    made = App(store_url, [apart, kept], migrations=[NOTES])
    monkeypatch.setattr(isolated_app, "app", made)
    yield made
    try:
        assert_verified(made)
    finally:
        made.close()


def run(app: App, *wishes: str) -> list[Task]:
    """How tasks with these wishes have ended."""
    asked = app.enqueue_many([Apart(wish) for wish in wishes])
    app.run(until_idle=True)
    return [app.tasks.get(one.id) for one in asked]


def test_verdicts_of_an_applications_own_cross(app: App) -> None:
    struck, later = run(app, "a verdict of its own", "another of its own")
    assert (struck.status, struck.reason) == (Status.FILTERED, "out")
    assert notes(app) == [(struck.id, "kept")]
    assert (later.status, later.results["speak"], later.history[0].note) == (Status.SUCCEEDED, 2, "soon")


def test_what_cannot_cross_is_an_error_and_not_the_death_of_a_worker(app: App) -> None:
    wishes = ("a verdict with a lambda", "a verdict with an object", "a method", "a part of a function")
    tasks = run(app, *wishes, "odd words", "an odd verdict", "a method of a class")
    assert [task.crashes for task in tasks] == [0] * 7
    assert [task.status.word for task in tasks] == ["failed"] * 6 + ["succeeded"]
    assert ["cannot be found by name" in str(task.reason) for task in tasks[:4]] == [True, False, True, True]
    assert "what insert_note is given cannot cross to another process" in str(tasks[1].reason)
    assert tasks[4].reason == "failed the same way 2 times in a row: ValueError: a lone ?"
    assert tasks[5].reason == "a lone ?"
    assert notes(app) == [(tasks[6].id, "Shelf")]


def test_errors_that_a_pipeline_names_as_transient_are_known_here_too(app: App) -> None:
    [task] = run(app, "what passes")
    assert (task.status, task.results) == (Status.SUCCEEDED, {"speak": 3})


def test_a_server_cannot_put_off_a_task_for_ever_from_there(app: App) -> None:
    asked = app.enqueue(Apart("a long wait"))
    app.tick()
    task = app.tasks.get(asked.id)
    assert task.due_at is not None
    assert task.due_at - task.history[0].at <= timedelta(days=1)


def test_a_text_of_sql_crosses(app: App) -> None:
    [task] = run(app, "a text")
    assert task.status is Status.SUCCEEDED
    assert notes(app) == [(task.id, "of a text")]


def test_money_is_spent_though_the_checkpoint_failed(app: App) -> None:
    [task] = run(app, "a checkpoint that fails")
    assert (task.status, task.results) == (Status.SUCCEEDED, {"speak": 2})
    assert task.history[0].note == "LookupError: no such row (in ctx.write(refuse))"
    assert (task.cost, app.budgets.list()[0].spent) == (Decimal(2), Decimal(2))


def run_kept(app: App, *wishes: str) -> list[Task]:
    """How tasks with these wishes have ended, one after the other in kept processes."""
    asked = app.enqueue_many([Kept(wish, number) for number, wish in enumerate(wishes)])
    app.run(until_idle=True)
    return [app.tasks.get(one.id) for one in asked]


def processes(tasks: list[Task]) -> list[int]:
    """Which process each has run in, numbered from 0 in the order of their appearance."""
    found = [task.results["tell"] for task in tasks]
    seen = list(dict.fromkeys(found))
    return [seen.index(one) for one in found]


def test_a_kept_process_serves_its_runs_and_is_replaced(app: App) -> None:
    tasks = run_kept(app, *["tell"] * 7)
    assert processes(tasks) == [0, 0, 0, 1, 1, 1, 2]


def test_a_kept_process_survives_an_error_that_its_stage_has_told(app: App) -> None:
    first, failed, last = run_kept(app, "tell", "raise", "tell")
    assert (failed.status, failed.crashes) == (Status.FAILED, 0)
    assert processes([first, last]) == [0, 0]


def test_a_kept_process_that_holds_much_is_replaced(app: App) -> None:
    assert processes(run_kept(app, "tell", "grow", "tell")) == [0, 0, 1]


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_every_run_in_a_kept_process_has_its_own_limits(app: App) -> None:
    wishes = ("too much", "write", "compute", "tell", "compute without end", "tell")
    too_much, write, compute, between, endless, last = run_kept(app, *wishes)
    assert "MemoryError" in str(too_much.reason)
    assert "File too large" in str(write.reason)
    assert "it has computed for more than 1s" in str(compute.reason)
    assert "SIGPROF" in str(endless.history[0].note)
    assert [task.status for task in (between, last)] == [Status.SUCCEEDED] * 2


def test_what_a_stage_in_a_kept_process_spawns_is_its_own(app: App) -> None:
    first, second = run_kept(app, "spawn", "spawn")
    children = [task for task in app.tasks.list(limit=10) if task.parent is not None]
    assert {task.parent for task in children} == {first.id, second.id}
    assert all(task.status is Status.SUCCEEDED for task in children)
