"""Finding passages on both databases: by words, by meaning, whatever somebody types."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from functools import partial

import apsw
import numpy as np
import psycopg
import pytest
import sqlite_vec

from onceward import ConfigError, Connection
from onceward_apps.documents import reads
from onceward_apps.documents.app import library
from onceward_apps.documents.embedding import offline
from onceward_apps.documents.searching import Hit, search
from onceward_apps.documents.vectors import load_extension, nearest, vector_for, vectors_from
from tests.apps.documents.bookcase import Bookcase, bookcase

FILLING = " ".join(["And nothing else is to be said of it here, so that what was said may stand by itself."] * 9)
TREES = f"""# On trees

## Oaks

The oak stands at the edge of the road. Its branches are thick, its bark is old and scarred. In spring, when the birches
are green already, the oak alone is bare and looks like an angry monster among the smiling trees of the forest.
{FILLING}

## Rings

Every year a trunk grows by one ring. Whoever counts the rings of a felled trunk knows how old it was, and a dry summer
can be told from a wet one by how narrow its ring is. So the wood remembers the weather of three hundred years.
{FILLING}
"""
WAR = f"""# The campaign

## The crossing

Prince Andréy Bolkónski rode to the bridge. The enemy's cannon fired from the hill, and Rostóv saw for the first time
how a man falls. They burned the bridge under fire and lost two hussars.
{FILLING}

## The comet

That winter an enormous comet stood over the roofs of the city. People said that it foretold the end of the world, but
to him it seemed to be the answer to what he had felt since he had left her house.
{FILLING}
"""


@pytest.fixture(scope="module")
def case(lasting_library_url: str) -> Iterator[Bookcase]:
    """A library of two documents, which tests only read, on each of the databases."""
    made = bookcase(lasting_library_url)
    made.put("trees.md", TREES, title="On trees")
    made.put("war.md", WAR, title="The campaign")
    yield made
    made.app.close()


@pytest.fixture
def find(case: Bookcase) -> Callable[..., list[Hit]]:
    return lambda query, **options: case.app.read(search, query, **options)


Find = Callable[..., list[Hit]]


def test_the_passage_with_the_words_comes_first_with_its_place(find: Find) -> None:
    hit = find("how old is a felled trunk")[0]
    assert hit.title == "On trees"
    assert hit.heading == "On trees › Rings"
    assert hit.position == hit.passages - 1 == TREES.count("## ") - 1
    assert TREES[hit.start : hit.end] == hit.text
    assert "rings of a felled trunk" in hit.text[hit.best[0] : hit.best[1]]
    assert {"felled", "trunk"} <= {hit.text[start:end] for start, end in hit.hits}


def test_a_passage_is_found_by_what_it_is_about(find: Find) -> None:
    assert "comet" in find("a star with a tail in the night sky")[0].text


def test_other_forms_of_a_word_and_names_without_accents_are_found(find: Find) -> None:
    assert "Andréy" in find("andrey bolkonski riding")[0].text
    assert "Rostóv" in find("ROSTOV")[0].text
    assert "Rostóv" in find("Rostóv")[0].text


@pytest.mark.parametrize("query", ["", "   ", "\n", "😀", "***", '"', "'\"--", "()", "\x00", "\ud800", "?!", "¿"])
def test_a_query_without_words_finds_nothing(find: Find, query: str) -> None:
    assert find(query) == []


@pytest.mark.parametrize(
    "query",
    [
        '"oak', 'oak"', "oak*", "oak AND", "NOT oak", "oak NEAR bark", "NEAR(oak bark, 2)", "heading: oak",
        "{heading} : oak",
        "oak OR", "^oak", "oak + bark", "oak & !bark | (", "oak:*", "oak <-> bark", "oak\x00bark", "oak -bark", "-oak",
        "%s oak %d", "? oak :document", "oak'; DROP TABLE docs_chunk; --", "oak\\", "OAK\u202e", "🌳 oak 🌳",
        "o\u034fak oak", "a oak",
        "oak " * 2_500, "oak " + "x" * 10_000, "oak " + " ".join(f"word{number}" for number in range(3_000)),
    ],
)  # fmt: skip
def test_no_query_is_more_than_its_words(find: Find, query: str) -> None:
    assert "oak" in find(query)[0].text


def test_function_words_alone_are_looked_for_when_there_is_nothing_else(find: Find) -> None:
    assert find("what is it")


def test_no_more_are_found_than_are_asked_for(find: Find) -> None:
    assert len(find("the oak and the bridge", limit=1)) == 1
    assert len(find("the oak and the bridge", limit=50)) == 4


def test_one_document_can_be_searched_alone(find: Find, case: Bookcase) -> None:
    [tree] = {hit.document for hit in find("felled trunk", limit=1)}
    others = find("felled trunk", limit=50) and {hit.document for hit in find("felled trunk", limit=50)} - {tree}
    assert {hit.document for hit in find("bridge", document=tree, limit=50)} == {tree}
    assert {hit.document for hit in find("bridge", document=others.pop(), limit=50)} != {tree}
    assert find("bridge", document="d000000000000000") == []


def test_only_the_generation_in_force_is_searched(library_url: str) -> None:
    case = bookcase(library_url)
    case.put("trees.md", TREES)
    case.put("trees.md", TREES.replace("angry monster", "sleeping zeppelin"), generation=2, now=False)
    assert ["zeppelin" in hit.text for hit in case.app.read(search, "sleeping zeppelin oak", limit=50)] == [
        False,
        False,
    ]
    case.put("trees.md", TREES.replace("angry monster", "sleeping walrus"), generation=3)
    assert ["walrus" in hit.text for hit in case.app.read(search, "sleeping walrus oak", limit=50)] == [True, False]
    case.app.close()


def test_scores_fall_and_the_answer_is_the_same_every_time(find: Find) -> None:
    hits = find("the oak in spring", limit=10)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits == find("the oak in spring", limit=10)


def test_a_vector_of_another_model_is_compared_with_no_passage(case: Bookcase) -> None:
    hits = case.app.read(search, "comet", vectors={"other-3": np.eye(3, dtype=np.float32)[0]})
    assert hits == case.app.read(search, "comet")


# Vectors


def test_vectors_come_back_bit_for_bit(case: Bookcase) -> None:
    rows = np.random.default_rng(3).standard_normal((5, 256)).astype(np.float32)

    def look(connection: Connection) -> np.ndarray:
        if connection.dialect == "sqlite":
            stored = [vector_for(connection, row) for row in rows]
        else:
            stored = [
                bytes(found[0])
                for row in rows
                for found in connection.execute("SELECT vector_send(%s::vector)", (vector_for(connection, row),))
            ]
        return vectors_from(connection, stored, 256)  # type: ignore[arg-type]

    assert (case.app.read(look) == rows).all()


def test_the_nearest_vectors_are_exact(case: Bookcase) -> None:
    [row] = offline().embed(["an enormous comet over the city"])

    def look(connection: Connection) -> tuple[list[tuple[int, float]], list[tuple[int, str]]]:
        found = nearest(connection, row, offline().name, limit=10)
        return found, connection.execute("SELECT number, text FROM docs_chunk").fetchall()  # type: ignore[return-value]

    found, texts = case.app.read(look)
    expected = {number: float(offline().embed([text])[0] @ row) for number, text in texts}
    assert [number for number, _ in found] == sorted(expected, key=lambda number: -expected[number])
    assert [score for _, score in found] == pytest.approx(sorted(expected.values(), reverse=True), abs=1e-5)


@pytest.mark.parametrize("how", ["there is none", "it cannot be loaded"])
def test_without_sqlite_vec_a_search_finds_the_same(
    case: Bookcase, lasting_library_url: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not lasting_library_url.startswith("sqlite"):
        pytest.skip("PostgreSQL compares vectors itself")
    [row] = offline().embed(["an enormous comet over the city"])

    def look(connection: Connection) -> list[tuple[int, float]]:
        return nearest(connection, row, offline().name, limit=10)

    expected = case.app.read(look)
    if how == "there is none":
        monkeypatch.setitem(sys.modules, "sqlite_vec", None)
    else:
        monkeypatch.setattr(sqlite_vec, "loadable_path", lambda: "/nowhere/vec0")
    with library(lasting_library_url) as without:
        found = without.read(look)
        [(loaded,)] = without.read(lambda connection: connection.execute(
            "SELECT count(*) FROM pragma_function_list WHERE name = 'vec_version'"
        ).fetchall())  # fmt: skip
    assert loaded == 0
    assert [number for number, _ in found] == [number for number, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-5)


def test_pythons_own_sqlite_compares_vectors_as_well() -> None:
    left, right = offline().embed(["bees and wax", "a battle"])
    expected = 1 - float(left @ right)
    for connection in (apsw.Connection(":memory:"), sqlite3.connect(":memory:")):
        load_extension(connection)
        values = (left.tobytes(), right.tobytes())
        [(distance,)] = connection.execute("SELECT vec_distance_cosine(?, ?)", values).fetchall()
        assert distance == pytest.approx(expected, abs=1e-5)
        connection.close()


def test_a_server_without_pgvector_is_refused_in_words(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        load_extension(connection)
        # Before the catalogue's own view stands one that lists nothing.
        connection.execute("CREATE SCHEMA bare")
        connection.execute("CREATE VIEW bare.pg_available_extensions AS SELECT ''::text AS name WHERE false")
        connection.execute("SET search_path = bare, pg_catalog")
        with pytest.raises(ConfigError, match="has no extension 'vector'"):
            load_extension(connection)


def test_documents_are_read_in_portions_by_their_chunks_and_every_one_comes_once(library_url: str) -> None:
    case = bookcase(library_url)
    long = "\n\n".join(f"# Part {number}\n\n{'A sentence of some words. ' * 60}" for number in range(8))
    names = [case.put(f"{name}.md", long if name == "c" else f"# {name}\n\nOne short note.") for name in "abcde"]
    read = partial(case.app.read, reads.ready_documents)
    after, portions = "", []
    while portion := read(after, 3):
        portions.append([document for document, _ in portion])
        after = portions[-1][-1]
    assert [name for portion in portions for name in portion] == sorted(names)
    chunks = {one.document: len(one.ids) for one in case.app.read(reads.passages, [(name, 1) for name in names])}
    assert all(len(portion) == 1 or sum(chunks[name] for name in portion) <= 3 for portion in portions)
    assert max(chunks.values()) > 3
    case.app.close()
