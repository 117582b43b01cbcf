"""Makes tasks of what other programs have asked for by SQL: looked for once a second, and when a notification tells."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial

from onceward.store.drivers.session import Session
from onceward.store.operations.intake import MakeTasks, is_asked, take_in
from onceward.support.logs import EngineLog

LOOK_EVERY_MS = 1_000
MOST_PORTIONS = 5
"""How many portions are taken in at once: the thread that does it also renews leases."""

logger = EngineLog("onceward.intake")


def take_in_some(session: Session, kinds: Sequence[str], make: MakeTasks) -> int:
    """Make tasks of rows that wait, some portions of them; returns how many rows were ended."""
    ended = 0
    for _ in range(MOST_PORTIONS):
        if not session.ask(partial(is_asked, kinds)):
            break
        some = session.transact(partial(take_in, kinds, make, session.clock.now()))
        ended += some
        if not some:
            break  # another worker has them
    if ended:
        logger.info("took in what was asked for by SQL", rows=ended)
    return ended


class Intake:
    """The looks of one worker at the intake."""

    def __init__(self, kinds: Sequence[str], make: MakeTasks, news: threading.Event) -> None:
        self._kinds = kinds
        self._make = make
        self._news = news
        self._looked_at = -(10**12)

    def step(self, session: Session) -> bool:
        """Take in what is there, if it is time to look or a notification has told; whether there was anything."""
        now = session.clock.monotonic()
        if not self._news.is_set() and now - self._looked_at < LOOK_EVERY_MS:
            return False
        self._news.clear()
        self._looked_at = now
        if not take_in_some(session, self._kinds, self._make):
            return False
        self._news.set()  # there may be more
        return True
