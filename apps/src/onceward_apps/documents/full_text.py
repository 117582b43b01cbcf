"""Passages by their words, from the full-text index of either database: any of the terms will do, rare ones count more.

Terms are letters and digits alone (`words.asked_terms`), so no text that a user types acts as a query operator.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from onceward import Connection
from onceward_apps.statements import row, rows


def term_weights(connection: Connection, terms: Sequence[str]) -> dict[str, tuple[bool, float]]:
    """Of each term, whether any passage has it, and how much it says: the rarer, the more.

    Passages of generations that are not in force, which are there for a while, are counted too.
    """
    total = (row(connection, "SELECT count(*) FROM docs_chunk") or (0,))[0]
    counts = {term: _count(connection, term) for term in terms}
    return {term: (count > 0, math.log(1 + total / (1 + count))) for term, count in counts.items()}


def _count(connection: Connection, term: str) -> int:
    if connection.dialect == "sqlite":
        found = row(connection, "SELECT count(*) FROM docs_words WHERE docs_words MATCH ?", _quoted(term))
    else:
        found = row(connection, "SELECT count(*) FROM docs_chunk WHERE words @@ plainto_tsquery('english', ?)", term)
    return int(found[0]) if found else 0


def best_by_words(
    connection: Connection,
    terms: Sequence[str],
    weights: Sequence[float],
    *,
    limit: int,
    document: str | None = None,
) -> list[tuple[int, float]]:
    """The passages of current generations with any of the terms, by their number, with a score; the best first."""
    if connection.dialect == "sqlite":
        # BM25 weighs the terms itself.
        found = connection.execute(
            """
            SELECT c.number, -bm25(docs_words) AS score
            FROM docs_words
            JOIN docs_chunk AS c ON c.number = docs_words.rowid
            JOIN docs_document AS d ON d.document = c.document AND d.generation = c.generation
            WHERE docs_words MATCH :match AND (:document IS NULL OR c.document = :document)
            ORDER BY score DESC, c.chunk
            LIMIT :limit
            """,
            {"match": " OR ".join(map(_quoted, terms)), "document": document, "limit": limit},
        ).fetchall()
        return [(number, score) for number, score in found]
    # ts_rank knows nothing of rare words, so each term is ranked by itself and weighed.
    found = rows(
        connection,
        """
        SELECT c.number, sum(a.weight * ts_rank(c.words, a.query)) AS score
        FROM (
            SELECT plainto_tsquery('english', one ->> 0) AS query, max((one ->> 1)::float8) AS weight
            FROM jsonb_array_elements(?::jsonb) AS one
            GROUP BY 1
        ) AS a
        JOIN docs_chunk AS c ON c.words @@ a.query
        JOIN docs_document AS d ON d.document = c.document AND d.generation = c.generation
        WHERE c.document = coalesce(?, c.document)
        GROUP BY c.number, c.chunk
        ORDER BY score DESC, c.chunk
        LIMIT ?
        """,
        json.dumps([*zip(terms, weights, strict=True)]),
        document,
        limit,
    )
    return [(number, score) for number, score in found]


def _quoted(term: str) -> str:
    """A term as FTS5 takes it: a string, never a word of its language."""
    return f'"{term}"'
