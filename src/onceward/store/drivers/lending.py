"""Lends the connection of a session to functions given to `ctx.write`, for a time in each transaction.

What such a function raises is an error of its stage. A lost transaction, a lock and a full disk are trouble of the
database all the same, with the function's error as the cause.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from onceward.errors import StoreFull, WriteRefused
from onceward.store.drivers.lent_connection import GuardedConnection, call_all
from onceward.store.drivers.session_errors import ConnectionLost, NoTimeLeft, TryAgainLater, WriteLost
from onceward.store.drivers.timed_thread import Overdue, TimedThread
from onceward.store.op import Call

if TYPE_CHECKING:
    from onceward.store.drivers.session import Session


class Lending:
    """The loans of one session."""

    def __init__(self) -> None:
        self.count = 0
        """How often the connection was lent."""
        self.limit_s: float | None = None
        """How long the functions of a transaction may take; None runs them without limit in the caller's thread."""
        self.left_s = 0.0
        """What the functions of the present transaction have left of it."""
        self._thread = TimedThread()

    def lend(self, session: Session, connection: GuardedConnection, request: Call) -> None:
        """Run functions of the application on the connection of a session, and translate what they raise."""
        self.count += 1
        is_open = session.in_transaction()
        try:
            if self.limit_s is None:
                call_all(request.functions, connection)
            else:
                self._lend_for_a_while(session, connection, request)
        except Exception as error:
            is_lost = is_open and not session.has_transaction()
            raise _error_to_raise(session, error, connection, is_lost)  # noqa: B904 - it has its cause, or is the error itself
        finally:
            connection.shut()
        if session.is_lost():
            raise WriteLost("the connection was lost while a function given to ctx.write had it")

    def _lend_for_a_while(self, session: Session, connection: GuardedConnection, request: Call) -> None:
        if self.left_s <= 0:
            raise NoTimeLeft("the functions of this transaction have had their time")
        began = time.monotonic()
        try:
            self._thread.run(lambda: call_all(request.functions, connection), self.left_s)
        except Overdue:
            connection.shut()
            self._thread.leave(session.abandon())
            self._thread = TimedThread()
            raise TimeoutError(
                f"the functions given to ctx.write took longer than {self.limit_s:g} s (write_timeout): "
                "find out in the stage what is to be written, and only write it there"
            ) from None
        finally:
            self.left_s -= time.monotonic() - began

    def close(self) -> None:
        """End the thread that runs the functions; a later loan starts another."""
        self._thread.leave()
        self._thread = TimedThread()


def _error_to_raise(session: Session, error: Exception, connection: GuardedConnection, is_lost: bool) -> Exception:
    """The error to raise for an error of a function that had the connection."""
    if isinstance(error, NoTimeLeft):
        return error
    meaning = session.engine_error(error)
    outcome: Exception = error
    if is_lost:
        outcome = WriteLost(f"a function given to ctx.write has lost its transaction: {error}")
    elif isinstance(meaning, WriteRefused | TryAgainLater):
        outcome = meaning
    elif connection.raised is error:  # raised by this database, not by another one
        if isinstance(meaning, StoreFull):
            outcome = meaning
        elif isinstance(meaning, ConnectionLost) and session.is_near:
            outcome = TryAgainLater(str(meaning))
    if outcome is not error:
        outcome.__cause__ = error
    return outcome
