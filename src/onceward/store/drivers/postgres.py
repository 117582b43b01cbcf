"""PostgreSQL, through psycopg. Nothing here needs a session, so a pooler in transaction mode will do (R11)."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onceward import extras
from onceward.errors import ConfigError, StoreError, StoreFull, StoreUnavailable, WriteRefused
from onceward.model.connection import Dialect
from onceward.model.times import StoreClock
from onceward.store import queries
from onceward.store.drivers.lent_connection import GuardedConnection
from onceward.store.drivers.session import Session, quietly
from onceward.store.drivers.session_errors import GONE, ConnectionLost, TryAgainLater, WentBack
from onceward.store.op import Call, Many, Query, Request, Rows
from onceward.support.logs import EngineLog
from onceward.support.redaction import know_address, redacted

try:
    import psycopg
    from psycopg import errors as pg
    from psycopg.pq import TransactionStatus

    from onceward.store.drivers import postgres_arrays
    from onceward.store.drivers.server_liveness import WatchedConnection
    from onceward.store.drivers.wire import Statement, Wire
except ImportError as missing:  # pragma: no cover - the extra is part of the development set-up
    raise ConfigError(f"PostgreSQL cannot be used: {extras.missing('psycopg')}") from missing

OnConnect = Callable[[Any], None]
logger = EngineLog("onceward.store")

_STATEMENTS = queries.Statements("postgres", queries.dollar)
_IN_WORDS = queries.Statements("postgres", queries.brace)
_BY_NAME = queries.Statements("postgres", queries.percent)
_BEGIN_WITH_RECEIPT = f"{_IN_WORDS['begin'].text}; {_IN_WORDS['write_receipt'].text}"
_BEGIN_AFTER_ANOTHER = f"{_IN_WORDS['begin'].text}; {_IN_WORDS['write_next_receipt'].text}"
_USUAL_OPTIONS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Options by which a dead server is noticed within half a minute."""
LONGEST_IDLE_MS = 30_000
"""How long a transaction may stay idle before the server ends it and releases its locks."""
_CANCEL_LIMIT_S = 1.0
QUIET_S = 10.0
"""For how long no transaction notifies after the server's notification queue was full."""
_TOO_MUCH = "54000"
_NOTIFY, _SAY_NOTHING = "pg_notify('onceward', ", "strpos('onceward', "
_END_IDLE_TRANSACTIONS = "SELECT set_config('idle_in_transaction_session_timeout', %s, false)"
_LIMIT_LOCK_WAITS = "SELECT set_config('lock_timeout', %s, false), set_config('onceward.lock_timeout', %s, false)"
_SERVER_TIMEOUTS = (
    "SET tcp_user_timeout = 30000;"
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
)
"""Settings by which the server notices a dead client as soon; by default it holds its locks for two hours."""


_OF_SEVERAL_SERVERS = {"target_session_attrs": "read-write"}
"""For an address with several servers: only the primary; a standby may lack confirmed transactions."""


def connect(url: str, name: str) -> WatchedConnection:
    """Connect in autocommit; options in the address override the usual ones."""
    said = psycopg.conninfo.conninfo_to_dict(url)
    are_several = any("," in str(said.get(name)) for name in ("host", "hostaddr"))
    usual = {**_USUAL_OPTIONS, **(_OF_SEVERAL_SERVERS if are_several else {})}
    return WatchedConnection.to({**usual, "application_name": name, **said, "client_encoding": "UTF8"})


class PostgresSession(Session):
    """One connection to PostgreSQL."""

    dialect: Dialect = "postgres"

    def __init__(
        self,
        url: str,
        clock: StoreClock,
        on_connect: OnConnect | None = None,
        *,
        read_only: bool = False,
        patience_s: float = 60.0,
        prepare: bool = True,
    ) -> None:
        super().__init__(clock, patience_s)
        self._url = url
        self._on_connect = on_connect
        self._read_only = read_only
        self._prepare = prepare
        self._connection: WatchedConnection | None = None
        self._wire: Wire | None = None
        self._quiet_until = 0.0
        """Until when transactions do not notify: the server's notification queue was full."""

    def opened(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            try:
                self._connection = connect(self._url, "onceward")
                self._set_up(self._connection)
            except psycopg.Error as error:
                self.discard()
                raise _engine_error(error) from error
            except BaseException:
                self.discard()
                raise
            self._wire = Wire(self._connection, prepare=self._prepare)
            self.openings += 1
            self.measure_clock()
        return self._connection

    def _set_up(self, connection: psycopg.Connection[Any]) -> None:
        connection.add_notify_handler(_ignore)
        if not self._prepare:
            connection.prepare_threshold = None
        else:
            connection.execute(_SERVER_TIMEOUTS)
            if not self._read_only:
                # Plans are made once, because planning takes longer than running; and a plan made for a small table
                # must not scan the large table it has become.
                connection.execute("SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan; SET jit = off")
                connection.execute(_END_IDLE_TRANSACTIONS, [str(LONGEST_IDLE_MS)])
                if self.lock_limit_s is not None:
                    limit_ms = str(round(self.lock_limit_s * 1_000))
                    connection.execute(_LIMIT_LOCK_WAITS, [limit_ms, limit_ms])
        if self._on_connect is not None:
            self._on_connect(connection)
        postgres_arrays.teach(connection.adapters)

    def engine_error(self, error: Exception) -> Exception:
        return _engine_error(error) if isinstance(error, psycopg.Error) else error

    def discard(self) -> None:
        if self._connection is not None:
            quietly(self._connection.close)
        self._connection = self._wire = None

    def in_transaction(self) -> bool:
        return self._connection is not None and self._connection.pgconn.transaction_status != TransactionStatus.IDLE

    def is_lost(self) -> bool:
        return self._wire is not None and self._wire.is_lost()

    def run(self, request: Request) -> Rows:
        connection = self.opened()
        wire = self._wire
        assert wire is not None
        try:
            if isinstance(request, Call):
                self._lend(connection, request)
                return []
            statement = _statement_for(request)
            if statement is not None and self._quiet_until and _NOTIFY in statement.text:
                statement = self._unless_quiet(statement)
            return [] if statement is None else wire.run(statement)
        except psycopg.Error as error:
            if isinstance(error, pg.InvalidSqlStatementName):
                wire.forget()
            if isinstance(request, Call):
                raise  # `Lending` has chosen the error already
            if not self.in_transaction():  # a statement that is a transaction of its own
                self._be_quiet_if_full(error)
            raise _engine_error(error) from error

    def _unless_quiet(self, statement: Statement) -> Statement:
        if time.monotonic() < self._quiet_until:
            return statement._replace(text=statement.text.replace(_NOTIFY, _SAY_NOTHING))
        self._quiet_until = 0.0
        return statement

    def _be_quiet_if_full(self, error: psycopg.Error) -> None:
        """After an error of a full notification queue, repeat the transaction without NOTIFY.

        It could not commit otherwise. Waiting workers find its tasks when they poll.
        """
        if error.sqlstate == _TOO_MUCH and not self._quiet_until:
            logger.warning("workers cannot be notified of new tasks for now; they poll for them", error=_message(error))
            self._quiet_until = time.monotonic() + QUIET_S
            raise TryAgainLater(_message(error)) from error

    def begin_with_receipt(self, token: bytes, before: bytes | None) -> None:
        # In one message, with its values in the text: the round trip costs more than the statements.
        now = self.clock.now()
        if before is None:
            self._run_text(_BEGIN_WITH_RECEIPT.format(token=_as_text(token), now=now))
        elif self._run_text(_BEGIN_AFTER_ANOTHER.format(token=_as_text(token), now=now, before=_as_text(before))) > 1:
            raise WentBack(GONE)

    def commit(self) -> None:
        self.opened()
        assert self._wire is not None
        try:
            self._wire.run_text(_IN_WORDS["commit"].text)
        except psycopg.Error as error:
            self._be_quiet_if_full(error)
            raise _engine_error(error) from error

    def _run_text(self, text: str) -> int:
        """Run statements without parameters; returns the row count of the last."""
        self.opened()
        assert self._wire is not None
        try:
            return self._wire.run_text(text)
        except psycopg.Error as error:
            raise _engine_error(error) from error

    def _lend(self, connection: psycopg.Connection[Any], request: Call) -> None:
        began = time.monotonic()
        try:
            self.lending.lend(self, GuardedConnection(connection, self.dialect, is_shared=True), request)
        except ConnectionLost:
            if (time.monotonic() - began) * 1_000 >= LONGEST_IDLE_MS:
                raise WriteRefused(
                    "a function given to ctx.write has kept its transaction waiting for "
                    f"{LONGEST_IDLE_MS / 1_000:g} s, and all others with it: find out in the stage what is to be "
                    "written, and only write it there"
                ) from None
            raise
        if connection.info.transaction_status != TransactionStatus.INTRANS:
            raise WriteRefused("a function given to ctx.write has ended the transaction it was part of")

    def abandon(self) -> Callable[[], None] | None:
        # Only shut its socket: the driver may be waiting for it in the other thread.
        connection, self._connection, self._wire = self._connection, None, None
        if connection is None:
            return None
        quietly(lambda: connection.cancel_safe(timeout=_CANCEL_LIMIT_S))
        quietly(lambda: _hang_up(connection.fileno()))
        return lambda: quietly(connection.close)


def _hang_up(descriptor: int) -> None:
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        copy.shutdown(socket.SHUT_RDWR)


def _ignore(_: object) -> None:
    """Drop a notification meant for another program, which behind a pooler has listened on this connection.

    Without a handler psycopg would keep all of them.
    """


def _as_text(value: bytes) -> str:
    return f"'\\x{value.hex()}'"


def _statement_for(request: Query | Many) -> Statement | None:
    """The statement for a request; None if there is nothing to do."""
    statement = _STATEMENTS[request.name]
    if isinstance(request, Query):
        return _with_values(statement, postgres_arrays.with_columns(request.params)) if statement.text else None
    if not request.rows:
        return None
    is_one = len(request.rows) == 1
    values = request.full_rows[0] if is_one else _columns(request, statement)
    return _with_values(statement, dict(zip(statement.columns, values, strict=True)), for_one=is_one)


def _with_values(statement: queries.Statement, params: dict[str, Any], *, for_one: bool = False) -> Statement:
    return Statement(
        statement.text_for_one if for_one else statement.text, [params[place] for place in statement.places]
    )


def _columns(request: Many, statement: queries.Statement) -> list[Any]:
    """The shared values, then the rows as columns; a column without values is None."""
    varying = statement.kinds[len(request.same) :]
    columns = zip(varying, zip(*request.rows, strict=True), strict=True)
    return [
        *request.same,
        *(postgres_arrays.column(kind, values) if _has_any(values) else None for kind, values in columns),
    ]


def _has_any(values: tuple[Any, ...]) -> bool:
    return values.count(None) < len(values)


def _engine_error(error: psycopg.Error) -> Exception:
    """The engine's error for an error of PostgreSQL; the same error if there is none."""
    match error:
        case pg.DiskFull():
            return StoreFull("the disk of the PostgreSQL server is full; nothing was lost: free some space and go on")
        case pg.DeadlockDetected() | pg.SerializationFailure() | pg.LockNotAvailable():
            return TryAgainLater(_message(error))
        case pg.IdleInTransactionSessionTimeout():
            return ConnectionLost(_message(error))
        case pg.InvalidSqlStatementName():
            return TryAgainLater("what was prepared on this connection is gone; behind a pooler set prepare to false")
        case pg.ReadOnlySqlTransaction():
            return StoreUnavailable("this PostgreSQL server takes no writes; is it a standby?")
        case pg.InvalidPassword() | pg.InvalidAuthorizationSpecification() | pg.InvalidCatalogName():
            return StoreUnavailable(_message(error))
        case pg.ProgramLimitExceeded() | pg.StatementTooComplex() | pg.TooManyColumns() | pg.TooManyArguments():
            return error  # too much for this server at every try; most often a long text in an index of the application
        case pg.InsufficientPrivilege():
            return StoreError(_message(error))
        case psycopg.OperationalError() | psycopg.InterfaceError():
            text = _message(error)
            if "does not exist" in text or "authentication failed" in text:
                return StoreUnavailable(text)
            return ConnectionLost(text)
    return error


def _message(error: psycopg.Error) -> str:
    """The text of a driver's error, redacted: it may contain a whole address."""
    return redacted(str(error).strip())


class PostgresStore:
    """A PostgreSQL database. Every session is a connection of its own."""

    dialect: Dialect = "postgres"
    is_memory = False

    def __init__(
        self, url: str, clock: StoreClock, on_connect: OnConnect | None = None, *, prepare: bool = True
    ) -> None:
        self.url = url
        know_address(url)
        self.clock = clock
        self._on_connect = on_connect
        self._prepare = prepare

    def session(self, *, read_only: bool = False, patience_s: float = 60.0) -> PostgresSession:
        """A new session."""
        return PostgresSession(
            self.url, self.clock, self._on_connect, read_only=read_only, patience_s=patience_s, prepare=self._prepare
        )

    def client_session(self, *, read_only: bool = False) -> PostgresSession:
        """A session for a program that enqueues and reads."""
        return self.session(read_only=read_only)

    def hold_lock(self, connection: WatchedConnection, worker: int) -> str | None:
        """Take a worker's lock for the life of a connection; returns the server run on which it is valid (decision 48).

        None behind a pooler, which would leave the lock with another program.
        """
        if connection.backend is None or not self._prepare:
            return None
        if self._on_connect is not None:
            self._on_connect(connection)
        connection.execute(_SERVER_TIMEOUTS)
        held = connection.execute(_BY_NAME["hold_lock"].text, {"worker": worker}).fetchone()
        return None if held is None else held[0]

    @property
    def place(self) -> str:
        """Where the database is, for people, without its password."""
        info = psycopg.conninfo.conninfo_to_dict(self.url)
        port = f":{info['port']}" if info.get("port") else ""
        return f"postgresql://{info.get('host') or 'localhost'}{port}/{info.get('dbname') or ''}"

    @property
    def presence_folder(self) -> Path | None:
        """Where workers of this machine keep their presence files."""
        return Path(tempfile.gettempdir()) / f"onceward-workers-{os.geteuid()}"
