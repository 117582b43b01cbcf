"""Generations: a file that changes, comes twice, goes away; and what becomes of what pointed at it."""

from __future__ import annotations

import threading

import pytest

from onceward import Status
from onceward_apps.documents import reads, watching, writes
from onceward_apps.documents.admitting import Decision
from onceward_apps.documents.app import library
from onceward_apps.documents.payloads import Connecting
from onceward_apps.documents.removing import remove
from onceward_apps.transactions import transaction
from tests.apps.documents.shelf import Shelf, book


def test_a_file_that_has_not_changed_is_left_alone(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))

    admitted = shelf.ingest(shelf.folder / "book.md")

    assert (admitted.decision, admitted.task) == (Decision.UNCHANGED, None)
    assert shelf.entry(document).generation == 1


def test_a_changed_file_is_seen_as_the_old_one_until_it_is_seen_as_the_new_one(shelf: Shelf) -> None:
    other = shelf.add("other.md", book(range(4), variant=1))
    document = shelf.add("book.md", book(range(3)))
    before = shelf.chunks(document)
    shelf.put("book.md", book(range(1, 5)))
    admitted = shelf.ingest(shelf.folder / "book.md")
    assert admitted.decision is Decision.CHANGED
    seen: set[tuple[str, ...]] = set()
    for _ in range(4):  # extract, save_markdown, chunk, embed
        shelf.harness.drain(attempts=1)
        seen.add(tuple(shelf.chunks(document)))

    shelf.work()

    assert seen == {tuple(before)}
    assert len(shelf.chunks(document)) == 4
    assert shelf.rows("SELECT generation FROM docs_generation WHERE document = ?", document) == [(2,)]
    assert shelf.rows("SELECT count(*) FROM docs_chunk WHERE document = ?", document) == [(4,)]
    assert len(shelf.connections(document)) == 3, "of topics 1, 2 and 3"
    assert shelf.connections(other) == shelf.connections(document)


def test_a_newer_file_that_cannot_be_read_leaves_the_old_one_in_force(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))
    shelf.add("book.md", b"")

    entry = shelf.entry(document)
    assert (entry.state, entry.generation, entry.newer, entry.newer_reason) == ("ready", 1, 2, "empty")
    assert len(shelf.chunks(document)) == 3


def test_a_file_that_is_again_as_it_was_needs_nothing(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))
    shelf.put("book.md", book(range(5)))
    newer = shelf.ingest(shelf.folder / "book.md")
    shelf.put("book.md", book(range(3)))

    admitted = shelf.ingest(shelf.folder / "book.md")
    shelf.work()

    assert admitted.decision is Decision.UNCHANGED
    assert shelf.task(newer).status is Status.SKIPPED
    assert len(shelf.chunks(document)) == 3


def test_an_unreadable_file_is_not_read_again_before_it_changes(shelf: Shelf) -> None:
    document = shelf.add("book.md", b"")

    assert shelf.ingest(shelf.folder / "book.md").decision is Decision.UNREADABLE
    assert shelf.add("book.md", book(range(2))) == document
    assert shelf.entry(document).state == "ready"


def test_a_file_that_changed_before_it_was_read_is_tried_again(shelf: Shelf) -> None:
    path = shelf.put("book.md", book(range(3)))
    first = shelf.ingest(path)
    shelf.put("book.md", book(range(4)))
    shelf.work()
    assert shelf.entry(first.file.document).reason == "changed while it was read"
    shelf.put("book.md", book(range(3)))

    assert shelf.ingest(path).decision is Decision.NEW
    shelf.work()
    assert shelf.entry(first.file.document).state == "ready"


def test_the_same_content_under_another_name_is_not_worked_on_twice(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))

    copy = shelf.ingest(shelf.put("copy.md", book(range(3))))

    assert (copy.decision, copy.task, copy.same_as) == (Decision.SAME, None, document)
    assert shelf.entry(copy.file.document).same_as == document
    assert shelf.ingest(shelf.folder / "copy.md").decision is Decision.SAME
    other = shelf.ingest(shelf.put("copy.txt", book(range(3))))
    assert other.decision is Decision.NEW, "another ending is read by another reader"


def test_a_copy_is_worked_on_when_the_original_is_gone_or_another(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))
    copy = shelf.ingest(shelf.put("copy.md", book(range(3)))).file.document
    shelf.add("book.md", book(range(4)))
    assert shelf.entry(copy).same_as is None

    assert shelf.ingest(shelf.folder / "copy.md").decision is not Decision.SAME
    shelf.work()

    assert (len(shelf.chunks(copy)), len(shelf.chunks(document))) == (3, 4)
    assert len(shelf.connections(copy)) == 3


def test_a_document_that_becomes_a_copy_gives_up_its_own_chunks(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))
    other = shelf.add("other.md", book(range(4)))
    shelf.put("other.md", book(range(3)))

    assert shelf.ingest(shelf.folder / "other.md").same_as == document
    assert shelf.chunks(other) == []
    assert shelf.connections(document) == []


def test_two_who_see_a_file_at_once_make_one_generation(shelf: Shelf, library_url: str) -> None:
    path = shelf.put("book.md", book(range(3)))
    apps = [library(library_url) for _ in range(4)]
    start = threading.Barrier(len(apps))
    decisions: list[Decision] = []

    def ingest(number: int) -> None:
        own = Shelf.__new__(Shelf)
        own.app = apps[number]
        start.wait()
        decisions.append(own.ingest(path).decision)

    threads = [threading.Thread(target=ingest, args=(number,)) for number in range(len(apps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for app in apps:
        app.close()

    assert sorted(decisions) == [Decision.GOING_ON] * 3 + [Decision.NEW]
    assert shelf.rows("SELECT count(*) FROM docs_generation") == [(1,)]
    assert len(shelf.app.tasks.list(kind="document")) == 1


def test_what_was_stopped_goes_on_where_it_was(shelf: Shelf) -> None:
    admitted = shelf.ingest(shelf.put("book.md", book(range(3))))
    shelf.app.tasks.cancel(admitted.task or 0)
    shelf.work()
    assert shelf.entry(admitted.file.document).state == "reading"

    again = shelf.ingest(shelf.folder / "book.md")
    shelf.work()

    assert (again.decision, again.task) == (Decision.GOING_ON, admitted.task)
    assert shelf.entry(admitted.file.document).state == "ready"


def test_connections_that_nobody_looks_for_any_more_are_found_when_a_file_is_given_again(shelf: Shelf) -> None:
    shelf.add("other.md", book(range(3), variant=1))
    admitted = shelf.ingest(shelf.put("book.md", book(range(3))))
    shelf.harness.drain(attempts=5)
    [task] = shelf.app.tasks.list(kind="detect_connections", limit=1)
    shelf.app.tasks.cancel(task.id)
    assert shelf.entry(admitted.file.document).connected_at is None

    assert shelf.ingest(shelf.folder / "book.md").decision is Decision.UNCHANGED
    assert shelf.ingest(shelf.folder / "book.md").decision is Decision.UNCHANGED
    shelf.work()

    assert len(shelf.connections(admitted.file.document)) == 3
    assert len(shelf.app.tasks.list(kind="detect_connections", limit=100)) == 3, (
        "of the other one, cancelled, and one more"
    )


def test_a_removed_document_takes_everything_with_it(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))
    other = shelf.add("other.md", book(range(3), variant=1))

    remove(shelf.app, document)

    assert shelf.rows("SELECT count(*) FROM docs_chunk WHERE document = ?", document) == [(0,)]
    assert shelf.rows("SELECT count(*) FROM docs_connection") == [(0,)]
    assert len(shelf.chunks(other)) == 3
    assert shelf.add("book.md", book(range(3))) == document
    assert len(shelf.connections(other)) == 3


@pytest.mark.parametrize("stage", ["extract", "chunk", "embed", "complete", "detect_connections"])
def test_a_document_can_be_removed_while_it_is_worked_on(shelf: Shelf, stage: str) -> None:
    other = shelf.add("other.md", book(range(3), variant=1))
    admitted = shelf.ingest(shelf.put("book.md", book(range(3))))
    shelf.harness.drain(attempts={"extract": 0, "chunk": 2, "embed": 3, "complete": 4, "detect_connections": 5}[stage])

    remove(shelf.app, admitted.file.document)
    shelf.work()

    assert shelf.app.read(reads.entries, admitted.file.document) == []
    assert shelf.rows("SELECT count(*) FROM docs_chunk") == [(3,)]
    assert len(shelf.chunks(other)) == 3


def test_what_was_found_in_an_older_generation_is_not_written(shelf: Shelf) -> None:
    other = shelf.add("other.md", book(range(3), variant=1))
    document = shelf.add("book.md", book(range(3)))
    left, right = sorted([(document, 1), (other, 1)])
    pairs = [(*pair, 0.9, "found before") for pair in shelf.connections(document)]
    shelf.ingest(shelf.folder / "book.md", again=True)
    shelf.work()

    with transaction(shelf.app) as connection:
        writes.put_links(connection, left, right, pairs)

    assert shelf.rows("SELECT count(*) FROM docs_connection WHERE why = 'found before'") == [(0,)]
    old = shelf.app.enqueue(Connecting(document, 1, 3, "by hand"))
    shelf.work()
    assert shelf.app.tasks.get(old.id).status is Status.SKIPPED


def test_chunks_that_stay_keep_their_vectors(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))
    shelf.change("UPDATE docs_vector SET model = 'wordllama-256'")
    before = shelf.rows("SELECT chunk, vector FROM docs_vector ORDER BY chunk")
    shelf.add("book.md", book(range(5)))

    after = dict(shelf.rows("SELECT chunk, vector FROM docs_vector ORDER BY chunk"))
    assert len(after) == 5
    assert [(chunk, after[chunk]) for chunk, _ in before] == before
    assert shelf.entry(document).generation == 2


def test_chunks_that_were_deleted_by_hand_are_told(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))
    assert shelf.app.alerts.look() == []
    shelf.change("DELETE FROM docs_chunk WHERE document = ? AND position = 1", document)

    [alert] = shelf.app.alerts.look()

    assert (alert.rule, alert.subject) == ("chunks deleted", document)
    shelf.ingest(shelf.folder / "book.md", again=True)
    shelf.work()
    assert shelf.app.alerts.look() == []


def test_a_connection_without_its_chunk_is_refused_counted_and_told(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(3)))
    other = shelf.add("other.md", book(range(3), variant=1))
    left, right = sorted([(document, 1), (other, 1)])
    [*pairs] = shelf.connections(document)
    with transaction(shelf.app) as connection:
        writes.put_links(connection, left, right, [(pairs[0][0], "c-missing", 0.9, "by hand")])

    assert shelf.app.read(watching.refused_connections) == 1
    assert [alert.rule for alert in shelf.app.alerts.look()] == ["refused connections"]
    shelf.change("DELETE FROM docs_count")
