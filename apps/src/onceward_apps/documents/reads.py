"""What is read from a library: by its stages, and by its commands."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from operator import itemgetter

import msgspec

from onceward import Connection
from onceward_apps.documents.connecting import Passages
from onceward_apps.documents.vectors import vectors_from
from onceward_apps.statements import row, rows, stored


def is_wanted(connection: Connection, document: str, generation: int) -> bool:
    """Whether this generation is still being made: its document is there, and no newer file has come."""
    statement = "SELECT 1 FROM docs_generation WHERE document = ? AND generation = ? AND state = 'reading'"
    return row(connection, statement, document, generation) is not None


def parts(connection: Connection, document: str, generation: int) -> list[tuple[int, str | None, str]]:
    """All parts in order: index, title, markdown."""
    found = rows(
        connection,
        "SELECT part, title, markdown FROM docs_part WHERE document = ? AND generation = ? ORDER BY part",
        document, generation,
    )  # fmt: skip
    return [(part, title, markdown) for part, title, markdown in found]


def markdown(connection: Connection, document: str, generation: int) -> str:
    """The whole text of a generation."""
    statement = "SELECT markdown FROM docs_markdown WHERE document = ? AND generation = ?"
    found = row(connection, statement, document, generation)
    return "" if found is None else str(found[0])


def chunk_total(connection: Connection, document: str, generation: int) -> int:
    """How many chunks a generation has."""
    statement = "SELECT count(*) FROM docs_chunk WHERE document = ? AND generation = ?"
    found = row(connection, statement, document, generation)
    return 0 if found is None else int(found[0])


def without_vectors(
    connection: Connection, document: str, generation: int, first: int, limit: int
) -> list[tuple[str, int, str]]:
    """Chunks that have no vector yet, from a position on: id, position, text."""
    found = rows(
        connection,
        "SELECT c.chunk, c.position, c.text FROM docs_chunk c"
        " WHERE c.document = ? AND c.generation = ? AND c.position >= ? AND NOT EXISTS"
        " (SELECT 1 FROM docs_vector v WHERE v.chunk = c.chunk AND v.generation = c.generation)"
        " ORDER BY c.position LIMIT ?",
        document, generation, first, limit,
    )  # fmt: skip
    return [(chunk, position, text) for chunk, position, text in found]


def ready_documents(connection: Connection, after: str, most: int) -> list[tuple[str, int]]:
    """The next documents that can be searched, with their generations in force: those whose ids come after one, as many
    as have `most` chunks together, and one at least."""
    found = rows(
        connection,
        "SELECT d.document, d.generation, coalesce(g.chunks, 0) FROM docs_document d"
        " JOIN docs_generation g ON g.document = d.document AND g.generation = d.generation"
        " WHERE d.document > ? ORDER BY d.document LIMIT ?",
        after, most,
    )  # fmt: skip
    together = list(accumulate(chunks for _, _, chunks in found))
    fitting = max(1, bisect_right(together, most))
    return [(document, generation) for document, generation, _ in found[:fitting]]


def generation_in_force(connection: Connection, document: str) -> int:
    """The generation that is searched; 0 if there is none."""
    found = row(connection, "SELECT generation FROM docs_document WHERE document = ?", document)
    return 0 if found is None else int(found[0])


def newest_generation(connection: Connection, document: str) -> int:
    """The newest generation, whatever has become of it; 0 if there is none."""
    found = row(connection, "SELECT max(generation) FROM docs_generation WHERE document = ?", document)
    return 0 if found is None or found[0] is None else int(found[0])


def generations(connection: Connection, document: str) -> list[int]:
    """All generations that there are of a document."""
    found = rows(connection, "SELECT generation FROM docs_generation WHERE document = ?", document)
    return [generation for (generation,) in found]


def being_read(connection: Connection) -> set[str]:
    """The documents of which a generation is being made."""
    return {
        document for (document,) in rows(connection, "SELECT document FROM docs_generation WHERE state = 'reading'")
    }


def unread(connection: Connection) -> set[str]:
    """The documents whose newest generation could not be read."""
    return {document for (document,) in rows(connection, "SELECT document FROM docs_generation WHERE state = 'failed'")}


def being_connected(connection: Connection) -> set[str]:
    """The documents that can be searched, and whose connections are not all found."""
    found = rows(
        connection,
        "SELECT g.document FROM docs_generation g JOIN docs_document d"
        " ON d.document = g.document AND d.generation = g.generation WHERE g.connected_at IS NULL",
    )
    return {document for (document,) in found}


def passages(connection: Connection, documents: Sequence[tuple[str, int]]) -> list[Passages]:
    """All chunks of some documents in these generations with their vectors, to find connections; a document without
    any is left out."""
    if connection.dialect == "postgres":
        statement = (
            "SELECT c.document, c.generation, c.chunk, c.position, c.text, v.model, vector_send(v.vector),"
            " vector_dims(v.vector)"
            " FROM docs_chunk c JOIN docs_vector v ON v.chunk = c.chunk AND v.generation = c.generation"
            " WHERE c.document IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb))) ORDER BY c.document, c.position"
        )
    else:
        statement = (
            "SELECT c.document, c.generation, c.chunk, c.position, c.text, v.model, v.vector, length(v.vector) / 4"
            " FROM docs_chunk c JOIN docs_vector v ON v.chunk = c.chunk AND v.generation = c.generation"
            " WHERE c.document IN (SELECT value FROM json_each(?)) ORDER BY c.document, c.position"
        )
    wanted = dict(documents)
    found = rows(connection, statement, stored([*wanted]))
    read = []
    for document, several in groupby(found, key=itemgetter(0)):
        mine = [row[2:] for row in several if row[1] == wanted[document]]
        if mine:
            ids, positions, texts, models, vectors, dimensions = zip(*mine, strict=True)
            matrix = vectors_from(connection, vectors, dimensions[0])
            read.append(Passages(document, models[0], ids, positions, texts, matrix))
    return read


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A document as `status` shows it: the generation in force, or if there is none the newest."""

    document: str
    path: str
    generation: int
    same_as: str | None
    was_twin: bool
    shown: int | None
    state: str | None
    reason: str | None
    detail: str | None
    about: str | None
    outline: str | None
    words: int | None
    extract_ms: int | None
    chunks: int | None
    connections: int
    connected_at: int | None
    ready_at: int | None
    newer: int | None
    """A generation after the one in force, that is being made or could not be."""
    newer_state: str | None
    newer_reason: str | None
    newer_detail: str | None

    @property
    def name(self) -> str:
        """The title, or the name of the file."""
        title = msgspec.json.decode(self.about).get("title") if self.about else None
        return str(title or self.path.rpartition("/")[2])

    @property
    def trouble(self) -> str | None:
        """Why the newest file could not be read, if so."""
        if self.newer_state == "failed":
            return f"{self.newer_reason}: {self.newer_detail}"
        return f"{self.reason}: {self.detail}" if self.state == "failed" else None


def entries(connection: Connection, document: str | None = None) -> list[Entry]:
    """All documents by their paths, or one."""
    found = rows(
        connection,
        "SELECT d.document, d.path, d.generation, d.same_as, d.same_hash IS NOT NULL,"
        " g.generation, g.state, g.reason, g.detail, g.about, g.outline, g.words, g.extract_ms, g.chunks,"
        " (SELECT count(*) FROM docs_connection c WHERE c.left_document = d.document)"
        " + (SELECT count(*) FROM docs_connection c WHERE c.right_document = d.document"
        "    AND c.left_document <> d.document),"
        " g.connected_at, g.ready_at, n.generation, n.state, n.reason, n.detail"
        " FROM docs_document d"
        " LEFT JOIN docs_generation g ON g.document = d.document AND g.generation ="
        " (CASE WHEN d.generation > 0 THEN d.generation ELSE"
        "  (SELECT max(h.generation) FROM docs_generation h WHERE h.document = d.document) END)"
        " LEFT JOIN docs_generation n ON n.document = d.document AND d.generation > 0 AND n.generation ="
        " (SELECT max(h.generation) FROM docs_generation h"
        "  WHERE h.document = d.document AND h.generation > d.generation)"
        " WHERE ? = '' OR d.document = ? ORDER BY d.path",
        document or "", document or "",
    )  # fmt: skip
    names = Entry.__struct_fields__
    return [msgspec.convert(dict(zip(names, one, strict=True)), Entry, strict=False) for one in found]


def named(connection: Connection, text: str, absolute: str) -> Sequence[tuple[str, str]]:
    """The documents that a text may mean, with their names: the first of these that fits any document.

    An id or a path; the beginning of an id, or the end of a path; a part of a title or of the name of a file.
    """
    every = [(entry.document, entry.path, entry.name) for entry in entries(connection)]
    asked = text.strip().casefold()
    ways: tuple[Callable[[str, str, str], bool], ...] = (
        lambda document, path, name: document == text or path in (text, absolute),
        lambda document, path, name: document.startswith(text) or path.endswith(f"/{text.strip('/')}"),
        lambda document, path, name: asked in name.casefold() or asked in path.rpartition("/")[2].casefold(),
    )
    found = ([(one[0], one[2]) for one in every if fits(*one)] for fits in ways if asked)
    return next((some for some in found if some), [])


def models(connection: Connection) -> list[str]:
    """The names of the models that have made the vectors of the library."""
    return [str(name) for (name,) in rows(connection, "SELECT DISTINCT model FROM docs_vector ORDER BY model")]


def counts(connection: Connection) -> dict[str, int]:
    """What is counted for people."""
    return {str(name): int(value) for name, value in rows(connection, "SELECT name, value FROM docs_count")}
