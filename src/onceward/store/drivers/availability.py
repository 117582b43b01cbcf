"""Whether this process can use its database: one log line when it goes away, one when it is back.

Every session in trouble notes each failed try here. The database is back when each such session has succeeded again.
"""

from __future__ import annotations

import threading
import time
from weakref import WeakSet

from onceward.support.logs import EngineLog

logger = EngineLog("onceward.store")


class Availability:
    """The troubled sessions of a process."""

    def __init__(self) -> None:
        self.is_away = False
        self._since = 0.0
        self._troubled: WeakSet[object] = WeakSet()
        self._lock = threading.Lock()

    def note_failure(self, session: object, error: Exception) -> None:
        """Note that a session has failed; log the first failure."""
        with self._lock:
            self._troubled.add(session)
            is_news, self.is_away = not self.is_away, True
            if is_news:
                self._since = time.monotonic()
        if is_news:
            logger.warning("the database cannot be used, trying again", error=" ".join(str(error).split()))

    def note_success(self, session: object) -> None:
        """Note that a session has succeeded; log it when no session is in trouble any more."""
        with self._lock:
            self._troubled.discard(session)
            is_news = self.is_away and not self._troubled
            self.is_away = self.is_away and not is_news
            away_s = time.monotonic() - self._since
        if is_news:
            logger.info("the database is back", after_s=round(away_s, 1))


database = Availability()
