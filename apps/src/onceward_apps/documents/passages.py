"""The passages of documents and the connections between them, as people are shown them: current generations alone."""

from __future__ import annotations

from dataclasses import dataclass

from onceward import Connection
from onceward_apps.documents.connecting import SAME_TEXT
from onceward_apps.statements import rows


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage and its place: `markdown[start:end] == text`."""

    chunk: str
    document: str
    position: int
    start: int
    end: int
    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class Tie:
    """A connection with the passages on both of its ends."""

    score: float
    why: str
    left: Passage
    right: Passage

    def other(self, chunk: str) -> Passage:
        """The passage on the other end."""
        return self.right if self.left.chunk == chunk else self.left


def passages_of(connection: Connection, document: str) -> list[Passage]:
    """All passages of a document, in order."""
    found = rows(
        connection,
        "SELECT c.chunk, c.document, c.position, c.start_at, c.end_at, c.heading, c.text"
        " FROM docs_chunk c JOIN docs_document d ON d.document = c.document AND d.generation = c.generation"
        " WHERE c.document = ? ORDER BY c.position",
        document,
    )
    return [Passage(*one) for one in found]


def ties(
    connection: Connection, document: str | None = None, *, within: bool = True, limit: int = 1_000_000
) -> list[Tie]:
    """Connections, the strongest first and repeated texts last: of a document or of all, also `within` one or not."""
    found = rows(
        connection,
        "SELECT k.score, k.why,"
        " l.chunk, l.document, l.position, l.start_at, l.end_at, l.heading, l.text,"
        " r.chunk, r.document, r.position, r.start_at, r.end_at, r.heading, r.text"
        " FROM docs_connection k"
        " JOIN docs_chunk l ON l.chunk = k.left_chunk AND l.generation = k.left_generation"
        " JOIN docs_chunk r ON r.chunk = k.right_chunk AND r.generation = k.right_generation"
        " JOIN docs_document m ON m.document = l.document AND m.generation = l.generation"
        " JOIN docs_document n ON n.document = r.document AND n.generation = r.generation"
        " WHERE (? = '' OR k.left_document = ? OR k.right_document = ?)"
        " AND (? = 'within' OR k.left_document <> k.right_document)"
        " ORDER BY CASE WHEN k.why = ? THEN 1 ELSE 0 END, k.score DESC, k.left_chunk, k.right_chunk LIMIT ?",
        document or "", document or "", document or "", "within" if within else "between", SAME_TEXT, limit,
    )  # fmt: skip
    return [Tie(score, why, Passage(*ends[:7]), Passage(*ends[7:])) for score, why, *ends in found]
