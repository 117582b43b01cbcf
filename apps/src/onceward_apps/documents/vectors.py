"""Vectors in the database: how they are stored, read back, and compared where they lie.

Search is exact: every vector of the library is compared. An index does not pay. With 100,000 passages, thirty long
novels, an exact search takes 0.32 s in SQLite and 0.17 s in PostgreSQL; an HNSW index answers in 0.02 s, but takes a
minute to build and finds 77 of the nearest 100. With 20,000 it is 37 ms and 28 ms against 5 ms, and 90 of 100.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onceward import ConfigError, Connection

if TYPE_CHECKING:
    from onceward_apps.documents.embedding import Matrix

_HEADER = 4
"""So many bytes of a vector as PostgreSQL sends it are not numbers: how many there are, and a reserve."""


def load_extension(connection: Any) -> None:
    """Teach a new driver connection to compare vectors; for `App(on_connect=…)`.

    On SQLite that loads sqlite-vec; where it is not there or cannot be loaded, and on Python's own `sqlite3`, which is
    often built without extensions, the one function that is needed is NumPy's. On PostgreSQL pgvector is required.
    """
    if hasattr(connection, "pgconn"):
        _require_pgvector(connection)
    elif isinstance(connection, sqlite3.Connection):
        connection.create_function("vec_distance_cosine", 2, _distance, deterministic=True)
    elif not _has_sqlite_vec(connection):
        connection.create_scalar_function("vec_distance_cosine", _distance, 2, deterministic=True)


def _has_sqlite_vec(connection: Any) -> bool:
    """Load sqlite-vec if it can be loaded; it is before its first lasting version, and no search depends on it."""
    import apsw

    try:
        import sqlite_vec

        connection.enable_load_extension(True)
        try:
            connection.load_extension(sqlite_vec.loadable_path())
        finally:
            connection.enable_load_extension(False)
    except (ImportError, AttributeError, apsw.Error):
        return False
    return True


def _require_pgvector(connection: Any) -> None:
    row = connection.execute(
        "SELECT to_regtype('vector') IS NOT NULL OR EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector')"
    ).fetchone()
    if not row[0]:
        raise ConfigError(
            "this PostgreSQL server has no extension 'vector'; install pgvector on the server, or keep the library"
            " in a SQLite file"
        )


def _distance(left: bytes, right: bytes) -> float:
    import numpy as np

    one, other = np.frombuffer(left, "<f4"), np.frombuffer(right, "<f4")
    return float(1 - one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))


def vector_for(connection: Connection, row: Matrix) -> bytes | str:
    """A vector as it is given to a database: little-endian floats on SQLite, pgvector's text on PostgreSQL.

    Nine digits tell every float of 32 bits from its neighbours, so nothing is lost.
    """
    if connection.dialect == "sqlite":
        return row.astype("<f4").tobytes()
    return "[" + ",".join([f"{number:.9g}" for number in row.tolist()]) + "]"


def vectors_from(connection: Connection, stored: Sequence[bytes], dimensions: int) -> Matrix:
    """Vectors as rows, from `vector` on SQLite and `vector_send(vector)` on PostgreSQL."""
    import numpy as np

    if connection.dialect == "sqlite":
        return np.frombuffer(b"".join(stored), "<f4").reshape(len(stored), dimensions).astype(np.float32)
    numbers = b"".join([bytes(one)[_HEADER:] for one in stored])
    return np.frombuffer(numbers, ">f4").reshape(len(stored), dimensions).astype(np.float32)


def nearest(
    connection: Connection, vector: Matrix, model: str, *, limit: int, document: str | None = None
) -> list[tuple[int, float]]:
    """The passages of the current generations whose vectors are nearest, by their number and cosine; nearest first."""
    asked = {"vector": vector_for(connection, vector), "model": model, "document": document, "limit": limit}
    if connection.dialect == "sqlite":
        rows = connection.execute(
            """
            SELECT c.number, vec_distance_cosine(v.vector, :vector) AS distance
            FROM docs_document AS d
            JOIN docs_chunk AS c ON c.document = d.document AND c.generation = d.generation
            JOIN docs_vector AS v ON v.chunk = c.chunk AND v.generation = c.generation
            WHERE v.model = :model AND (:document IS NULL OR d.document = :document)
            ORDER BY distance, c.chunk
            LIMIT :limit
            """,
            asked,
        )
    else:
        rows = connection.execute(
            """
            SELECT c.number, v.vector <=> %(vector)s::vector AS distance
            FROM docs_document AS d
            JOIN docs_chunk AS c ON c.document = d.document AND c.generation = d.generation
            JOIN docs_vector AS v ON v.chunk = c.chunk AND v.generation = c.generation
            WHERE v.model = %(model)s AND (%(document)s::text IS NULL OR d.document = %(document)s)
            ORDER BY distance, c.chunk
            LIMIT %(limit)s
            """,
            asked,
        )
    return [(number, 1 - distance) for number, distance in rows]
