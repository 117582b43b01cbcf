"""Connections that their program has taught other ways: what is enqueued on them is the same as on any other."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.adapt import Dumper, Loader

from onceward import App, Context, Limits, Payload, Pipeline
from onceward.errors import SchemaTooOld


class Page(Payload, kind="page"):
    number: int


class OtherLoader(Loader):
    def load(self, data: Any) -> str:
        return "something else"


class OtherDumper(Dumper):
    oid = 25

    def dump(self, obj: Any) -> bytes:
        return b"something else"


def app_on(url: str) -> App:
    page = Pipeline(Page, unique="everywhere", fresh_for="1h")

    @page.stage
    def read(ctx: Context[Page]) -> None: ...

    return App(url, [page])


def teach(connection: Any, what: Any) -> None:
    if isinstance(what, str):
        connection.adapters.register_loader(what, OtherLoader)
    else:
        connection.adapters.register_dumper(what, OtherDumper)


TAUGHT = ["int2", "int4", "int8", "bytea", "uuid", "text", int, bytes, list, str]


@pytest.mark.parametrize("what", TAUGHT, ids=str)
def test_what_a_connection_was_taught_concerns_its_program_alone(emptied_postgres_url: str, what: Any) -> None:
    with app_on(emptied_postgres_url) as app, psycopg.connect(emptied_postgres_url) as connection:
        teach(connection, what)
        first, again = (app.enqueue(Page(1), conn=connection) for _ in range(2))
        limited = app.enqueue(Page(2), conn=connection, limits=Limits(max_tasks=5))
        connection.commit()
        assert (first.created, again.created, again.existing, limited.created) == (True, False, first.task, True)
        assert [task.id for task in app.tasks()] == [limited.task, first.task]


@pytest.mark.parametrize("what", TAUGHT, ids=str)
def test_awaited_too(emptied_postgres_url: str, what: Any) -> None:
    async def enqueue_two(app: App) -> list[int | None]:
        async with await psycopg.AsyncConnection.connect(emptied_postgres_url) as connection:
            teach(connection, what)
            return [(await app.aenqueue(Page(number), conn=connection)).task for number in (1, 2)]

    with app_on(emptied_postgres_url) as app:
        assert asyncio.run(enqueue_two(app)) == [task.id for task in reversed(app.tasks())]


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_pipeline_of_psycopg_is_no_obstacle(emptied_postgres_url: str, autocommit: bool) -> None:
    with app_on(emptied_postgres_url) as app:
        with (
            psycopg.connect(emptied_postgres_url, autocommit=autocommit) as connection,
            connection.pipeline(),
            connection.transaction() if autocommit else nullcontext(),
        ):
            connection.execute("SELECT 1")
            enqueued = [app.enqueue(Page(number), conn=connection).task for number in (1, 2)]
        assert enqueued == [task.id for task in reversed(app.tasks())]


def test_an_empty_file_is_named_as_such_whatever_is_asked_for_first(migrated_sqlite_url: str, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    with app_on(migrated_sqlite_url) as app, pytest.raises(SchemaTooOld, match="Is it the App's own database"):
        app.enqueue(Page(1), conn=connection)
    connection.close()
