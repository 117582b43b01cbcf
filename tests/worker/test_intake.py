"""Work that other programs ask for by SQL: a row, then a task, exactly once; a refusal can be read in the row."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from typing import Any

import psycopg
import pytest

from onceward import App, Context, Payload, Pipeline, Status, StopList
from onceward.operations.intake import tasks_of_intake
from onceward.store.operations import intake
from onceward.store.operations.intake import AT_ONCE
from onceward.worker.intake import take_in_some


class Note(Payload, kind="note"):
    text: str
    size: int = 1


class Page(Payload, kind="page"):
    url: str

    def key(self) -> str:
        if self.url == "broken":
            raise ZeroDivisionError("a mistake in key()")
        return self.url


def notes_app(url: str) -> App:
    note, page = Pipeline(Note), Pipeline(Page, unique="everywhere")

    @note.stage
    def read(ctx: Context[Note]) -> str:
        return ctx.payload.text

    @page.stage
    def fetch(ctx: Context[Page]) -> None:
        pass

    return App(url, [note, page], stop_list=StopList(domains=["evil.example"]))


def run_sql(url: str, *statements: str) -> list[Any]:
    """What a program in any language does: a driver, and SQL. Returns the rows of the last statement."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            rows = [connection.execute(one).fetchall() for one in statements]
            connection.commit()
            return rows[-1]
    with psycopg.connect(url) as there:
        cursors = [there.execute(one) for one in statements]  # type: ignore[arg-type]
        return [] if cursors[-1].description is None else cursors[-1].fetchall()


def asked(kind: str, payload: str, more: str = "") -> str:
    columns, values = (f", {more.partition('=')[0]}", f", {more.partition('=')[2]}") if more else ("", "")
    return f"INSERT INTO onceward_intake (kind, payload{columns}) VALUES ('{kind}', '{payload}'{values})"


def ends(url: str) -> list[Any]:
    return run_sql(url, "SELECT id, task, refused FROM onceward_intake ORDER BY id")


def take(app: App) -> int:
    app.prepare()
    with app._lock:
        return take_in_some(app._session(), app._registry.kinds, tasks_of_intake(app))


@pytest.fixture
def url(store_url: str) -> str:
    return store_url


def test_a_row_becomes_a_task_with_its_priority_and_its_time(url: str) -> None:
    with notes_app(url) as app:
        app.migrate()
        run_sql(url, asked("note", '{"text":"a"}'), asked("note", '{"text":"b"}', "priority=2"),
                asked("note", '{"text":"c"}', "due_at=4102444800000"))  # fmt: skip
        app.tick()
        tasks = [app.tasks.get(number) for _, number, _ in ends(url)]
        assert [task.payload for task in tasks] == [Note("a"), Note("b"), Note("c")]
        assert [task.status for task in tasks] == [Status.SUCCEEDED, Status.SUCCEEDED, Status.PENDING]
        assert (tasks[1].priority, tasks[2].due_at.year) == (2, 2100)  # type: ignore[union-attr]
        assert take(app) == 0


def test_a_refusal_stands_in_its_row_and_keeps_no_other_from_its_task(url: str) -> None:
    with notes_app(url) as app:
        app.migrate()
        run_sql(url, asked("note", '{"txt":"a"}'), asked("note", '{"text":1}'), asked("page", '{"url":"broken"}'),
                asked("page", '{"url":"https://evil.example/x"}'), asked("page", '{"url":"p"}'),
                asked("page", '{"url":"p"}'), asked("note", '{"text":"fine"}'))  # fmt: skip
        assert take(app) == 7
        found = ends(url)
        assert [one[1] is not None for one in found] == [False, False, False, False, True, True, True]
        assert [one[2] and one[2][:40] for one in found[:3]] == [
            "ValidationError: Object missing required", "ValidationError: Expected `str`, got `in",
            "ZeroDivisionError: a mistake in key()",
        ]  # fmt: skip
        assert "evil.example" in found[3][2]
        assert found[4][1] == found[5][1]  # the same work: one task


def test_a_row_of_a_kind_that_no_worker_knows_waits_for_one_that_does(url: str) -> None:
    with notes_app(url) as app:
        app.migrate()
        run_sql(url, asked("other", "{}"), asked("note", '{"text":"a"}'))
        assert take(app) == 1
        assert [one[1] is None for one in ends(url)] == [True, False]


@pytest.mark.parametrize(
    "statement",
    [asked("note", "{"), asked("", "{}"), asked("note", "{}", "priority=3"), asked("note", "{}", "priority=-3")],
)
def test_the_database_refuses_what_no_worker_could_read(url: str, statement: str) -> None:
    with notes_app(url) as app:
        app.migrate()
    with pytest.raises((sqlite3.IntegrityError, psycopg.Error, sqlite3.OperationalError)):
        run_sql(url, statement)


def test_a_worker_that_dies_before_its_commit_has_taken_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with notes_app(url) as app:
        app.migrate()
        run_sql(url, *(asked("note", f'{{"text":"{n}"}}') for n in range(5)))
        ending = intake.Many

        def die(*_: Any) -> Any:
            raise KeyboardInterrupt

        monkeypatch.setattr(intake, "Many", die)
        with pytest.raises(KeyboardInterrupt):
            take(app)
        assert app.tasks.list() == []
        monkeypatch.setattr(intake, "Many", ending)
        assert take(app) == 5
        assert len(app.tasks.list()) == 5
        assert take(app) == 0


def test_workers_that_take_in_at_once_make_one_task_of_each_row(url: str) -> None:
    count = 3 * AT_ONCE
    with notes_app(url) as app, notes_app(url) as other:
        app.migrate()
        run_sql(url, *(asked("note", f'{{"text":"{n}"}}') for n in range(count)))
        threads = [threading.Thread(target=lambda one=one: [take(one) for _ in range(4)]) for one in (app, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        made = [number for _, number, _ in ends(url)]
        assert len({*made}) == count
        assert app.stats.counts()[Status.PENDING] == count
        assert app.verify().ok


def test_a_tick_takes_in_what_is_there(url: str) -> None:
    with notes_app(url) as app:
        app.migrate()
        run_sql(url, asked("note", '{"text":"first"}'))
        app.tick()
        assert [one.status for one in app.tasks.list()] == [Status.SUCCEEDED]


def test_ended_rows_are_pruned_and_waiting_ones_are_not(url: str) -> None:
    with notes_app(url) as app:
        app.migrate()
        run_sql(url, asked("note", '{"text":"a"}'), asked("other", "{}"))
        app.run(until_idle=True)
        time.sleep(0.002)  # to be older than nothing it has to be of another millisecond
        app.tasks.prune("0s")
        assert [row[0] for row in ends(url)] == [2]


def test_the_function_of_postgres_asks_in_the_transaction_of_its_caller(emptied_postgres_url: str) -> None:
    url = emptied_postgres_url
    with notes_app(url) as app:
        app.migrate()
        with psycopg.connect(url) as connection:
            connection.execute("SELECT onceward_enqueue('note', '{\"text\":\"undone\"}')")
            connection.rollback()
        with psycopg.connect(url, autocommit=True) as connection, psycopg.connect(url, autocommit=True) as listening:
            listening.execute("LISTEN onceward")
            ask = "SELECT onceward_enqueue(kind => 'note', payload => %s, priority => -1, after => interval '1 hour')"
            [(first,)] = connection.execute(ask, ['{"text":"by name"}']).fetchall()
            [(second,)] = connection.execute(
                "SELECT onceward_enqueue('note', jsonb_build_object('text', 'by jsonb'))"
            ).fetchall()
            assert next(listening.notifies(timeout=5)).payload == "intake"
            with pytest.raises(psycopg.Error):
                connection.execute("SELECT onceward_enqueue('note', '{')")
        assert take(app) == 2
        found = {number: app.tasks.get(task) for number, task, _ in ends(url)}
        assert (found[first].payload, found[first].priority) == (Note("by name"), -1)
        assert found[first].due_at is not None
        assert found[second].payload == Note("by jsonb")
        assert [row[0] for row in run_sql(url, "SELECT author = session_user FROM onceward_intake")] == [True, True]
