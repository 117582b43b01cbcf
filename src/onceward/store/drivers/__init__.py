"""Connections and transactions of SQLite and PostgreSQL. Only this room imports apsw, sqlite3 and psycopg.

Modules in `__all__` are for the whole engine, the others for the store alone.
"""

__all__ = [
    "availability",
    "caller_connection",
    "lent_connection",
    "migrate",
    "open",
    "postgres",
    "session",
    "session_errors",
    "sqlite",
    "sqlite_library_guard",
]
