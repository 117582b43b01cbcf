"""The connection that functions given to `ctx.write` get: they may write rows of the application, and no more.

They run inside the engine's transaction, so they may neither end it nor change the engine's tables.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from onceward.errors import OncewardError, WriteRefused
from onceward.model.connection import Dialect
from onceward.model.retry import IN_WRITE, error_text
from onceward.store.drivers.sql_check import leaves_trace, objection, session_objection

lent: ContextVar[bool] = ContextVar("onceward_lent", default=False)
"""Whether this code is a function given to `ctx.write`, inside the commit of its stage."""


def call(function: Callable[..., object], connection: GuardedConnection, arguments: Sequence[Any]) -> None:
    """Call a function given to `ctx.write`; what it raises is an error of its stage, never one of the engine.

    A verdict or an exit would end the thread that commits for all stages, and an `OncewardError`, from the use of an
    app inside the function, would look as if the database were away.
    """
    token = lent.set(True)
    try:
        function(connection, *arguments)
    except WriteRefused as error:
        error.add_note(f"{IN_WRITE}{getattr(function, '__name__', type(function).__name__)})")
        raise
    except BaseException as error:
        error.add_note(f"{IN_WRITE}{getattr(function, '__name__', type(function).__name__)})")
        if isinstance(error, Exception) and not isinstance(error, OncewardError):
            raise
        raise WriteRefused(f"a function given to ctx.write raised {error_text(error)}") from error
    finally:
        lent.reset(token)


def call_all(functions: Sequence[tuple[Callable[..., object], Sequence[Any]]], connection: GuardedConnection) -> None:
    """Call functions given to `ctx.write`, one after the other."""
    for function, arguments in functions:
        call(function, connection, arguments)


class GuardedConnection:
    """A connection that checks every statement before the database sees it."""

    def __init__(self, raw: Any, dialect: Dialect, *, is_shared: bool = False, has_cache: bool = False) -> None:
        """With `has_cache` the driver keeps prepared statements, for which the authorizer is not called again.

        So a text with the word onceward, which may be one of the engine's, is prepared anew.
        """
        self._raw = raw
        self._dialect = dialect
        self._is_shared = is_shared
        self._has_cache = has_cache
        self._open = True
        self._ending = threading.Lock()
        self.raised: Exception | None = None
        """The last error that the database raised on it."""
        self.leaves_trace = False
        """Whether statements may have changed the connection; then it is not used again."""

    @property
    def dialect(self) -> Dialect:
        return self._dialect

    def execute(self, sql: str, params: Sequence[Any] | dict[str, Any] = ()) -> Any:
        self._check(sql)
        try:
            if self._has_cache:
                return self._raw.execute(sql, params, can_cache="onceward" not in sql)
            return self._raw.execute(sql, params)
        except Exception as error:
            self.raised = error
            raise

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._check(sql)
        try:
            if self._has_cache:
                self._raw.executemany(sql, rows, can_cache="onceward" not in sql)
            else:
                self._raw.cursor().executemany(sql, rows)
        except Exception as error:
            self.raised = error
            raise

    def interrupt(self) -> None:
        """Interrupt its running statement, from any thread; does nothing after it was shut."""
        with self._ending:
            if self._open:
                (self._raw.cancel if self._dialect == "postgres" else self._raw.interrupt)()

    def shut(self) -> None:
        """Refuse every statement from now on: the function that had this connection has returned."""
        with self._ending:
            self._open = False

    def _check(self, sql: str) -> None:
        if not self._open:
            raise WriteRefused("this connection was lent to one function and is closed now; keep no reference to it")
        if self._dialect == "postgres":  # SQLite has its authorizer
            refused = objection(sql) or (session_objection(sql) if self._is_shared else None)
            if refused is not None:
                raise WriteRefused(refused)
            self.leaves_trace = self.leaves_trace or leaves_trace(sql)
