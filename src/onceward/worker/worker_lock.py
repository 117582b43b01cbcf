"""What the database says of the lock of a worker: on which run of the server it is held, if it is.

Other workers judge it by its lock only while its row says that it holds one. So the row is changed, and the beat with
it, as soon as the lock is held on another connection, or has not been held for a second.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from onceward.store.attempts.workers import StillBusy, show_lock
from onceward.store.drivers.session import Session
from onceward.worker.wakeup import HeldLock, Listener

UNHELD_MS = 1_000
"""How long a lock that was lost may take to be held again before the row says that it is not."""


class ShownLock:
    """The lock of one worker as its row shows it. Belongs to the keeper's thread, and uses its session."""

    def __init__(self, session: Session, listener: Listener, worker: Callable[[], int]) -> None:
        self._session = session
        self._listener = listener
        self._worker = worker
        self._shown: HeldLock | None = None
        self._openings = 0
        self._unheld_since: int | None = None

    def step(self) -> None:
        """Show what has changed, and beat: also where this session has lost its own connection to the server."""
        held, now = self._listener.held, self._session.clock.monotonic()
        is_new_connection = self._openings not in (0, self._session.openings)
        if held == self._shown:
            self._unheld_since = None
        elif held is None:
            self._unheld_since = now if self._unheld_since is None else self._unheld_since
        is_late = self._unheld_since is not None and now - self._unheld_since >= UNHELD_MS
        if is_new_connection:
            self._listener.ask_soon()
        if (held is not None and held != self._shown) or is_late or (is_new_connection and self._shown is not None):
            self._show(held)
        self._openings = self._session.openings

    def _show(self, held: HeldLock | None) -> None:
        worker, server_run = self._worker(), None if held is None else held.server_run
        with suppress(StillBusy):  # it cannot be declared dead meanwhile either
            self._session.transact(lambda: show_lock(worker, server_run, self._session.clock.now()))
            self._shown, self._unheld_since = held, None
