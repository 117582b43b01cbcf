"""SQLite sessions: one file, WAL, full durability, through apsw, whose wheel has a current SQLite (decision 10)."""

from __future__ import annotations

import os
import random
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import apsw
import msgspec

from onceward.errors import StoreError, StoreFull, StoreUnavailable, WriteRefused
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
from onceward.store.op import Call, Many, PackedBytes, Query, Request, Rows, Uuids

OnConnect = Callable[[Any], None]
BUSY_LIMIT_S = 30.0
ABANDON_LIMIT_S = 1.0
"""How long `abandon` tries to close a connection that a function does not give back."""
CHECKPOINT_PAGES = 1_000
LARGEST_LOG = 64 << 20
"""To how many bytes SQLite truncates a log that had grown behind a long read transaction."""
MOST_ROWS = 64
"""The most rows of a `Many` in one statement."""
IN_MEMORY = "?vfs=memdb"
"""The address ending of a database in memory that all connections of a process share, with file-like locks."""

_STATEMENTS = queries.Statements("sqlite", queries.colon)


PLAIN = frozenset((int, str, bytes, float, bool, type(None)))
"""Types that SQLite takes unchanged: most parameters; a call for each would cost more than the statement."""


def as_parameter(value: Any) -> Any:
    """A parameter as SQLite takes it: lists and dicts as JSON, byte strings as one blob, a UUID as bytes."""
    if type(value) is list:
        return b"".join(value) if value and type(value[0]) is bytes else msgspec.json.encode(value).decode()
    if type(value) is dict:
        return msgspec.json.encode(value).decode()
    if type(value) is Uuids:
        return b"".join(value)
    if type(value) is uuid.UUID:
        return value.bytes
    if type(value) is PackedBytes:
        return value.layout()
    return value


def in_portions(request: Many) -> Iterator[tuple[str, list[Any]]]:
    """Split a `Many` into statements with many rows each; the number of rows is a power of two.

    So few texts are prepared.
    """
    same = [value if type(value) in PLAIN else as_parameter(value) for value in request.same]
    has_uuids = "uuid" in _STATEMENTS[request.name].kinds[len(same) :]
    start, size = 0, MOST_ROWS
    while (left := len(request.rows) - start) > 0:
        while size > left:
            size //= 2
        values: Iterable[Any] = chain.from_iterable(request.rows[start : start + size])
        if has_uuids:
            values = [value if type(value) in PLAIN else as_parameter(value) for value in values]
        yield queries.text_for_rows(request.name, size), [*same, *values]
        start += size


def flags_for(path: str, *, was_there: bool = False) -> int:
    """The flags to open a database: in memory by an address, a file by its path.

    A file that was opened before is not created again: an empty one would only hide that it is gone.
    """
    usual = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    if path.endswith(IN_MEMORY):
        return usual | apsw.SQLITE_OPEN_URI
    return apsw.SQLITE_OPEN_READWRITE if was_there else usual


_LASTING = frozenset(
    (
        apsw.SQLITE_PRAGMA, apsw.SQLITE_ATTACH, apsw.SQLITE_DETACH, apsw.SQLITE_SAVEPOINT,
        apsw.SQLITE_CREATE_TEMP_TABLE, apsw.SQLITE_CREATE_TEMP_VIEW, apsw.SQLITE_CREATE_TEMP_TRIGGER,
    )
)  # fmt: skip
"""Actions that may change a connection for its next user."""


class OpenedFile:
    """The identity of the file that a path named when it was opened.

    After another file is moved to that path, an open connection goes on in the old file, which no other process sees.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._opened = None if path.endswith(IN_MEMORY) else self._now()

    def _now(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    @property
    def is_there(self) -> bool:
        """Whether the path still names that file."""
        return self._opened is None or self._now() == self._opened

    def check(self) -> None:
        """Raise if another file is at the path; its receipts then decide what has committed."""
        if not self.is_there:
            raise ConnectionLost(f"{self._path} was deleted, or another file was put in its place, while it was open")


class Sighting:
    """Whether any session of a store has opened its file: from then on no session makes an empty one in its place."""

    def __init__(self) -> None:
        self.was_there = False


def size_of_log(path: str) -> int:
    """The size of a database's log in bytes; 0 if there is none."""
    with suppress(OSError):
        return Path(f"{path}-wal").stat().st_size
    return 0


class SqliteSession(Session):
    """One connection to a SQLite database."""

    dialect: Dialect = "sqlite"
    is_near = True

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
        self._seen = seen or Sighting()
        self._on_connect = on_connect
        self._read_only = read_only
        self._connection: apsw.Connection | None = None
        self._file = OpenedFile(path)
        self._lending = False
        self._was_changed = False
        self._busy_since = 0.0

    def opened(self) -> apsw.Connection:
        if self._connection is None:
            self._connection = self._open()
        return self._connection

    def _open(self) -> apsw.Connection:
        sqlite_library_guard.opening_with_apsw(self._path)
        if not (self._seen.was_there or self._path.endswith(IN_MEMORY)):
            insist_on_local_disk(self._path)
            make_private(self._path)
        try:
            connection = apsw.Connection(self._path, flags=flags_for(self._path, was_there=self._seen.was_there))
            self._file = OpenedFile(self._path)
        except apsw.CantOpenError as error:
            why = str(error)
            if not Path(self._path).absolute().parent.exists():
                why = "its folder does not exist"
            elif self._seen.was_there and not Path(self._path).exists():
                why = "it is not there any more"
            raise StoreUnavailable(f"the database file {self._path} cannot be opened: {why}") from error
        except apsw.Error as error:
            raise _engine_error(error, self._path) from error
        connection.set_busy_handler(self._wait_politely)
        # Plans must not depend on bound values: else every statement that uses an index is prepared again (STAT4).
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        try:
            connection.execute("PRAGMA journal_mode = wal")
            connection.execute("PRAGMA synchronous = full")
            connection.execute("PRAGMA foreign_keys = on")
            connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            connection.execute(f"PRAGMA journal_size_limit = {LARGEST_LOG}")
            if self._on_connect is not None:
                self._on_connect(connection)
            if self._read_only:
                connection.execute("PRAGMA query_only = on")
        except BaseException as error:
            connection.close()
            if isinstance(error, apsw.Error):
                raise _engine_error(error, self._path) from error
            raise
        # SQLite calls it when a statement is prepared, not when it runs: the engine's own stay in apsw's cache.
        connection.authorizer = self._allow
        self._was_changed = False
        self._seen.was_there = True
        return connection

    def _wait_politely(self, tries: int) -> bool:
        """Wait while other connections write; SQLite's own handler backs off so far that a process starves."""
        if tries == 0:
            self._busy_since = time.monotonic()
        if not self._patience_s or time.monotonic() - self._busy_since > BUSY_LIMIT_S:
            return False
        time.sleep(random.uniform(0.0002, 0.002))
        return True

    def engine_error(self, error: Exception) -> Exception:
        return _engine_error(error, self._path) if isinstance(error, apsw.Error) else error

    def discard(self) -> None:
        if self._connection is not None:
            quietly(self._connection.close)
            self._connection = None

    def is_as_new(self) -> bool:
        """Not after a changed setting or a replaced file, nor while an unfinished cursor holds a snapshot."""
        if self._connection is None:
            return True
        no_snapshot = self._connection.txn_state() == apsw.SQLITE_TXN_NONE
        return no_snapshot and not self._was_changed and self._file.is_there

    def make_room(self) -> bool:
        # A log that a reader had pinned stays as large after the reader has gone. SQLite uses it again from its
        # beginning once all of it is in the database, but checkpoints only after a commit that succeeds.
        with suppress(apsw.Error):
            [(is_busy, pages, copied)] = self.opened().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            return not is_busy and pages == copied and pages != 0
        return False

    def log_bytes(self) -> int:
        return size_of_log(self._path)

    def commit(self) -> None:
        super().commit()
        self._file.check()

    def in_transaction(self) -> bool:
        return self._connection is not None and self._connection.in_transaction

    def data_version(self) -> int:
        """A number that changes when another connection has committed."""
        return int(self.opened().execute("PRAGMA data_version").fetchall()[0][0])  # type: ignore[arg-type]

    def run(self, request: Request) -> Rows:
        connection = self.opened()
        try:
            if type(request) is Query:
                text = _STATEMENTS[request.name].text
                if not text:
                    return []
                params = request.params.items()
                plain = {name: value if type(value) in PLAIN else as_parameter(value) for name, value in params}
                return connection.execute(text, plain).fetchall()
            if type(request) is Many:
                return [row for part in in_portions(request) for row in connection.execute(*part).fetchall()]
            if type(request) is Call:
                self._lend(connection, request)
                return []
        except apsw.Error as error:
            if type(request) is Call:
                raise  # `Lending` has chosen the error already
            raise _engine_error(error, self._path) from error
        raise TypeError(f"not a request: {request!r}")

    def _lend(self, connection: apsw.Connection, request: Call) -> None:
        self._lending = True
        try:
            self.lending.lend(self, GuardedConnection(connection, self.dialect, has_cache=True), request)
        finally:
            self._lending = False

    def abandon(self) -> Callable[[], None] | None:
        # Another thread can close it only between two statements; that frees the lock of the file.
        connection, self._connection = self._connection, None
        until = time.monotonic() + ABANDON_LIMIT_S
        while connection is not None and time.monotonic() < until:
            try:
                connection.interrupt()
                connection.close(True)
                return None
            except apsw.Error:
                time.sleep(0.001)
        return None if connection is None else partial(quietly, connection.close)

    def _allow(self, action: int, first: str | None, second: str | None, _db: str | None, _by: str | None) -> int:
        if action in _LASTING:
            self._was_changed = True
        if not self._lending:
            return apsw.SQLITE_OK
        return apsw.SQLITE_DENY if is_denied(action, first, second) else apsw.SQLITE_OK


def _engine_error(error: apsw.Error, path: str) -> Exception:
    """The engine's error for an error of SQLite; the same error if there is none."""
    match error:
        case apsw.AuthError():
            return WriteRefused(f"not allowed in ctx.write: {error}")
        case apsw.FullError():
            return StoreFull(f"the disk of {path} is full; nothing was lost: free some space and go on")
        case apsw.ReadOnlyError():
            return StoreUnavailable(f"{path} cannot be written: {error}; check its owner, its folder and its disk")
        case apsw.BusyError() | apsw.LockedError():
            return TryAgainLater(f"another process has held the write lock of {path} for {BUSY_LIMIT_S:g}s")
        case apsw.IOError() | apsw.CantOpenError():  # of the files beside the database
            return ConnectionLost(f"input or output failed on {path}: {error}")
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreError(f"{path} is not a healthy SQLite database: {error}")
    return error
