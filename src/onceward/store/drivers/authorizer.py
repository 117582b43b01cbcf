"""What a function given to `ctx.write` may do on SQLite: its authorizer is asked when a statement is prepared.

SQLite tells it every table, index, trigger and pragma that a statement touches, whatever the statement looks like and
also for triggers that it fires. So the engine's tables are safe from any statement that is prepared while a connection
is lent. The numbers of actions are the same for apsw and sqlite3.
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
"""Pragmas that only tell something, or concern this transaction or the application's own numbers."""


def is_denied(action: int, first: str | None, second: str | None) -> bool:
    """Whether a lent connection may not do this: end the transaction, reach other files, change the engine's tables or
    the schema around them, or change the connection."""
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
