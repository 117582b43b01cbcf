"""A provider's models, through the real client: metered, within a budget, and never paid twice for the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onceward import Status
from onceward_apps.documents import pipelines, provider, reads, samples, tidying, writes
from onceward_apps.documents.cli import main
from onceward_apps.documents.payloads import Options
from onceward_apps.documents.provider import Answer
from onceward_apps.documents.removing import remove
from tests.apps.documents.loopback import DIMENSIONS, Provider
from tests.apps.documents.shelf import Shelf, book

BY_PROVIDER = Options(embedding="made-embedding")


@pytest.fixture
def paid(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """A provider on this machine, which the client finds."""
    made = Provider()
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    provider._client.cache_clear()
    monkeypatch.setattr(pipelines, "PAID_VECTORS_AT_ONCE", 4)
    yield made
    provider._client().close()
    provider._client.cache_clear()
    made.close()


def test_vectors_of_a_provider_are_paid_once_and_metered(shelf: Shelf, paid: Provider) -> None:
    document = shelf.add("book.md", book(range(10)), BY_PROVIDER)

    assert shelf.entry(document).state == "ready"
    assert shelf.rows("SELECT model, count(*) FROM docs_vector GROUP BY model") == [("made-embedding", 10)]
    assert paid.calls.total() == 3
    counted = shelf.app.read(reads.counts)
    assert counted[writes.PAID_CALLS] == 3
    assert counted[writes.PAID_TOKENS] > 1_000
    [budget] = [one for one in shelf.app.budgets.list() if one.name == provider.CALLS.name]
    assert budget.spent == 3
    assert provider.ask_for_vectors("made-embedding", ["one", "two"]).matrix().shape == (2, DIMENSIONS)


def test_what_a_provider_has_read_is_searched_with_its_vectors(
    shelf: Shelf, paid: Provider, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf.add("book.md", book(range(10)), BY_PROVIDER)
    calls = paid.calls.total()
    word = samples.passage(3).split()[0]

    assert main(["search", word, "--library", shelf.url]) == 0

    assert paid.calls.total() == calls + 1
    assert shelf.app.read(reads.counts)[writes.PAID_CALLS] == calls + 1
    provider._client().close()
    provider._client.cache_clear()
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert main(["search", word, "--library", shelf.url]) == 0
    assert "made-embedding can't be asked, what it has read is searched by words alone" in capsys.readouterr().err


def test_the_same_texts_are_not_paid_again(shelf: Shelf, paid: Provider) -> None:
    document = shelf.add("book.md", book(range(10)), BY_PROVIDER)
    shelf.ingest(shelf.folder / "book.md", BY_PROVIDER, again=True)
    shelf.work()
    remove(shelf.app, document)
    shelf.add("book.md", book(range(10)), BY_PROVIDER)

    assert len(shelf.chunks(document)) == 10
    assert paid.calls.total() == 3


@pytest.mark.parametrize("point", ["before commit", "inside commit", "after commit", "after embed", "before complete"])
def test_a_death_costs_at_most_the_call_that_was_under_way(shelf: Shelf, paid: Provider, point: str) -> None:
    path = shelf.put("book.md", book(range(10)))
    shelf.harness.crash(point, times=3)

    admitted = shelf.ingest(path, BY_PROVIDER)
    shelf.work()

    assert len(shelf.chunks(admitted.file.document)) == 10
    assert len(paid.answered) == 3
    assert paid.answered.total() <= 3 + shelf.harness.crashes


def test_a_provider_that_is_busy_is_asked_again(shelf: Shelf, paid: Provider) -> None:
    paid.fails = 2

    document = shelf.add("book.md", book(range(3)), BY_PROVIDER)

    assert shelf.entry(document).state == "ready"
    assert paid.answered.total() == 1


def test_a_spent_budget_holds_paid_work_and_nothing_else(shelf: Shelf, paid: Provider) -> None:
    shelf.add("first.md", book(range(2)), BY_PROVIDER)
    shelf.app.budgets.set_limit(provider.CALLS.name, 1)
    waiting = shelf.ingest(shelf.put("paid.md", book(range(20, 30))), BY_PROVIDER)
    free = shelf.ingest(shelf.put("free.md", book(range(30, 32))))
    shelf.harness.drain(wait_for_due=False)

    assert shelf.task(waiting).status is Status.WAITING
    assert paid.calls.total() == 1
    assert shelf.entry(free.file.document).state == "ready"
    shelf.app.budgets.set_limit(provider.CALLS.name, 100)
    shelf.work()
    assert shelf.entry(waiting.file.document).state == "ready"


def test_documents_of_different_models_are_not_compared(shelf: Shelf, paid: Provider) -> None:
    shelf.add("own.md", book(range(3)))
    document = shelf.add("paid.md", book(range(3), variant=1), BY_PROVIDER)

    assert shelf.connections(document) == []


def test_a_model_cleans_every_part_once(shelf: Shelf, paid: Provider) -> None:
    dirty = book(range(20)).replace(b". ", b".~ ")
    options = Options(cleaning="made-model")

    document = shelf.add("book.md", dirty, options)

    text = shelf.app.read(reads.markdown, document, 1)
    assert "~" not in text
    assert len(text) == len(book(range(20)))
    calls = paid.calls.total()
    assert calls == len(list(tidying.pieces(dirty.decode())))
    shelf.ingest(shelf.folder / "book.md", options, again=True)
    shelf.work()
    assert paid.calls.total() == calls


def test_what_a_model_leaves_out_or_invents_is_not_believed() -> None:
    piece = "word " * 100
    assert tidying.trusted(piece, Answer("word " * 99, True, 1)) == ("word " * 99).strip()
    assert tidying.trusted(piece, Answer("a summary", True, 1)) == piece
    assert tidying.trusted(piece, Answer("word " * 300, True, 1)) == piece
    assert tidying.trusted(piece, Answer("word " * 99, False, 1)) == piece, "it was cut off"


def test_pieces_end_with_paragraphs_and_are_the_whole() -> None:
    text = "\n\n".join(f"{number} " + "word " * 300 for number in range(20))
    cut = list(tidying.pieces(text))
    assert "\n\n".join(cut) == text
    assert len(cut) > 3
    assert all(len(piece) <= tidying.LONGEST_PIECE for piece in cut)
