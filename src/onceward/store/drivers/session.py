"""A session: one connection and its transactions, whose outcome is known even after a lost reply.

A commit whose reply is lost may have happened (measured: 6 % of the errors when backends are killed). So every
transaction of the engine writes a receipt, a random key in a table of its own (decision 3). After a lost commit a new
connection inserts the same key with a negative time: if a receipt is there, the transaction had committed; if not, it
had not, and never will, because its key is taken. A transaction still in flight makes that insert wait.

A database can also forget what it had confirmed: a standby that was behind takes over, an older copy is restored. A
worker must not go on with leases from before that. So its session insists: every transaction looks for the receipt of
the one before it (decision 40).
"""

from __future__ import annotations

import os
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from onceward.errors import ForkedConnection, OutcomeUnknown, StoreError, StoreFull, StoreUnavailable
from onceward.model.connection import Dialect
from onceward.model.times import StoreClock
from onceward.store.drivers.availability import database
from onceward.store.drivers.lending import Lending
from onceward.store.drivers.session_errors import GONE, ConnectionLost, TryAgainLater, WentBack
from onceward.store.op import AtomicStatement, Op, Query, Request, Rows, drive

Result = TypeVar("Result")
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
TELL_AFTER_S = 2.0
"""After how long the log says that the database is away."""
RECEIPT_IS_THERE_MS = 1_800_000
"""For how long a receipt is there for certain: half of the time for which receipts are kept."""


class _Confirmed(NamedTuple):
    """The receipt of a committed transaction, and its time by both clocks."""

    token: bytes
    at: int
    monotonic_at: int


@dataclass(slots=True)
class Doubts:
    """How many commits had no reply, and how many of them had committed."""

    unknown: int = 0
    committed: int = 0
    not_committed: int = 0


@dataclass(slots=True)
class _Attempt:
    """One attempt at a transaction."""

    receipt: bytes
    is_sent: bool = False
    """Whether it may have committed."""
    result: Any = None


class Patience:
    """Paces repeated tries until a time: at once after a lost connection, then with growing pauses."""

    def __init__(self, seconds: float, session: Session) -> None:
        self._session = session
        self._began = time.monotonic()
        self._until = self._began + seconds
        self._pause_s = FIRST_PAUSE_S
        self._has_tried_again = False
        self._has_told = False

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self._until

    def pause(self, error: Exception) -> None:
        """Wait before the next try; after two seconds log once that the database is away.

        The first try after a lost connection comes at once: most often that connection alone was lost.
        """
        if isinstance(error, ConnectionLost) and not self._has_tried_again:
            self._has_tried_again = True
            return
        if not self._has_told and time.monotonic() - self._began >= TELL_AFTER_S:
            self._has_told = True
            database.note_failure(self._session, error)
        time.sleep(self._pause_s * (0.5 + secrets.randbelow(1000) / 1000))
        self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)


class Session(ABC):
    """A connection for one thread at a time; it opens at its first use, and again after a loss."""

    dialect: Dialect
    is_near = False
    """Whether the database is on this machine's disk, so that no server has to answer."""

    def __init__(self, clock: StoreClock, patience_s: float) -> None:
        self.clock = clock
        self.doubts = Doubts()
        self.insists = False
        """Whether a transaction raises `WentBack` if the one before it is gone."""
        self.openings = 0
        """How often it has connected to a server."""
        self.beside: Session | None = None
        """Another session of this process that writes; its last transaction must be there as well."""
        self._seen_beside: bytes | None = None
        self.lending = Lending()
        """How the connection is lent to functions of the application."""
        self.lock_limit_s: float | None = None
        """How long a statement waits for a lock of another transaction on PostgreSQL. Set before it opens."""
        self.last_trouble: Exception | None = None
        """Why the last try of a transaction failed."""
        self._last: _Confirmed | None = None
        self._patience_s = patience_s
        self._pid = os.getpid()

    @abstractmethod
    def run(self, request: Request) -> Rows:
        """Run one request on the open connection; raises errors of this module, of `onceward.errors` or the driver."""

    @abstractmethod
    def opened(self) -> Any:
        """The raw connection, opened if necessary."""

    def engine_error(self, error: Exception) -> Exception:
        """The engine's error for an error of the driver; the same error if there is none."""
        return error

    @abstractmethod
    def discard(self) -> None:
        """Drop the connection, whatever state it is in."""

    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    def is_as_new(self) -> bool:
        """Whether the connection is as if it had just been opened."""
        return True

    def make_room(self) -> bool:
        """Free space on a full disk that the database does not need; returns whether there was any."""
        return False

    def log_bytes(self) -> int:
        """The size of the database's log where it is a file beside it, else 0."""
        return 0

    def is_lost(self) -> bool:
        """Whether the server has hung up since the last statement; never so for a file."""
        return False

    def begin_with_receipt(self, token: bytes, before: bytes | None) -> None:
        """Begin a transaction and write its receipt; raise `WentBack` if the receipt `before` is gone."""
        self.run(Query("begin"))
        receipt = {"token": token, "now": self.clock.now()}
        if before is None:
            self.run(Query("write_receipt", receipt))
        elif len(self.run(Query("write_next_receipt", {**receipt, "before": before}))) > 1:
            raise WentBack(GONE)

    @property
    def last_receipt(self) -> bytes | None:
        """The last receipt of a session that insists, while by both clocks no worker can have pruned it."""
        last = self._last
        if last is None or not self.insists:
            return None
        age_ms = max(self.clock.now() - last.at, self.clock.monotonic() - last.monotonic_at)
        return last.token if age_ms < RECEIPT_IS_THERE_MS else None

    @property
    def must_look_beside(self) -> bool:
        """Whether the last transaction of the session beside this one is still to be looked for."""
        return self.beside is not None and self.beside.last_receipt not in (None, self._seen_beside)

    def _look_beside(self) -> bytes | None:
        """Raise `WentBack` if the last transaction of the session beside is gone; returns its receipt."""
        token = None if self.beside is None else self.beside.last_receipt
        if token not in (None, self._seen_beside) and not self.run(Query("read_receipt", {"token": token})):
            raise WentBack(GONE)
        return token

    def has_transaction(self) -> bool:
        """Whether the transaction that was begun is still open, with all its savepoints."""
        return self.in_transaction() and not self.is_lost()

    def abandon(self) -> Callable[[], None] | None:
        """Drop a connection that another thread may be using; its transaction is rolled back.

        Returns what that thread has still to do at its end.
        """
        self.discard()
        return None

    def commit(self) -> None:
        """Commit the transaction that is open."""
        self.run(Query("commit"))

    def close(self) -> None:
        """Close the connection; a later use opens it again."""
        self.discard()
        self.lending.close()

    def transact(self, operation: Callable[[], Op[Result]]) -> Result:
        """Run an operation in a transaction of its own; when this returns, its writes are durable.

        After a lost connection or a deadlock it runs again from the start, as long as the session's patience lasts;
        a commit never happens twice.
        """

        def carry_out(attempt: _Attempt) -> Any:
            self.begin_with_receipt(attempt.receipt, self.last_receipt)
            beside = None if self.beside is None else self._look_beside()
            self.lending.left_s = self.lending.limit_s or 0.0
            attempt.result = drive(operation(), self)
            attempt.is_sent = True
            self.commit()
            self._confirm(attempt.receipt)
            self._seen_beside = beside
            return attempt.result

        return self._patiently_once(carry_out, lambda attempt: attempt.result)  # type: ignore[no-any-return]

    def transact_statement(self, statement: AtomicStatement) -> Rows:
        """Run a transaction of one statement in one round trip, as safely as `transact` (decision 36)."""

        def carry_out(attempt: _Attempt) -> Rows:
            if self.is_lost():
                raise ConnectionLost("it has hung up")  # a statement that was never sent is not in doubt
            attempt.is_sent = True
            receipts = {"receipt": attempt.receipt, "before": self.last_receipt}
            rows = self.run(statement.query._replace(params={**statement.query.params, **receipts}))
            if rows:
                self._confirm(attempt.receipt)
            return rows

        return self._patiently_once(carry_out, lambda attempt: self.answer_to(statement, attempt.receipt))

    def answer_to(self, statement: AtomicStatement, receipt: bytes) -> Rows:
        """Read again the rows of a statement that has committed; raises `OutcomeUnknown` if that fails.

        The transaction for it writes, which a standby refuses; and it looks for the last receipt, which an older copy
        lacks.
        """

        def read_again() -> Op[Rows]:
            return (yield statement.read_back)

        try:
            return self.transact(read_again)
        except WentBack:
            raise
        except Exception as error:
            doubt = OutcomeUnknown(f"what was committed without a reply could not be read: {error}")
            doubt.token = receipt
            raise doubt from error

    def _patiently_once(
        self, carry_out: Callable[[_Attempt], Result], answer_lost: Callable[[_Attempt], Result]
    ) -> Result:
        """Try a transaction until it has committed once.

        `answer_lost` gives its result where its reply was lost and its receipt is found.
        """
        patience = Patience(self._patience_s, self)
        has_made_room = False
        self._refuse_fork()
        if self.in_transaction():
            raise StoreError("a transaction is open on this connection; one inside another could not be kept apart")
        while True:
            attempt = _Attempt(secrets.token_bytes(16))
            try:
                self.opened()
                done = carry_out(attempt)
            except ConnectionLost as error:
                self.last_trouble = error
                self.discard()
                if attempt.is_sent and self._settled(attempt, patience):
                    return answer_lost(attempt)
                if patience.is_over:
                    raise StoreUnavailable(f"the database could not be reached: {error}") from error
                patience.pause(error)
            except TryAgainLater as error:
                self.last_trouble = error
                self.undo()
                if patience.is_over:
                    raise StoreUnavailable(f"the database stayed locked: {error}") from error
                patience.pause(error)
            except StoreFull as error:
                self.last_trouble = error
                self.undo()
                if has_made_room or not self._patience_s or not self.make_room():
                    raise
                has_made_room = True
                patience.pause(error)
            except BaseException:
                self.undo()
                raise
            else:
                if database.is_away:
                    database.note_success(self)
                return done

    def insist_for(self, seconds: float) -> None:
        """Set how long the session tries again after lost connections and locks."""
        self._patience_s = seconds

    @contextmanager
    def without_waiting(self) -> Iterator[None]:
        """Meanwhile raise locks and lost connections at once, also for a commit without a reply."""
        patience_s, self._patience_s = self._patience_s, 0.0
        try:
            yield
        finally:
            self._patience_s = patience_s

    def patiently(self, work: Callable[[], Result]) -> Result:
        """Run work that may run again from its start: reads, or statements that commit by themselves.

        After lost connections and locks it runs again, as long as the session's patience lasts.
        """
        self._refuse_fork()
        patience = Patience(self._patience_s, self)
        while True:
            try:
                self.opened()
                done = work()
            except (ConnectionLost, TryAgainLater) as error:
                if isinstance(error, ConnectionLost):
                    self.discard()
                else:
                    self.undo()
                if patience.is_over:
                    raise StoreUnavailable(f"the database could not be used: {error}") from error
                patience.pause(error)
            except BaseException:
                self.undo()
                raise
            else:
                if database.is_away:
                    database.note_success(self)
                return done

    def ask(self, operation: Callable[[], Op[Result]]) -> Result:
        """Run an operation that only reads, without a transaction; tries again like `patiently`."""
        return self.patiently(lambda: drive(operation(), self))

    def read(self, query: Query) -> Rows:
        """Run a query that only reads, without a transaction; tries again like `patiently`."""
        return self.patiently(lambda: self.run(query))

    def measure_clock(self) -> None:
        """Set the store clock by the clock of the database."""
        self.opened()
        rows = self.run(Query("store_now"))
        self.clock.measured(rows[0][0] if rows else None)

    @contextmanager
    def reading(self) -> Iterator[Any]:
        """Lend the raw connection for reading one snapshot of the database."""
        self.patiently(lambda: self.run(Query("begin_reading")))
        try:
            yield self.opened()
        except BaseException:
            self.undo()
            raise
        try:
            self.commit()  # nothing was written; after a rollback the driver would prepare its statements anew
        except ConnectionLost:  # the rows were read all the same
            self.discard()

    def undo(self) -> None:
        """Roll back the open transaction; drop a connection that cannot."""
        try:
            if self.in_transaction():
                self.run(Query("rollback"))
        except Exception:  # a new connection begins clean
            self.discard()

    def settle(self, doubt: OutcomeUnknown) -> bool:
        """Find out whether a doubtful transaction has committed; until then it must not run again."""
        return self._has_committed(doubt.token, Patience(self._patience_s, self))

    def _settled(self, attempt: _Attempt, patience: Patience) -> bool:
        self.doubts.unknown += 1
        try:
            return self._has_committed(attempt.receipt, patience)
        except OutcomeUnknown as doubt:
            doubt.token, doubt.result = attempt.receipt, attempt.result
            raise

    def _has_committed(self, token: bytes, patience: Patience) -> bool:
        while True:
            try:
                self.opened()
                self.run(Query("begin"))
                # Waits for the doubtful transaction if it is still in flight; then finds its receipt, or has
                # written the negative one, which bars it for ever.
                [(at,)] = self.run(Query("bar_receipt", {"token": token, "now": self.clock.now()}))
                self.commit()
            except Exception as error:  # no error tells whether the doubtful transaction committed
                self.discard()
                if patience.is_over:
                    raise OutcomeUnknown(
                        f"the database went away during a commit and could not be asked whether it happened: {error}"
                    ) from error
                patience.pause(error)
            else:
                if at > 0:
                    self.doubts.committed += 1
                    self._confirm(token)
                else:
                    self.doubts.not_committed += 1
                return bool(at > 0)

    def _confirm(self, token: bytes) -> None:
        if self.insists:
            self._last = _Confirmed(token, self.clock.now(), self.clock.monotonic())

    def _refuse_fork(self) -> None:
        if os.getpid() != self._pid:
            raise ForkedConnection(
                "this connection was opened before a fork and must not be used after it; "
                "make the App in the child process, or start workers with processes= instead of forking"
            )


def quietly(close: Callable[[], object]) -> None:
    """Close a connection that may already be broken."""
    with suppress(Exception):
        close()
