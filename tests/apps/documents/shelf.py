"""A library for tests: files are put on it, ingested and worked on, and everything about it can be asked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from onceward import App, Connection, Task
from onceward.testing import Harness
from onceward_apps.documents import reads, samples, watching
from onceward_apps.documents.admitting import Admitted, admit, document_id
from onceward_apps.documents.app import library
from onceward_apps.documents.ingesting import looked_at
from onceward_apps.documents.payloads import Options
from onceward_apps.documents.reads import Entry
from onceward_apps.statements import change, rows
from onceward_apps.transactions import transaction

OFFLINE = Options()
MOSTLY_SQLITE = pytest.mark.parametrize(
    "library_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.torture)], indirect=True
)
"""For tests with many real processes: on PostgreSQL they are among the long ones."""


def book(topics: Sequence[int], variant: int = 0) -> bytes:
    """A text in markdown with one chunk for each topic."""
    return "\n\n".join(
        f"## {samples.word(90_000 + topic).capitalize()}\n\n{samples.passage(topic, variant)}" for topic in topics
    ).encode()


class Shelf:
    """An app, workers that do everything at once when told to, and a folder."""

    def __init__(self, app: App, url: str, folder: Path) -> None:
        app.migrate()
        app.close()
        self.harness = Harness(app, url=url)
        self.app = self.harness.app
        self.url = url
        self.folder = folder

    def put(self, name: str, content: bytes) -> Path:
        """A file."""
        path = self.folder / name
        path.write_bytes(content)
        return path

    def ingest(self, path: Path, options: Options = OFFLINE, *, again: bool = False) -> Admitted:
        """Have a file admitted."""
        return admit(self.app, looked_at(path), options, round(time.time() * 1_000), again=again)

    def ingest_for_others(self, path: Path, options: Options = OFFLINE) -> Admitted:
        """Have a file admitted by the real clock, for workers in other processes."""
        with library(self.url) as app:
            return admit(app, looked_at(path), options, round(time.time() * 1_000))

    def add(self, name: str, content: bytes, options: Options = OFFLINE) -> str:
        """Put a file there, work until it is in the library, and return its document."""
        path = self.put(name, content)
        self.ingest(path, options)
        self.work()
        return document_id(str(path))

    def work(self) -> None:
        """Work until nothing is left to do."""
        self.harness.drain()

    def entry(self, document: str) -> Entry:
        """How a document stands."""
        [entry] = self.app.read(reads.entries, document)
        return entry

    def task(self, admitted: Admitted) -> Task:
        """The task of what was admitted."""
        assert admitted.task is not None
        return self.app.tasks.get(admitted.task)

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the database says."""

        def look(connection: Connection) -> list[tuple[Any, ...]]:
            return rows(connection, statement, *values)

        return self.app.read(look)

    def change(self, statement: str, *values: Any) -> None:
        """Change something by hand."""
        with transaction(self.app) as connection:
            change(connection, statement, *values)

    def chunks(self, document: str) -> list[str]:
        """The ids of the chunks in force, in order."""
        found = self.rows(
            "SELECT c.chunk FROM docs_chunk c JOIN docs_document d"
            " ON d.document = c.document AND d.generation = c.generation WHERE d.document = ? ORDER BY c.position",
            document,
        )
        return [chunk for (chunk,) in found]

    def connections(self, document: str) -> list[tuple[str, str]]:
        """The connections of a document."""
        found = self.rows(
            "SELECT left_chunk, right_chunk FROM docs_connection WHERE left_document = ? OR right_document = ?",
            document,
            document,
        )
        return sorted((left, right) for left, right in found)

    def assert_sound(self) -> None:
        """Nothing points at nothing, nothing is missing, and the engine keeps its promises."""
        assert_sound(self.app)

    def close(self) -> None:
        """Let go of the database."""
        self.app.close()


def assert_sound(app: App) -> None:
    """Nothing points at nothing, nothing is missing, and the engine keeps its promises."""
    assert app.read(watching.refused_connections) == 0
    assert app.read(watching.missing_chunks) == []
    assert app.read(dangling) == 0
    breaches = [breach.sentence for check in app.verify().checks for breach in check.breaches]
    assert breaches == []


def dangling(connection: Connection) -> int:
    """How many connections and vectors have lost a chunk, and how many chunks in force have no vector."""
    [(count,)] = rows(
        connection,
        "SELECT (SELECT count(*) FROM docs_connection n WHERE NOT EXISTS"
        " (SELECT 1 FROM docs_chunk c WHERE c.chunk = n.left_chunk AND c.generation = n.left_generation"
        "  AND c.document = n.left_document))"
        " + (SELECT count(*) FROM docs_connection n WHERE NOT EXISTS"
        " (SELECT 1 FROM docs_chunk c WHERE c.chunk = n.right_chunk AND c.generation = n.right_generation"
        "  AND c.document = n.right_document))"
        " + (SELECT count(*) FROM docs_vector v WHERE NOT EXISTS"
        " (SELECT 1 FROM docs_chunk c WHERE c.chunk = v.chunk AND c.generation = v.generation))"
        " + (SELECT count(*) FROM docs_document d JOIN docs_chunk c"
        "  ON c.document = d.document AND c.generation = d.generation WHERE NOT EXISTS"
        "  (SELECT 1 FROM docs_vector v WHERE v.chunk = c.chunk AND v.generation = c.generation))",
    )
    return int(count)
