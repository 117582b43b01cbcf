"""Reading on a snapshot. To connect takes longer than most reads do, so a few connections are kept for the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from onceward.errors import StoreUnavailable
from onceward.store.drivers.lent_connection import GuardedConnection
from onceward.store.drivers.open import Store
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater

MOST_KEPT = 4


class Readers:
    """The connections of a process on which functions read, each one at a time; for use from any thread."""

    def __init__(self, store: Store, wait_s: Callable[[], float]) -> None:
        self._store = store
        self._wait_s = wait_s
        self._kept: list[Session] = []
        self._lock = threading.Lock()

    def read(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run `function(connection, *arguments)` on a snapshot of the database."""
        session = self._taken() or self._store.client_session(read_only=True)
        session.insist_for(self._wait_s())
        leaves_trace = True
        try:
            with session.reading() as raw:
                lent_for_reading = GuardedConnection(raw, self._store.dialect)
                try:
                    return function(lent_for_reading, *arguments)
                finally:
                    lent_for_reading.shut()
                    leaves_trace = lent_for_reading.leaves_trace
        except Exception as error:
            meaning = session.engine_error(error)
            if isinstance(meaning, ConnectionLost | TryAgainLater):  # what the driver says tells a caller nothing
                raise StoreUnavailable(f"the database went away while it was read: {meaning}") from error
            raise
        finally:
            if leaves_trace or not self._keep(session):
                session.close()

    def close(self) -> None:
        """Close those that are kept."""
        while (session := self._taken()) is not None:
            session.close()

    def _taken(self) -> Session | None:
        while True:
            with self._lock:
                if not self._kept:
                    return None
                session = self._kept.pop()
            if session.is_as_new():
                return session
            session.close()

    def _keep(self, session: Session) -> bool:
        with self._lock:
            is_kept = len(self._kept) < MOST_KEPT and session.is_as_new()
            if is_kept:
                self._kept.append(session)
            return is_kept
