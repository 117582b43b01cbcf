"""From a file to chunks that can be searched: what each stage leaves behind, and where it goes on after a death."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from onceward import Status
from onceward_apps.documents import opening, pipelines
from onceward_apps.documents.reading import About, Part, Reason, Unreadable
from onceward_apps.documents.reads import markdown
from tests.apps.documents.shelf import Shelf, book


class Parts:
    """A document of many parts, in which reading may fail at one."""

    def __init__(self, texts: list[str], fails: dict[int, BaseException] | None = None) -> None:
        self.texts = texts
        self.fails = {} if fails is None else fails
        self.read: Counter[int] = Counter()
        self.about = About(format="made", title="Made", creators=("Nobody",), language="en")
        self.part_count = len(texts)

    def part(self, index: int) -> Part:
        self.read[index] += 1
        if index in self.fails:
            raise self.fails.pop(index)
        return Part(index, None, self.texts[index])

    def close(self) -> None:
        pass


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    """What every file is read as."""
    made = Parts([book([topic]).decode() for topic in range(6)])

    def opened(path: Path, **_: Any) -> Parts:
        return made

    monkeypatch.setattr(opening, "open_document", opened)
    monkeypatch.setattr(pipelines, "GROUP_CHARACTERS", 1)
    return made


def test_a_file_becomes_chunks_with_vectors_and_what_is_known_of_it(shelf: Shelf) -> None:
    document = shelf.add("book.md", book(range(5)))

    entry = shelf.entry(document)
    assert (entry.state, entry.generation, entry.chunks) == ("ready", 1, 5)
    assert entry.words == len(book(range(5)).decode().replace("#", "").split())
    assert entry.extract_ms is not None
    assert entry.about is not None
    assert entry.outline is not None
    assert len(msgspec.json.decode(entry.outline)) == 5
    assert entry.connected_at is not None
    text = shelf.app.read(markdown, document, 1)
    found = shelf.rows("SELECT start_at, end_at, text FROM docs_chunk WHERE document = ? ORDER BY position", document)
    assert [text[start:end] for start, end, _ in found] == [chunk for _, _, chunk in found]
    assert shelf.rows("SELECT model, count(*) FROM docs_vector GROUP BY model") == [("wordllama-256", 5)]


def test_reading_goes_on_at_the_part_where_it_failed(shelf: Shelf, parts: Parts) -> None:
    parts.fails = {4: OSError("the disk is away")}

    document = shelf.add("book.md", b"anything")

    assert shelf.entry(document).state == "ready"
    assert parts.read == Counter({0: 1, 1: 1, 2: 1, 3: 1, 4: 2, 5: 1}), "what was kept is not read again"


def test_a_file_that_cannot_be_read_says_why_and_the_others_go_on(shelf: Shelf, parts: Parts) -> None:
    parts.fails = {2: Unreadable(Reason.BROKEN, "page 3 is torn")}
    torn = shelf.ingest(shelf.put("torn.md", b"torn"))
    whole = shelf.ingest(shelf.put("whole.md", b"whole"))

    shelf.work()

    assert shelf.task(torn).status is Status.FAILED
    assert shelf.task(torn).reason == "broken: page 3 is torn"
    entry = shelf.entry(torn.file.document)
    assert (entry.state, entry.reason, entry.detail) == ("failed", "broken", "page 3 is torn")
    assert shelf.rows("SELECT count(*) FROM docs_part WHERE document = ?", torn.file.document) == [(0,)]
    assert shelf.entry(whole.file.document).state == "ready"


def test_a_file_that_takes_too_much_memory_is_too_large(shelf: Shelf, parts: Parts) -> None:
    parts.fails = {1: MemoryError()}

    document = shelf.add("book.md", b"anything")

    assert shelf.entry(document).reason == Reason.TOO_LARGE


def test_a_file_that_kills_its_reader_at_one_place_is_broken_in_the_end(shelf: Shelf, parts: Parts) -> None:
    admitted = shelf.ingest(shelf.put("book.md", b"anything"))
    shelf.harness.crash("after extract", times=pipelines.MOST_DEATHS + 1)  # the first one has come far

    shelf.work()

    assert shelf.task(admitted).status is Status.FAILED
    entry = shelf.entry(admitted.file.document)
    assert (entry.reason, entry.detail) == ("broken", "its reader died 10 times at part 7")


def test_a_text_without_words_has_no_text(shelf: Shelf, parts: Parts) -> None:
    parts.texts = ["", " \n"]
    parts.part_count = 2

    document = shelf.add("book.md", b"anything")

    assert shelf.entry(document).reason == Reason.NO_TEXT


POINTS = [
    "after claim", "before commit", "inside commit", "after commit", "before extract", "after extract",
    "before save_markdown", "after save_markdown", "before chunk", "after chunk", "before embed", "after embed",
    "before complete", "after complete", "before detect_connections", "after detect_connections",
]  # fmt: skip


QUICK = {"before commit", "inside commit", "after commit", "after chunk", "before complete", "after detect_connections"}


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in QUICK else pytest.mark.torture) for point in POINTS]
)
def test_whoever_dies_anywhere_the_chunks_and_connections_are_the_same(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    monkeypatch.setattr(pipelines, "CHUNKS_AT_ONCE", 3)
    monkeypatch.setattr(pipelines, "VECTORS_AT_ONCE", 2)
    other = shelf.add("other.md", book(range(8), variant=1))
    path = shelf.put("book.md", book(range(10)))
    shelf.harness.crash(point, times=3)

    admitted = shelf.ingest(path)
    shelf.work()

    assert shelf.harness.crashes == 3
    document = admitted.file.document
    assert len(shelf.chunks(document)) == 10
    assert len(shelf.connections(document)) == 8
    assert shelf.connections(other) == shelf.connections(document)
    before = shelf.chunks(document)
    shelf.ingest(path, again=True)
    shelf.work()
    assert shelf.chunks(document) == before, "ids follow from the document, the place and the text"
    assert len(shelf.connections(document)) == 8
