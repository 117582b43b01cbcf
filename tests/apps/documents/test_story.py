"""The story of a book that lost 20 of 61 chunks and 100 of 106 connections, told again: now none is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward import Status
from onceward_apps.documents import connecting, pipelines, provider
from onceward_apps.documents.app import library
from onceward_apps.documents.connecting import Link, Passages
from onceward_apps.documents.payloads import Options
from tests.apps.documents.fleet import Workers, wait_until
from tests.apps.documents.loopback import Provider
from tests.apps.documents.shelf import MOSTLY_SQLITE, Shelf
from tests.apps.documents.tale import CHUNKS, CONNECTIONS, add_companions, assert_complete, the_book

MOMENTS = [
    "before extract:1", "inside commit:2", "after extract:1", "before chunk:1", "before embed:1", "before commit:6",
    "after complete:1", "before detect_connections:1", "after detect_connections:1",
]  # fmt: skip
"""Where a worker kills itself by SIGKILL: at the how-manieth arrival at which point."""
QUICK = ["before embed:1", "before detect_connections:1"]


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider on this machine, which the client finds."""
    made = Provider()
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    provider._client.cache_clear()
    yield made
    provider._client.cache_clear()
    made.close()


def test_undisturbed_the_book_has_61_chunks_and_106_connections(shelf: Shelf) -> None:
    add_companions(shelf)
    assert_complete(shelf, shelf.add("story.epub", the_book()))


@MOSTLY_SQLITE
@pytest.mark.parametrize(
    "moment",
    [pytest.param(moment, marks=() if moment in QUICK else pytest.mark.torture) for moment in MOMENTS],
)
def test_a_worker_that_is_killed_loses_no_chunk_and_no_connection(shelf: Shelf, library_url: str, moment: str) -> None:
    add_companions(shelf)
    admitted = shelf.ingest_for_others(shelf.put("story.epub", the_book()))
    log = shelf.folder / "workers.log"

    first = Workers(library_url, log, ONCEWARD_CRASH_POINT=moment).end()
    second = Workers(library_url, log).end()

    assert (first, second) == (-signal.SIGKILL, 0), log.read_text()
    assert_complete(shelf, admitted.file.document)


@MOSTLY_SQLITE
def test_a_worker_that_comes_back_after_its_lease_changes_nothing(
    shelf: Shelf, library_url: str, paid: Provider
) -> None:
    """The story's own moment: a job is taken for dead while it embeds, another one takes it over, and it comes back."""
    paid.delay_s = 1.0
    add_companions(shelf)
    options = Options(embedding="made-embedding")
    admitted = shelf.ingest_for_others(shelf.put("story.epub", the_book()), options)
    log = shelf.folder / "workers.log"
    lost = Workers(library_url, log, ONCEWARD_LEASE="1.5s")
    wait_until(lambda: paid.calls.total() > 0)
    before = shelf.rows("SELECT chunk FROM docs_chunk WHERE document = ? ORDER BY position", admitted.file.document)
    lost.freeze()
    paid.delay_s = 0.0

    successor = Workers(library_url, log, ONCEWARD_LEASE="1.5s").end()
    lost.thaw()

    assert (successor, lost.end()) == (0, 0), log.read_text()
    assert [(chunk,) for chunk in shelf.chunks(admitted.file.document)] == before
    assert len(before) == CHUNKS
    assert shelf.task(admitted).status is Status.SUCCEEDED
    assert paid.answered.total() <= 2, "one that was under way, and one that is kept"


def test_resume_from_checkpoint_after_timeout_without_new_paid_calls(
    shelf: Shelf, paid: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(embedding="made-embedding", cleaning="made-model")
    admitted = shelf.ingest(shelf.put("story.epub", the_book()), options)
    shelf.harness.drain(attempts=5)
    paid_before = paid.calls.total()
    assert paid_before > 1
    shelf.harness.crash("before complete", times=2)

    shelf.work()

    assert shelf.task(admitted).status is Status.SUCCEEDED
    assert len(shelf.chunks(admitted.file.document)) == CHUNKS
    assert paid.calls.total() == paid_before


def test_chunks_are_not_deleted_during_embeddings(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "VECTORS_AT_ONCE", 10)
    admitted = shelf.ingest(shelf.put("story.epub", the_book()))
    document = admitted.file.document
    statement = "SELECT chunk FROM docs_chunk WHERE document = ? ORDER BY position"
    seen = []
    shelf.harness.drain(attempts=3)
    for _ in range(4):
        seen.append(shelf.rows(statement, document))
        shelf.harness.crash("after commit", times=2)  # between two parts of the embeddings
        shelf.harness.drain(attempts=1)

    shelf.work()

    after = shelf.rows(statement, document)
    assert len(after) == CHUNKS
    assert seen == [after] * 4


def test_no_foreign_key_violation_on_connection_detection_during_reprocessing(
    shelf: Shelf, library_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    companions = add_companions(shelf)
    admitted = shelf.ingest(shelf.put("story.epub", the_book()))
    detecting, reprocessed = threading.Event(), threading.Event()
    real = connecting.links

    def slow(left: Passages, right: Passages) -> list[Link]:
        found = real(left, right)
        if found and threading.current_thread() is not threading.main_thread() and not detecting.is_set():
            detecting.set()
            assert reprocessed.wait(60)
        return found

    monkeypatch.setattr(connecting, "links", slow)
    worker = threading.Thread(target=shelf.work)
    worker.start()
    assert detecting.wait(60)
    other = Shelf(library(library_url), library_url, tmp_path)
    for name in ("companion1.epub", "story.epub"):  # while connections are found with their old chunks
        other.ingest(shelf.folder / name, again=True)
    other.work()
    reprocessed.set()
    worker.join()
    other.close()
    shelf.work()

    assert len(companions) == 2
    assert_complete(shelf, admitted.file.document)
    detections = shelf.app.tasks.list(kind="detect_connections", limit=100)
    assert {task.status for task in detections} <= {Status.SUCCEEDED, Status.SKIPPED}
    assert len(shelf.connections(admitted.file.document)) == CONNECTIONS
