"""Carries on actions on many tasks: a thread of a worker, or of the dashboard, while there is one to carry on.

A portion is a transaction of some hundred tasks. Between two of them it rests for a part of the time that the last one
took, so that the work of a database with one writer goes on beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from onceward.errors import StoreError
from onceward.store.drivers.availability import database
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.operations.bulk import BulkState, Carrying, untaken
from onceward.support.logs import EngineLog

LOOK_EVERY_MS = 2_000
RESTS = 0.25
"""How long it rests after a portion, as a part of the time that this took."""
PAUSE_AFTER_TROUBLE_S = 1.0

logger = EngineLog("onceward.bulk")


class BulkCarrier:
    """Looks for actions that nobody carries on, and carries them on."""

    def __init__(self, open_session: Callable[[], Session], kinds: Iterable[str]) -> None:
        self._open_session = open_session
        self._kinds = sorted(kinds)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look now and then, in a thread of its own."""
        self._begin(self._attend)

    def carry(self, numbers: list[int]) -> None:
        """Carry some actions on in a thread, if none is being carried on here already."""
        if numbers and (self._thread is None or not self._thread.is_alive()):
            self._begin(lambda: self._once(numbers))

    def stop(self) -> None:
        """End after the portion that is being done."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _begin(self, work: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=work, name="onceward bulk", daemon=True)
        self._thread.start()

    def _attend(self) -> None:
        session: Session | None = None
        while not self._stopping.wait(LOOK_EVERY_MS / 1_000):
            session = self._guarded(session, lambda session: session.ask(lambda: untaken(session.clock.now())))
        if session is not None:
            session.close()

    def _once(self, numbers: list[int]) -> None:
        if (session := self._guarded(None, lambda _: numbers)) is not None:
            session.close()

    def _guarded(self, session: Session | None, find: Callable[[Session], list[int]]) -> Session | None:
        """Carry on what is found; what goes wrong is logged, and the next look may do better."""
        try:
            session = session or self._open_session()
            for number in find(session):
                self._carry_on(session, number)
        except (StoreError, ConnectionLost, TryAgainLater) as error:
            if session is not None:
                database.note_failure(session, error)
                session.discard()
            self._stopping.wait(PAUSE_AFTER_TROUBLE_S)
        except Exception:
            logger.exception("carrying on an action on many tasks failed")
            if session is not None:
                session.discard()
            self._stopping.wait(PAUSE_AFTER_TROUBLE_S)
        return session

    def _carry_on(self, session: Session, number: int) -> None:
        carrying = Carrying(session, number, self._kinds)
        clock = session.clock
        while not self._stopping.is_set():
            began = clock.monotonic()
            row = carrying.portion()
            if row is None:
                return
            if row.state is not BulkState.OPEN:
                logger.info("an action on many tasks is done", action=row.action, id=row.id, tasks=row.done)
                return
            self._stopping.wait(RESTS * (clock.monotonic() - began) / 1_000)
        carrying.leave()
