"""All writes to a library. Each runs inside the caller's transaction: a stage's, or a command's.

Two rules keep every row pointing at something. What belongs to a generation is written only while that generation is
open, and looked at in the same transaction; so a task whose document was removed, or has moved on, writes nothing. And
a generation comes and goes as a whole: `swap` and `remove` are the only statements that take chunks away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceward import Connection
from onceward_apps.documents.reading import Reason
from onceward_apps.documents.vectors import vector_for
from onceward_apps.statements import change, change_each, row, rows

REFUSED = "refused connections"
"""The count of connections that were not written because one of their chunks was missing. It stays 0."""
PAID_CALLS, PAID_TOKENS = "provider calls", "provider tokens"
"""What a provider was asked for, and how much it says that was."""


class Incomplete(Exception):
    """A generation that lacks something is not made visible."""


def is_open(connection: Connection, document: str, generation: int) -> bool:
    """Whether this generation is still being made. On PostgreSQL it stays so until the transaction ends."""
    if connection.dialect == "postgres":
        statement = (
            "SELECT 1 FROM docs_generation WHERE document = ? AND generation = ? AND state = 'reading' FOR SHARE"
        )
    else:
        statement = "SELECT 1 FROM docs_generation WHERE document = ? AND generation = ? AND state = 'reading'"
    return row(connection, statement, document, generation) is not None


def put_parts(
    connection: Connection, document: str, generation: int, parts: Sequence[tuple[int, str | None, str]]
) -> None:
    """Keep parts of a document: index, title, markdown."""
    if is_open(connection, document, generation):
        change_each(
            connection,
            "INSERT INTO docs_part (document, generation, part, title, markdown) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (document, generation, part)"
            " DO UPDATE SET title = excluded.title, markdown = excluded.markdown",
            [(document, generation, *part) for part in parts],
        )


def put_about(connection: Connection, document: str, generation: int, about: str, extract_ms: int) -> None:
    """Keep what a document says of itself, as JSON, and how long it took to read."""
    if is_open(connection, document, generation):
        change(
            connection,
            "UPDATE docs_generation SET about = ?, extract_ms = ? WHERE document = ? AND generation = ?",
            about, extract_ms, document, generation,
        )  # fmt: skip


def put_markdown(
    connection: Connection, document: str, generation: int, markdown: str, words: int, outline: str
) -> None:
    """Keep the whole text, with the number of its words and its headings as JSON."""
    if is_open(connection, document, generation):
        change(
            connection,
            "INSERT INTO docs_markdown (document, generation, markdown) VALUES (?, ?, ?)"
            " ON CONFLICT (document, generation) DO UPDATE SET markdown = excluded.markdown",
            document, generation, markdown,
        )  # fmt: skip
        change(
            connection,
            "UPDATE docs_generation SET words = ?, outline = ? WHERE document = ? AND generation = ?",
            words, outline, document, generation,
        )  # fmt: skip


def put_chunks(connection: Connection, document: str, generation: int, chunks: Sequence[tuple[Any, ...]]) -> None:
    """Keep chunks: id, position, start, end, heading, text. Those that are there stay."""
    if is_open(connection, document, generation):
        change_each(
            connection,
            "INSERT INTO docs_chunk (document, generation, chunk, position, start_at, end_at, heading, text)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [(document, generation, *chunk) for chunk in chunks],
        )


def put_chunk_count(connection: Connection, document: str, generation: int, count: int) -> None:
    """Say how many chunks a generation has, once they are all there."""
    if is_open(connection, document, generation):
        there = chunk_count(connection, document, generation)
        if there != count:
            raise Incomplete(f"{document} should have {count} chunks, and has {there}")
        change(
            connection,
            "UPDATE docs_generation SET chunks = ? WHERE document = ? AND generation = ?",
            count, document, generation,
        )  # fmt: skip


def put_vectors(
    connection: Connection, document: str, generation: int, model: str, vectors: Sequence[tuple[str, Any]]
) -> None:
    """Keep the vectors of chunks."""
    if is_open(connection, document, generation):
        change_each(
            connection,
            "INSERT INTO docs_vector (chunk, generation, model, vector) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            [(chunk, generation, model, vector_for(connection, vector)) for chunk, vector in vectors],
        )


def keep_vectors(connection: Connection, document: str, generation: int, model: str) -> None:
    """Take over the vectors of chunks that the generation in force has too."""
    if is_open(connection, document, generation):
        change(
            connection,
            "INSERT INTO docs_vector (chunk, generation, model, vector)"
            " SELECT new.chunk, new.generation, old.model, old.vector FROM docs_document d"
            " JOIN docs_chunk new ON new.document = d.document AND new.generation = ?"
            " JOIN docs_vector old ON old.chunk = new.chunk AND old.generation = d.generation AND old.model = ?"
            " WHERE d.document = ? ON CONFLICT DO NOTHING",
            generation, model, document,
        )  # fmt: skip


def fail(connection: Connection, document: str, generation: int, reason: str, detail: str) -> None:
    """A document that can't be read: say why, and keep nothing else of this generation."""
    if is_open(connection, document, generation):
        change(
            connection,
            "UPDATE docs_generation SET state = 'failed', reason = ?, detail = ? WHERE document = ? AND generation = ?",
            Reason(reason).value, detail, document, generation,
        )  # fmt: skip
        change(connection, "DELETE FROM docs_part WHERE document = ? AND generation = ?", document, generation)
        change(connection, "DELETE FROM docs_markdown WHERE document = ? AND generation = ?", document, generation)


def swap(connection: Connection, document: str, generation: int, now: int) -> None:
    """Make a generation the one in force, and take away all before it: what is seen is the old one, or the new."""
    take_turns(connection)
    current = generation_of(connection, document)
    if current is None or current >= generation or not is_open(connection, document, generation):
        return
    chunks, vectors = chunk_count(connection, document, generation), vector_count(connection, document, generation)
    if chunks != vectors:
        raise Incomplete(f"{document} has {chunks} chunks and {vectors} vectors; it is not made visible")
    change(
        connection,
        "UPDATE docs_generation SET state = 'ready', ready_at = ? WHERE document = ? AND generation = ?",
        now, document, generation,
    )  # fmt: skip
    change(
        connection,
        "UPDATE docs_document SET generation = ?, same_as = NULL, same_hash = NULL WHERE document = ?",
        generation, document,
    )  # fmt: skip
    change(connection, "DELETE FROM docs_generation WHERE document = ? AND generation < ?", document, generation)
    change(
        connection,
        "UPDATE docs_document SET same_as = NULL WHERE same_as = ? AND same_hash <>"
        " (SELECT content_hash FROM docs_generation WHERE document = ? AND generation = ?)",
        document, document, generation,
    )  # fmt: skip


def put_links(
    connection: Connection,
    left: tuple[str, int],
    right: tuple[str, int],
    links: Sequence[tuple[str, str, float, str]],
) -> None:
    """Keep the connections of two documents, if the generations that they were found in are still in force."""
    if not are_current(connection, left, right):
        return
    left_chunks, right_chunks = chunk_ids(connection, *left), chunk_ids(connection, *right)
    sound = [link for link in links if link[0] in left_chunks and link[1] in right_chunks]
    change_each(
        connection,
        "INSERT INTO docs_connection (left_document, left_generation, right_document, right_generation,"
        " left_chunk, right_chunk, score, why) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (left_chunk, left_generation, right_chunk, right_generation)"
        " DO UPDATE SET score = excluded.score, why = excluded.why",
        [(*left, *right, *link) for link in sound],
    )
    if len(sound) < len(links):
        count(connection, REFUSED, len(links) - len(sound))


def are_current(connection: Connection, left: tuple[str, int], right: tuple[str, int]) -> bool:
    """Whether both generations are in force. On PostgreSQL they stay so until the transaction ends."""
    if connection.dialect == "postgres":
        statement = (
            "SELECT document, generation FROM docs_document WHERE document IN (?, ?) ORDER BY document FOR SHARE"
        )
    else:
        statement = "SELECT document, generation FROM docs_document WHERE document IN (?, ?) ORDER BY document"
    return {left, right} <= {tuple(found) for found in rows(connection, statement, left[0], right[0])}


def put_connected(connection: Connection, document: str, generation: int, now: int) -> None:
    """All connections of a generation are found."""
    change(
        connection,
        "UPDATE docs_generation SET connected_at = ? WHERE document = ? AND generation = ? AND state = 'ready'",
        now, document, generation,
    )  # fmt: skip


def count(connection: Connection, name: str, more: int) -> None:
    """Add to a count that is kept for people."""
    change(
        connection,
        "INSERT INTO docs_count (name, value) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET value = docs_count.value + excluded.value",
        name, more,
    )  # fmt: skip


def remove(connection: Connection, document: str) -> None:
    """Take a document out of the library, with everything that hangs on it."""
    take_turns(connection)
    generation_of(connection, document)
    change(connection, "DELETE FROM docs_document WHERE document = ?", document)


def take_turns(connection: Connection) -> None:
    """Let one transaction at a time admit a file or delete chunks: two could deadlock on each other's rows."""
    if connection.dialect == "postgres":
        rows(connection, "SELECT pg_advisory_xact_lock(7201, 1)")


def generation_of(connection: Connection, document: str) -> int | None:
    """The generation in force, 0 if there is none yet; None without such a document. On PostgreSQL it is held."""
    if connection.dialect == "postgres":
        statement = "SELECT generation FROM docs_document WHERE document = ? FOR UPDATE"
    else:
        statement = "SELECT generation FROM docs_document WHERE document = ?"
    found = row(connection, statement, document)
    return None if found is None else int(found[0])


def chunk_count(connection: Connection, document: str, generation: int) -> int:
    """How many chunks there are."""
    found = row(
        connection, "SELECT count(*) FROM docs_chunk WHERE document = ? AND generation = ?", document, generation
    )
    return 0 if found is None else int(found[0])


def vector_count(connection: Connection, document: str, generation: int) -> int:
    """How many of the chunks have a vector."""
    found = row(
        connection,
        "SELECT count(*) FROM docs_chunk c JOIN docs_vector v ON v.chunk = c.chunk AND v.generation = c.generation"
        " WHERE c.document = ? AND c.generation = ?",
        document, generation,
    )  # fmt: skip
    return 0 if found is None else int(found[0])


def chunk_ids(connection: Connection, document: str, generation: int) -> set[str]:
    """The ids of all chunks."""
    found = rows(connection, "SELECT chunk FROM docs_chunk WHERE document = ? AND generation = ?", document, generation)
    return {chunk for (chunk,) in found}
