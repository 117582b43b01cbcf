"""Connections that their program has taught other ways: what is enqueued on them is the same as on any other."""

from __future__ import annotations

import asyncio
import sqlite3
import uuid
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.adapt import Dumper, Loader

from onceward import App, Context, Limits, Payload, Pipeline, Status
from onceward.errors import ConfigError, SchemaTooOld
from tests.store.callers import with_driver


class Page(Payload, kind="page"):
    number: int
    text: str = ""


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
        assert [task.id for task in app.tasks.list()] == [limited.task, first.task]


@pytest.mark.parametrize("what", TAUGHT, ids=str)
def test_awaited_too(emptied_postgres_url: str, what: Any) -> None:
    async def enqueue_two(app: App) -> list[int | None]:
        async with await psycopg.AsyncConnection.connect(emptied_postgres_url) as connection:
            teach(connection, what)
            return [(await app.aenqueue(Page(number), conn=connection)).task for number in (1, 2)]

    with app_on(emptied_postgres_url) as app:
        assert asyncio.run(enqueue_two(app)) == [task.id for task in reversed(app.tasks.list())]


CODECS = ["int2", "int4", "int8", "bytea", "uuid", "text", "jsonb"]


async def teach_codec(connection: Any, name: str) -> None:
    """Have asyncpg write and read a type in a way in which no row of a task is right."""
    await connection.set_type_codec(
        name, schema="pg_catalog", encoder=lambda _: "0", decoder=lambda _: "something else", format="text"
    )


@pytest.mark.parametrize("name", CODECS)
def test_codecs_of_asyncpg_concern_their_program_alone(emptied_postgres_url: str, name: str) -> None:
    async def enqueue_all(app: App) -> list[Any]:
        async with asyncpg.create_pool(emptied_postgres_url, min_size=1) as pool, pool.acquire() as connection:
            await teach_codec(connection, name)
            async with connection.transaction():
                outcomes = [await app.aenqueue(Page(1), conn=connection) for _ in range(2)]
                outcomes.append(await app.aenqueue(Page(2), conn=connection, limits=Limits(max_tasks=5)))
                outcomes.append(await app.aenqueue(Page(3, "x" * 9_000), conn=connection))
            value = f"'{uuid.UUID(int=1)}'" if name == "uuid" else "'1'"
            assert await connection.fetchval(f"SELECT {value}::{name}") == "something else", "as the program wants it"
            return outcomes

    with app_on(emptied_postgres_url) as app:
        first, again, limited, large = asyncio.run(enqueue_all(app))
        assert (first.created, again.created, again.existing) == (True, False, first.task)
        assert [task.id for task in app.tasks.list()] == [large.task, limited.task, first.task]
        app.run(until_idle=True)
        assert {app.tasks.get(one).status for one in (first.task, limited.task, large.task)} == {Status.SUCCEEDED}


@pytest.mark.parametrize("name", ["uuid", "numeric"])
def test_sqlalchemy_on_asyncpg_refuses_codecs_that_it_would_use_for_tasks(emptied_postgres_url: str, name: str) -> None:
    aio = pytest.importorskip("sqlalchemy.ext.asyncio")
    pytest.importorskip("greenlet")

    async def enqueue_one(app: App) -> None:
        engine = aio.create_async_engine(with_driver(emptied_postgres_url, "asyncpg"))
        try:
            async with engine.connect() as connection:
                raw = await connection.get_raw_connection()
                await teach_codec(raw.driver_connection, name)
                await app.aenqueue(Page(1), conn=connection)
                await connection.commit()
        finally:
            await engine.dispose()

    with app_on(emptied_postgres_url) as app:
        if name == "uuid":
            with pytest.raises(ConfigError, match="a codec of your own for uuid"):
                asyncio.run(enqueue_one(app))
        else:
            asyncio.run(enqueue_one(app))
        assert len(app.tasks.list()) == (name != "uuid")


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
        assert enqueued == [task.id for task in reversed(app.tasks.list())]


def test_an_empty_file_is_named_as_such_whatever_is_asked_for_first(migrated_sqlite_url: str, tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    with app_on(migrated_sqlite_url) as app, pytest.raises(SchemaTooOld, match="Is it the App's own database"):
        app.enqueue(Page(1), conn=connection)
    connection.close()
