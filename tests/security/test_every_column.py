"""No column of any table can name code: each is filled with names of a canary, and workers and onlookers go over it."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from onceward import App, Budget, Config, Context, Cron, Payload, Pipeline, Retry, Setting, Source, Waiting
from tests.proof.tally import SEED
from tests.security.test_hostile_rows import CANARY, PICKLES, TRACE


class Thing(Payload, kind="thing"):
    """What is worked on; `way` says how."""

    name: str
    way: str = ""


usd = Budget("usd", limit=100, per="day")
web = Source("web", cache="1h", rate="1000/s")


def rich_app(url: str) -> App:
    """An app that uses what the engine has, so that few tables stay empty."""
    thing = Pipeline(Thing, retry=Retry(retries=2, base="1h"), deadline="30d")

    @thing.stage(source=web, budget=usd, estimate=1)
    def begin(ctx: Context[Thing]) -> str:
        ctx.progress(1, 2, "half way")
        ctx.checkpoint({"at": 1})
        ctx.once("paid", lambda: "yes")
        ctx.cached(web, "answer", lambda: 42)
        if ctx.payload.way == "spawn":
            ctx.spawn(Thing(f"child of {ctx.payload.name}"))
            ctx.spawn(Thing(ctx.payload.name, "spawn"))  # refused: a circle
        if ctx.payload.way == "fail":
            raise OSError("no luck")
        if ctx.payload.way == "wait" and ctx.signal("go") is None:
            raise Waiting(until="go", reason="for a word")
        return "begun"

    @thing.stage(join=True)
    def end(ctx: Context[Thing]) -> str:
        return f"{len(ctx.children())}"

    return App(
        url,
        [thing],
        schedules=[Cron("* * * * *", Thing("scheduled"), name="often")],
        settings=[Setting("size", 50, int, "Rows.")],
        config=Config(poll="50ms"),
    )


def fill(app: App) -> None:
    """A database in which much has happened, and much is still to be done."""
    for way in ("", "spawn", "fail", "wait"):
        app.enqueue(Thing(f"done {way}", way))
    with app.batch("some", then=Thing("then")) as batch:
        batch.add(Thing("of a batch"))
    app.tick()
    for way in ("", "spawn", "wait"):
        app.enqueue(Thing(f"to do {way}", way))
    with app.batch("more", then=Thing("then again")) as batch:
        batch.add(Thing("of another batch", "wait"))
    waiting = next(task for task in app.tasks.list(limit=100) if task.waiting_for is not None)
    app.tasks.signal(waiting.id, "go", {"word": "go"})
    app.settings.set("size", 60)
    app.enqueue(Thing("later"), after="1h")


def columns(path: Path) -> Iterator[tuple[str, str, str]]:
    """Every column of a table with rows in it: table, column, type."""
    with closing(sqlite3.connect(path)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]:
                for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})"):
                    yield table, column, kind


def poison(path: Path, table: str, column: str, kind: str) -> bool:
    """Write a name of code to a column; whether the database took it."""
    values = (PICKLES[1],) if kind == "BLOB" else (f"{CANARY}:sing",)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys = off")
        with suppress(sqlite3.IntegrityError):  # a check, or two rows that would be the same
            connection.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", values)
            connection.commit()
            return True
    return False


def go_over(app: App) -> None:
    """Work on what is there, and look at all of it. What cannot be understood may be an error, never anything else."""
    looks = (
        lambda: app.tick(time_limit="200ms", max_tasks=20),
        lambda: [app.tasks.get(task.id) for task in app.tasks.list(limit=100)],
        app.verify, app.stats.get, app.alerts.list, app.sources.list, app.budgets.list, app.settings.list,
        app.schedules.list, app.lineages.list, app.batches.list,
    )  # fmt: skip
    for look in looks:
        with suppress(Exception):
            look()


def test_some_columns_of_the_tables_cannot_name_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert poison_columns(tmp_path, monkeypatch, every=5) > 8


@pytest.mark.torture
def test_no_column_of_any_table_can_name_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert poison_columns(tmp_path, monkeypatch, every=1) > 40


def poison_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, every: int) -> int:
    """Have columns name code, one after the other, and work on what is there; how many have taken it."""
    trace = tmp_path / "trace"
    monkeypatch.setenv(TRACE, str(trace))
    original, copy = tmp_path / "original.db", tmp_path / "copy.db"
    with rich_app(f"sqlite:///{original}") as app:
        fill(app)
    taken = 0
    texts = [(table, column, kind) for table, column, kind in columns(original) if kind in ("TEXT", "BLOB")]
    assert len({table for table, _, _ in texts}) > 15
    for table, column, kind in texts[SEED % every :: every]:
        shutil.copy(original, copy)
        taken += poison(copy, table, column, kind)
        with rich_app(f"sqlite:///{copy}") as app:
            go_over(app)
        assert not trace.exists(), f"{table}.{column} has named code"
        assert CANARY not in sys.modules, f"{table}.{column} has named a module"
    return taken
