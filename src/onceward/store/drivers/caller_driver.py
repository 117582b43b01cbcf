"""Requests of the engine on a connection of the caller: spelled for its driver, and written whole or not at all.

An enqueue is several statements, so a frame surrounds it: a savepoint inside a transaction of the caller, a transaction
on a connection that commits every statement. After an error the caller's transaction can go on.
"""

from __future__ import annotations

import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

from onceward.errors import SchemaTooOld
from onceward.model.connection import Dialect
from onceward.store import queries
from onceward.store.drivers.sqlite import as_parameter
from onceward.store.op import Many, Query, Request, Row, Rows, Uuids
from onceward.store.queries import Statement

Placeholder = Callable[[str, int], str]
_statements = cache(queries.Statements)
_MISSING_TABLE = re.compile(r'no such table: (?:onceward_|sqlite_sequence)|relation "onceward_\w+" does not exist')


class TransactionState(NamedTuple):
    """Whether a connection is in a transaction, and whether it commits each statement otherwise."""

    in_transaction: bool
    commits_each_statement: bool


class Frame(NamedTuple):
    """The statements before an enqueue, after it, and after its failure."""

    begin: str
    keep: str | None
    undo: tuple[str, ...]


_SAVEPOINT = Frame(
    "SAVEPOINT onceward_enqueue",
    "RELEASE SAVEPOINT onceward_enqueue",
    ("ROLLBACK TO SAVEPOINT onceward_enqueue", "RELEASE SAVEPOINT onceward_enqueue"),
)
_FRAMES: dict[tuple[Dialect, TransactionState], Frame] = {
    ("sqlite", TransactionState(True, True)): _SAVEPOINT,
    ("sqlite", TransactionState(True, False)): _SAVEPOINT,
    ("sqlite", TransactionState(False, True)): Frame("BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",)),
    # BEGIN as the driver would at the first write; the caller commits. A savepoint alone would be the outermost, and
    # its release a commit.
    ("sqlite", TransactionState(False, False)): Frame("BEGIN IMMEDIATE", None, ("ROLLBACK",)),
    ("postgres", TransactionState(True, True)): _SAVEPOINT,
    ("postgres", TransactionState(True, False)): _SAVEPOINT,
    ("postgres", TransactionState(False, True)): Frame("BEGIN", "COMMIT", ("ROLLBACK",)),
    ("postgres", TransactionState(False, False)): _SAVEPOINT,  # the driver has sent BEGIN before it
}


class _Requests:
    """Spells requests for one driver."""

    def __init__(self, connection: Any, dialect: Dialect, placeholder: Placeholder) -> None:
        self.dialect: Dialect = dialect
        self._connection = connection
        self._texts = _statements(dialect, placeholder)
        self._by_place = placeholder is queries.dollar

    def _statements_for(self, request: Request) -> Iterator[tuple[str, Any]]:
        """The statements of a request, with their parameters."""
        if not isinstance(request, Query | Many):
            raise TypeError(f"not a request for the caller's own connection: {request!r}")
        statement = self._texts[request.name]
        for values in self._values(request, statement):
            yield statement.text, tuple(values[name] for name in statement.places) if self._by_place else values

    def _values(self, request: Query | Many, statement: Statement) -> Iterator[Mapping[str, Any]]:
        if isinstance(request, Query):
            if statement.text:
                yield self._bound(request.params)
        elif self.dialect == "sqlite":
            for row in request.full_rows:
                yield self._bound(dict(zip(statement.places, row, strict=True)))
        elif request.rows:
            yield dict(zip(statement.columns, request.columns, strict=True))

    def _bound(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.dialect == "sqlite":
            return {name: as_parameter(value) for name, value in values.items()}
        return {name: _uuids(value) if type(value) is Uuids else value for name, value in values.items()}


def _uuids(values: Uuids) -> list[uuid.UUID]:
    return [uuid.UUID(bytes=value) for value in values]


def _refuse_missing_tables(error: BaseException) -> None:
    if _MISSING_TABLE.search(str(error)):
        raise SchemaTooOld(
            "the database of this connection has no tables of Onceward. Is it the App's own database? "
            "Then run: onceward migrate"
        ) from error


class CallerDriver(_Requests, ABC):
    """Runs operations on a connection of the caller."""

    @abstractmethod
    def execute(self, text: str, params: Any = None) -> Rows:
        """Run one statement and return all its rows."""

    @abstractmethod
    def state(self) -> TransactionState:
        """The transaction state of the connection."""

    def run(self, request: Request) -> Rows:
        """Run one request and return all its rows."""
        rows: list[Row] = []
        for text, params in self._statements_for(request):
            rows += self.execute(text, params)
        return rows

    @contextmanager
    def framed(self) -> Iterator[None]:
        """Write everything that runs inside, or nothing."""
        frame = _FRAMES[self.dialect, self.state()]
        self.execute(frame.begin)
        try:
            yield
            if frame.keep is not None:
                self.execute(frame.keep)
        except BaseException as error:
            # Some errors have already rolled the transaction back, or ended the connection.
            with suppress(Exception):
                for text in frame.undo:
                    self.execute(text)
            _refuse_missing_tables(error)
            raise


class AsyncCallerDriver(_Requests, ABC):
    """Runs operations on an awaited connection of the caller."""

    @abstractmethod
    async def aexecute(self, text: str, params: Any = None) -> Rows:
        """Run one statement and return all its rows."""

    @abstractmethod
    async def astate(self) -> TransactionState:
        """The transaction state of the connection."""

    async def arun(self, request: Request) -> Rows:
        """Run one request and return all its rows."""
        rows: list[Row] = []
        for text, params in self._statements_for(request):
            rows += await self.aexecute(text, params)
        return rows

    @asynccontextmanager
    async def aframed(self) -> AsyncIterator[None]:
        """Write everything that runs inside, or nothing."""
        frame = _FRAMES[self.dialect, await self.astate()]
        await self.aexecute(frame.begin)
        try:
            yield
            if frame.keep is not None:
                await self.aexecute(frame.keep)
        except BaseException as error:
            with suppress(Exception):  # as in whole
                for text in frame.undo:
                    await self.aexecute(text)
            _refuse_missing_tables(error)
            raise


def sqlite3_state(connection: Any) -> TransactionState:
    """The state of a connection of the library sqlite3."""
    # Since Python 3.12 `autocommit` decides; its third value, -1, leaves it to the isolation level as before.
    autocommit = getattr(connection, "autocommit", -1)
    commits = autocommit is True or (autocommit == -1 and connection.isolation_level is None)
    return TransactionState(connection.in_transaction, commits)


def psycopg_state(connection: Any) -> TransactionState:
    """The state of a connection of psycopg."""
    return TransactionState(connection.info.transaction_status != 0, bool(connection.autocommit))
