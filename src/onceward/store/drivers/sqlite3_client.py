"""SQLite sessions for clients, through the library that the process already uses for the file (R12).

Through sqlite3 the engine never checkpoints: up to 3.51.2, which many Pythons link, SQLite can lose commits when one
connection resets the WAL while another writes it. Workers checkpoint, through apsw.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import warnings
from typing import Any

import apsw

from onceward.errors import StoreError, StoreFull, StoreUnavailable, TwoSqliteLibraries, WriteRefused
from onceward.model.connection import Dialect
from onceward.model.times import StoreClock
from onceward.store import queries
from onceward.store.drivers import sqlite_library_guard
from onceward.store.drivers.authorizer import is_denied
from onceward.store.drivers.file_mode import make_private
from onceward.store.drivers.lent_connection import GuardedConnection
from onceward.store.drivers.local_disk import insist_on_local_disk
from onceward.store.drivers.session import Session, quietly
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.drivers.sqlite import (
    BUSY_LIMIT_S,
    OnConnect,
    OpenedFile,
    Sighting,
    SqliteSession,
    as_parameter,
    in_portions,
    size_of_log,
)
from onceward.store.op import Call, Many, Query, Request, Rows

_STATEMENTS = queries.Statements("sqlite", queries.colon)
_warned = threading.Lock()


def has_wal_bug(version: tuple[int, int, int]) -> bool:
    """Whether a version of SQLite can lose commits at a WAL reset."""
    repaired_earlier = (3, 44, 6) <= version < (3, 45, 0) or (3, 50, 7) <= version < (3, 51, 0)
    return (3, 7, 0) <= version <= (3, 51, 2) and not repaired_earlier


def _warn_once() -> None:
    if has_wal_bug(sqlite3.sqlite_version_info) and _warned.acquire(blocking=False):
        warnings.warn(
            f"this process uses the database through Python's sqlite3, which is SQLite {sqlite3.sqlite_version}: "
            "versions up to 3.51.2 can lose commits when a WAL is reset while another connection writes. "
            "Use apsw for your own tables too, or a Python with a newer SQLite",
            RuntimeWarning,
            stacklevel=2,
        )


class StandardSqliteSession(Session):
    """One connection to a SQLite file through sqlite3."""

    dialect: Dialect = "sqlite"

    def __init__(
        self,
        path: str,
        clock: StoreClock,
        on_connect: OnConnect | None = None,
        *,
        read_only: bool = False,
        patience_s: float = 60.0,
    ) -> None:
        super().__init__(clock, patience_s)
        self._path = path
        self._on_connect = on_connect
        self._read_only = read_only
        self._connection: sqlite3.Connection | None = None
        self._file = OpenedFile(path)

    def opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        insist_on_local_disk(self._path)
        _warn_once()
        make_private(self._path)
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                self._path, timeout=BUSY_LIMIT_S, isolation_level=None, check_same_thread=False
            )
            self._file = OpenedFile(self._path)
            connection.execute("PRAGMA journal_mode = wal")
            connection.execute("PRAGMA synchronous = full")
            connection.execute("PRAGMA foreign_keys = on")
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            if self._on_connect is not None:
                self._on_connect(connection)
            if self._read_only:
                connection.execute("PRAGMA query_only = on")
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, sqlite3.Error):
                raise _engine_error(error, self._path) from error
            raise
        return connection

    def engine_error(self, error: Exception) -> Exception:
        return _engine_error(error, self._path) if isinstance(error, sqlite3.Error) else error

    def is_as_new(self) -> bool:
        return self._connection is None  # sqlite3 does not say

    def discard(self) -> None:
        if self._connection is not None:
            quietly(self._connection.close)
            self._connection = None

    def commit(self) -> None:
        super().commit()
        self._file.check()

    def in_transaction(self) -> bool:
        return self._connection is not None and self._connection.in_transaction

    def run(self, request: Request) -> Rows:
        connection = self.opened()
        try:
            if type(request) is Query:
                text = _STATEMENTS[request.name].text
                if not text:
                    return []
                params = {name: as_parameter(value) for name, value in request.params.items()}
                return connection.execute(text, params).fetchall()
            if type(request) is Many:
                return [row for part in in_portions(request) for row in connection.execute(*part).fetchall()]
            if type(request) is Call:
                self._lend(connection, request)
                return []
        except sqlite3.Error as error:
            if type(request) is Call:
                raise  # `Lending` has chosen the error already
            raise _engine_error(error, self._path) from error
        raise TypeError(f"not a request: {request!r}")

    def _lend(self, connection: sqlite3.Connection, request: Call) -> None:
        connection.set_authorizer(_allow)
        try:
            self.lending.lend(self, GuardedConnection(connection, self.dialect), request)
        finally:
            connection.set_authorizer(None)


def _allow(action: int, first: str | None, second: str | None, _db: str | None, _by: str | None) -> int:
    return sqlite3.SQLITE_DENY if is_denied(action, first, second) else sqlite3.SQLITE_OK


def _engine_error(error: sqlite3.Error, path: str) -> Exception:
    """The engine's error for an error of SQLite; the same error if there is none."""
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:  # the higher bits say where it happened
        case sqlite3.SQLITE_AUTH:
            return WriteRefused(f"not allowed in ctx.write: {error}")
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"the disk of {path} is full; nothing was lost: free some space and go on")
        case sqlite3.SQLITE_READONLY:
            return StoreUnavailable(f"{path} cannot be written: {error}; check its owner, its folder and its disk")
        case sqlite3.SQLITE_CANTOPEN:
            return StoreUnavailable(f"the database file {path} cannot be opened: {error}; does its folder exist?")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return TryAgainLater(
                f"another connection has held the write lock of {path} for {BUSY_LIMIT_S:g}s; "
                "if it is one of this program, commit first, or hand it over with conn="
            )
        case sqlite3.SQLITE_IOERR:
            return ConnectionLost(f"input or output failed on {path}: {error}")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreError(f"{path} is not a healthy SQLite database: {error}")
    return error


_OTHER: dict[sqlite_library_guard.Library, type[Session]] = {"sqlite3": SqliteSession, "apsw": StandardSqliteSession}


class ClientSqliteSession(Session):
    """A session that changes to sqlite3 when the program opens the file so, and back when a worker starts.

    Between two transactions the change has no effect. It waits for a transaction of another thread; inside a
    transaction of its own, a thread cannot open the file through sqlite3.
    """

    dialect: Dialect = "sqlite"

    def __init__(
        self,
        path: str,
        clock: StoreClock,
        on_connect: OnConnect | None = None,
        *,
        read_only: bool = False,
        patience_s: float = 60.0,
        seen: Sighting | None = None,
    ) -> None:
        super().__init__(clock, patience_s)
        self._path = path
        self._on_connect = on_connect
        self._read_only = read_only
        self._session: Session | None = None
        self._seen = seen or Sighting()
        self._turn = threading.RLock()
        self._user = 0
        sqlite_library_guard.on_change(path, self._change_to)

    def opened(self) -> Any:
        with self._turn:
            self._user = threading.get_ident()
            try:
                connection = (self._session or self._chosen()).opened()
            except TwoSqliteLibraries:  # sqlite3 came between the choice and the opening
                self._session = None
                connection = self._chosen().opened()
            self._seen.was_there = True
            return connection

    def _chosen(self) -> Session:
        if self._session is None:
            if sqlite_library_guard.uses_standard_library(self._path):
                self._session = StandardSqliteSession(
                    self._path, self.clock, self._on_connect, read_only=self._read_only
                )
            else:
                self._session = SqliteSession(
                    self._path, self.clock, self._on_connect, read_only=self._read_only, seen=self._seen
                )
        return self._session

    def run(self, request: Request) -> Rows:
        with self._turn:
            self.opened()
            return (self._session or self._chosen()).run(request)

    def engine_error(self, error: Exception) -> Exception:
        with self._turn:
            return self._chosen().engine_error(error)

    def commit(self) -> None:
        with self._turn:
            self._chosen().commit()

    def make_room(self) -> bool:
        with self._turn:
            return self._chosen().make_room()

    def log_bytes(self) -> int:
        return size_of_log(self._path)

    def is_as_new(self) -> bool:
        with self._turn:
            return self._session is None or self._session.is_as_new()

    def discard(self) -> None:
        with self._turn:
            if self._session is not None:
                self._session.discard()
                self._session = None

    def in_transaction(self) -> bool:
        with self._turn:
            return self._session is not None and self._session.in_transaction()

    def _change_to(self, library: sqlite_library_guard.Library) -> None:
        """Close a connection through the other library, after another thread's transaction on it."""
        deadline = time.monotonic() + BUSY_LIMIT_S
        while self._still_uses(_OTHER[library]):
            if self._user == threading.get_ident() or time.monotonic() > deadline:
                raise TwoSqliteLibraries(
                    f"a transaction of the engine is open on {self._path}, through another SQLite library than the one "
                    "that is to open it now: let that transaction end first"
                )
            time.sleep(0.001)

    def _still_uses(self, other: type[Session]) -> bool:
        """Whether a transaction is under way in a session of this kind; if not, the session is closed."""
        # Checked without the lock first: two threads may be asking each other for the same change.
        if not isinstance(self._session, other):
            return False
        with self._turn:
            if not isinstance(self._session, other):
                return False
            try:
                if self.in_transaction():
                    return True
            except apsw.ThreadingViolationError:  # a function that was lent the raw connection is using it
                return True
            self.discard()
            return False
