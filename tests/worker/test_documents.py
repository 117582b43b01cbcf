"""A document pipeline in small: extract, chunk, embed, connect. What a retry of it may never do."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from onceward import Connection, Context, Migration, Payload, Pipeline, Status
from onceward.testing import Harness
from tests.worker.conftest import Start

TABLES = [
    Migration("chunks", "CREATE TABLE chunk (id varchar(32) PRIMARY KEY, document varchar(40), text varchar(80))"),
    Migration(
        "embeddings",
        "CREATE TABLE embedding (chunk varchar(32) PRIMARY KEY REFERENCES chunk (id), x double precision NOT NULL)",
    ),
    Migration(
        "connections",
        "CREATE TABLE connection (a varchar(32) REFERENCES chunk (id), b varchar(32) REFERENCES chunk (id),"
        " PRIMARY KEY (a, b))",
    ),
]


class Document(Payload, kind="document"):
    name: str
    chunks: int = 12

    def key(self) -> str:
        return self.name


class Chunk(msgspec.Struct):
    id: str
    text: str


def upsert(connection: Connection, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows that may be there already; never a delete before an insert."""
    mark = "?" if connection.dialect == "sqlite" else "%s"
    places = ", ".join([mark] * len(columns))
    connection.executemany(f"INSERT INTO {table} VALUES ({places}) ON CONFLICT DO NOTHING", rows)


def delete_chunks(connection: Connection, document: str) -> None:
    mark = "?" if connection.dialect == "sqlite" else "%s"
    connection.execute(f"DELETE FROM chunk WHERE document = {mark}", (document,))


class Library:
    """The pipeline, the model it pays for, and what goes wrong on the way."""

    def __init__(self) -> None:
        self.extractions = 0
        self.embedded: list[str] = []
        self.trouble: dict[str, int] = {}
        self.pipeline = document = Pipeline(Document)

        @document.stage
        def extract(ctx: Context[Document]) -> str:
            if ctx.is_fresh:  # a fact the engine knows, not a guess: nothing later has used the old output
                ctx.write(delete_chunks, ctx.payload.name)
            self.extractions += 1
            return " ".join(f"word{number}" for number in range(ctx.payload.chunks))

        @document.stage
        def chunk(ctx: Context[Document]) -> list[Chunk]:
            texts = ctx.result(extract).split()
            chunks = [Chunk(self.stable_id(ctx.idempotency_key, place), text) for place, text in enumerate(texts)]
            name = ctx.payload.name
            ctx.write(upsert, "chunk", ("id", "document", "text"), [(one.id, name, one.text) for one in chunks])
            self.stumble("chunk")
            return chunks

        @document.stage
        async def embed(ctx: Context[Document]) -> int:
            chunks = ctx.result(chunk)
            for place in range(ctx.cursor_as(int) or 0, len(chunks), 4):
                batch = chunks[place : place + 4]
                self.embedded += [one.id for one in batch]
                ctx.write(upsert, "embedding", ("chunk", "x"), [(one.id, len(one.text)) for one in batch])
                if place == 4:
                    self.stumble("embed")
                await ctx.acheckpoint(place + 4)
            return len(chunks)

        @document.stage
        def connect(ctx: Context[Document]) -> int:
            chunks = ctx.result(chunk)
            pairs = [(a.id, b.id) for a, b in pairwise(chunks)]
            ctx.write(upsert, "connection", ("a", "b"), pairs)
            self.stumble("connect")
            return len(pairs)

    @staticmethod
    def stable_id(key: str, place: int) -> str:
        return hashlib.blake2b(f"{key}/{place}".encode(), digest_size=16).hexdigest()

    def stumble(self, stage: str) -> None:
        if self.trouble.get(stage, 0) > 0:
            self.trouble[stage] -= 1
            raise ConnectionError(f"{stage}: the service is away")


@pytest.fixture
def library() -> Library:
    return Library()


def rows(harness: Harness, sql: str) -> list[tuple[Any, ...]]:
    return harness.app.read(lambda connection: sorted(connection.execute(sql).fetchall()))


def dangling(harness: Harness) -> list[tuple[Any, ...]]:
    return rows(harness, "SELECT a, b FROM connection WHERE a NOT IN (SELECT id FROM chunk)"
                         " OR b NOT IN (SELECT id FROM chunk)")  # fmt: skip


def test_a_retry_resumes_from_the_checkpoint_without_asking_the_model_again(start: Start, library: Library) -> None:
    library.trouble = {"chunk": 2, "embed": 2, "connect": 2}
    harness = start(library.pipeline, migrations=TABLES)
    task = harness.enqueue(Document("moby dick"))
    harness.drain()
    assert harness.task(task).status is Status.SUCCEEDED
    assert library.extractions == 1
    once = library.embedded[:4] + library.embedded[-4:]
    assert all(library.embedded.count(chunk) == 1 for chunk in once), "what lies before the cursor is not paid again"
    assert len(library.embedded) == 12 + 2 * 4, "only the batch that failed is asked for again"
    assert len(rows(harness, "SELECT chunk FROM embedding")) == 12


def test_chunks_keep_their_ids_while_embeddings_are_retried(start: Start, library: Library) -> None:
    library.trouble = {"embed": 3}
    harness = start(library.pipeline, migrations=TABLES)
    task = harness.enqueue(Document("moby dick"))
    harness.drain(wait_for_due=False)
    assert harness.task(task).stage == "embed"
    ids = rows(harness, "SELECT id FROM chunk")
    assert len(ids) == 12
    harness.drain()
    assert rows(harness, "SELECT id FROM chunk") == ids
    assert rows(harness, "SELECT chunk FROM embedding") == ids
    harness.app.tasks.retry(task.id, stage="embed")
    harness.drain()
    assert rows(harness, "SELECT id FROM chunk") == ids


@pytest.mark.parametrize("point", ["before commit", "inside commit", "after commit", "after embed", "before connect"])
def test_connections_never_point_at_missing_chunks(start: Start, library: Library, point: str) -> None:
    library.trouble = {"connect": 1, "embed": 1}
    harness = start(library.pipeline, migrations=TABLES)
    books = [harness.enqueue(Document(f"book {number}", 8)) for number in range(3)]
    harness.crash(point, times=2)
    harness.drain()
    assert [harness.task(book).status for book in books] == [Status.SUCCEEDED] * 3
    assert dangling(harness) == []
    assert len(rows(harness, "SELECT a, b FROM connection")) == 3 * 7
    assert len(rows(harness, "SELECT id FROM chunk")) == 3 * 8, "and no chunk is lost or there twice"
    harness.app.tasks.retry(books[0].id, stage="connect")
    harness.drain()
    assert dangling(harness) == []
    assert len(rows(harness, "SELECT a, b FROM connection")) == 3 * 7
