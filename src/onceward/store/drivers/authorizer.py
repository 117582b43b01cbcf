"""The SQLite authorizer for functions given to `ctx.write`: it denies what they must not do.

SQLite calls it when a statement is prepared, with every table, index, trigger and pragma that the statement or a
trigger of it touches. So no statement prepared on a lent connection can change the engine's tables. apsw and sqlite3
use the same numbers for actions.
"""

from __future__ import annotations

import apsw

from onceward.store.drivers.sql_check import OWN_PREFIX

_NEVER = frozenset((apsw.SQLITE_TRANSACTION, apsw.SQLITE_SAVEPOINT, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH))
_READS = frozenset((apsw.SQLITE_READ, apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE))
_ROWS = frozenset((apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE))
_PRAGMAS = frozenset(
    ("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list",
     "foreign_key_check", "defer_foreign_keys", "database_list", "function_list", "collation_list", "compile_options",
     "encoding", "page_count", "page_size", "freelist_count", "data_version", "user_version", "application_id",
     "integrity_check", "quick_check")
)  # fmt: skip
"""Pragmas that only read, or concern this transaction or the application's own numbers."""


def is_denied(action: int, first: str | None, second: str | None) -> bool:
    """Whether the authorizer denies an action of a lent connection.

    It denies ending the transaction, attaching files, changing the engine's tables or their schema, and changing the
    connection.
    """
    if action in _READS:
        return False
    if action in _NEVER:
        return True
    if action == apsw.SQLITE_PRAGMA:
        return (first or "").lower() not in _PRAGMAS
    if first == "sqlite_sequence" and (action == apsw.SQLITE_INSERT or second == "seq"):
        return True  # the last ids of tables, which SQLite keeps by itself
    names = (first,) if action in _ROWS else (first, second)  # of an update the second is a column
    return any((name or "").lower().startswith(OWN_PREFIX) for name in names)
