"""What a function given to `ctx.write` may do with the connection: rows of its own, and nothing else.

It runs inside the engine's transaction, so it may neither end that transaction nor change the engine's tables.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from onceward.errors import OncewardError, WriteRefused
from onceward.model.connection import Dialect
from onceward.model.retry import described

_TRANSACTION_WORDS = frozenset(
    {"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare", "attach", "detach"}
)
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/|(\$\w*\$).*?\1", re.S)
_OWN_TABLE = re.compile(r"\b(?:insert\s+into|update|delete\s+from|merge\s+into|drop\s+table|alter\s+table|truncate)\b"
                        r"(?:\s+(?:only|table|if\s+exists))*\s+\"?(?:\w+\"?\.\"?)?onceward_", re.I)  # fmt: skip
_LASTING = re.compile(r"(?:^|;)\s*(?:set|listen|load|declare|create)\b|\bset_config\s*\(", re.I)
"""What may change a connection for whoever uses it next."""

_SESSION_WORDS = frozenset({"set", "reset", "discard", "listen", "unlisten", "load"})
_OF_ITS_OWN = re.compile(
    r"set\s+constraints\b|set\s+local\s+"
    r"(?!(?:statement_timeout|lock_timeout|idle|transaction|default_transaction|role|session|search_path)|to\b)\w",
    re.I,
)
"""What holds until the end of the transaction and does not change what the engine says in it."""
_CONFIG = re.compile(r"\bset_config\s*\((?!\s*'\w+\.)", re.I)


def refuse_session_changes(sql: str) -> None:
    """Raise if a text would change the connection for whoever has it next, or for what the engine still has to say in
    its transaction: its time limits, its role, where it looks for tables."""
    for statement in _QUOTED.sub(" ", sql).split(";"):
        words = statement.split(None, 1)
        if words and words[0].lower() in _SESSION_WORDS and not _OF_ITS_OWN.match(statement.strip()):
            raise WriteRefused(
                f"{words[0].upper()} is not allowed in ctx.write: the connection is the engine's, for others as well"
            )
    if _CONFIG.search(sql):
        raise WriteRefused(
            "set_config is allowed in ctx.write for settings of your own, as in set_config('shop.customer', %s, true): "
            "the connection is the engine's, for others as well"
        )


def refuse_transaction_control(sql: str) -> None:
    """Raise if a text holds a statement that would begin, end or split a transaction, or write the engine's tables."""
    bare = _QUOTED.sub(" ", sql)
    for statement in bare.split(";"):
        words = statement.split(None, 1)
        if words and words[0].lower() in _TRANSACTION_WORDS:
            raise WriteRefused(
                f"{words[0].upper()} is not allowed in ctx.write: the engine commits these rows with the stage"
            )
    if _OWN_TABLE.search(_QUOTED.sub(lambda match: match[0] if match[0].startswith('"') else " ", sql)):
        raise WriteRefused("the tables onceward_… are the engine's own; ctx.write may only read them")


lent: ContextVar[bool] = ContextVar("onceward_lent", default=False)
"""Whether this code is a function given to `ctx.write`, inside the commit of its stage."""


def call(function: Callable[..., object], connection: GuardedConnection, arguments: Sequence[Any]) -> None:
    """Call a function given to `ctx.write`. What it raises is an error of its stage, never one of the engine's.

    A verdict or an exit would end the thread that commits for everybody, and an error of ours, from the use of an app
    in there, would look as if the database were away.
    """
    token = lent.set(True)
    try:
        function(connection, *arguments)
    except WriteRefused:
        raise
    except BaseException as error:
        if isinstance(error, Exception) and not isinstance(error, OncewardError):
            raise
        raise WriteRefused(f"a function given to ctx.write raised {described(error)}") from error
    finally:
        lent.reset(token)


class GuardedConnection:
    """A connection that checks every statement before the database sees it."""

    def __init__(self, raw: Any, dialect: Dialect, *, is_shared: bool = False) -> None:
        self._raw = raw
        self._dialect = dialect
        self._is_shared = is_shared
        self._open = True
        self._ending = threading.Lock()
        self.leaves_trace = False
        """Whether it may be another connection now than it was: then nobody else should use it."""

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    def execute(self, sql: str, params: Sequence[Any] | dict[str, Any] = ()) -> Any:
        self._check(sql)
        return self._raw.execute(sql, params)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._check(sql)
        cursor = self._raw.cursor()
        cursor.executemany(sql, rows)

    def interrupt(self) -> None:
        """Stop the statement that runs on it; safe from any thread, and nothing once it was given back."""
        with self._ending:
            if self._open:
                (self._raw.cancel if self._dialect == "postgres" else self._raw.interrupt)()

    def shut(self) -> None:
        """Refuse everything from now on: the function that had this connection has returned."""
        with self._ending:
            self._open = False

    def _check(self, sql: str) -> None:
        if not self._open:
            raise WriteRefused("this connection was lent to one function and is closed now; keep no reference to it")
        if self._dialect == "postgres":  # SQLite asks its authorizer, which cannot be deceived
            refuse_transaction_control(sql)
            if self._is_shared:
                refuse_session_changes(sql)
            self.leaves_trace = self.leaves_trace or _LASTING.search(sql) is not None
