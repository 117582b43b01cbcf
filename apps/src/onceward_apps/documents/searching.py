"""Finding passages: those with the words of a question and those with vectors near it, ranked together.

Only current generations are looked at: a document that is being read again is found as it was until it is swapped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from onceward import Connection
from onceward_apps.documents.embedding import offline
from onceward_apps.documents.full_text import best_by_words, term_weights
from onceward_apps.documents.ranking import Candidate, Question, Ranked
from onceward_apps.documents.reading import About
from onceward_apps.documents.vectors import nearest
from onceward_apps.documents.words import asked_terms

if TYPE_CHECKING:
    from onceward_apps.documents.embedding import Matrix

MOST_READ, MOST_TERMS = 128, 32
"""So many terms of a question are read. Those that no passage has go last, the rarest go first, so many are asked."""
POOL = 100
"""So many passages are taken from each of the two lists, to be ranked."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found: what it says and where it stands."""

    chunk: str
    document: str
    title: str
    heading: str
    position: int
    passages: int
    start: int
    end: int
    text: str
    score: float
    best: tuple[int, int]
    """Where its best sentences are in its text."""
    hits: tuple[tuple[int, int], ...]
    """Where the words that were asked for are in its text, in those sentences."""


def search(
    connection: Connection,
    query: str,
    *,
    limit: int = 10,
    document: str | None = None,
    vectors: Mapping[str, Matrix] | None = None,
) -> list[Hit]:
    """The passages that answer a query best. `vectors` are those of the query by other models than the one that works
    offline: a passage can be compared only with a vector of the model that made its own."""
    read = asked_terms(query, MOST_READ)
    known = term_weights(connection, read)
    terms = sorted(read, key=lambda term: known[term], reverse=True)[:MOST_TERMS]
    if not terms:
        return []
    asked = [known[term][1] for term in terms]
    by_words = dict(best_by_words(connection, terms, asked, limit=POOL, document=document))
    own = offline().embed([" ".join(term for term in read if term in terms)])[0]
    by_vectors = [
        number
        for model, vector in {**(vectors or {}), offline().name: own}.items()
        for number, _ in nearest(connection, vector, model, limit=POOL, document=document)
    ]
    found = _found(connection, [*dict.fromkeys([*by_words, *by_vectors])])
    candidates = [
        Candidate(one.heading, one.text, one.before, one.after, by_words.get(one.number, 0.0)) for one in found
    ]
    ranked = Question(terms, asked, offline()).rank(candidates)
    best = sorted(zip(found, ranked, strict=True), key=lambda pair: (-pair[1].score, pair[0].chunk))
    return [_hit(one, worth) for one, worth in best[:limit]]


@dataclass(frozen=True, slots=True)
class _Found:
    number: int
    chunk: str
    document: str
    path: str
    about: str | None
    passages: int
    heading: str
    position: int
    start: int
    end: int
    text: str
    before: str
    after: str


def _found(connection: Connection, numbers: Sequence[int]) -> list[_Found]:
    """Passages by their numbers, each with its neighbours."""
    wanted = {"numbers": json.dumps(numbers)}
    if connection.dialect == "sqlite":
        rows = connection.execute(
            """
            SELECT c.number, c.chunk, c.document, d.path, g.about, g.chunks, c.heading, c.position,
                c.start_at, c.end_at, c.text, coalesce(b.text, ''), coalesce(a.text, '')
            FROM json_each(:numbers) AS n
            JOIN docs_chunk AS c ON c.number = n.value
            JOIN docs_document AS d ON d.document = c.document
            JOIN docs_generation AS g ON g.document = c.document AND g.generation = c.generation
            LEFT JOIN docs_chunk AS b
                ON b.document = c.document AND b.generation = c.generation AND b.position = c.position - 1
            LEFT JOIN docs_chunk AS a
                ON a.document = c.document AND a.generation = c.generation AND a.position = c.position + 1
            """,
            wanted,
        )
    else:
        rows = connection.execute(
            """
            SELECT c.number, c.chunk, c.document, d.path, g.about, g.chunks, c.heading, c.position,
                c.start_at, c.end_at, c.text, coalesce(b.text, ''), coalesce(a.text, '')
            FROM jsonb_array_elements_text(%(numbers)s::jsonb) AS n (number)
            JOIN docs_chunk AS c ON c.number = n.number::bigint
            JOIN docs_document AS d ON d.document = c.document
            JOIN docs_generation AS g ON g.document = c.document AND g.generation = c.generation
            LEFT JOIN docs_chunk AS b
                ON b.document = c.document AND b.generation = c.generation AND b.position = c.position - 1
            LEFT JOIN docs_chunk AS a
                ON a.document = c.document AND a.generation = c.generation AND a.position = c.position + 1
            """,
            wanted,
        )
    return [_Found(*row) for row in rows]


def title_of(about: str | None, path: str) -> str:
    """What a document is called: its own title, or else the name of its file."""
    told = msgspec.json.decode(about, type=About).title if about else None
    return (told or "").strip() or path.rpartition("/")[2]


def _hit(one: _Found, worth: Ranked) -> Hit:
    return Hit(
        one.chunk, one.document, title_of(one.about, one.path), one.heading, one.position, one.passages or 0,
        one.start, one.end, one.text, round(worth.score, 4), worth.best, worth.hits,
    )  # fmt: skip
