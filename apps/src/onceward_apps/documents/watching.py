"""What must never happen to a library, and is looked for all the same. Both numbers are 0."""

from __future__ import annotations

from onceward import Connection, Watch
from onceward_apps.statements import rows


def refused_connections(connection: Connection) -> int:
    """How many connections were not written because one of their chunks was missing."""
    found = rows(connection, "SELECT value FROM docs_count WHERE name = 'refused connections'")
    return int(found[0][0]) if found else 0


def missing_chunks(connection: Connection) -> list[tuple[int, str]]:
    """How many chunks each document lacks of those it had when it became ready. Only a removal, or a new generation,
    takes chunks away; both take the whole document."""
    found = rows(
        connection,
        "SELECT g.chunks - count(c.chunk), g.document FROM docs_document d"
        " JOIN docs_generation g ON g.document = d.document AND g.generation = d.generation"
        " LEFT JOIN docs_chunk c ON c.document = g.document AND c.generation = g.generation"
        " GROUP BY g.document, g.generation, g.chunks HAVING g.chunks <> count(c.chunk)",
    )
    return [(int(missing), str(document)) for missing, document in found]


WATCHES = (
    Watch(
        "refused connections",
        refused_connections,
        above=0,
        advice="Chunks were missing while connections were written. Ingest the document again with --again.",
    ),
    Watch(
        "chunks deleted",
        missing_chunks,
        above=0,
        advice="Chunks were deleted by hand. Ingest the document again with --again.",
    ),
)
