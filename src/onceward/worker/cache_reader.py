"""What stages look up in the cache: on a connection of its own, so that a hit waits for no writer."""

from __future__ import annotations

import threading

from onceward.model.cache import Cached
from onceward.store.drivers.session import Session
from onceward.store.governance.cache import look_up


class CacheReader:
    """A session for the next look. The first look opens it: most workers have no use for it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()

    def __call__(self, source: str, hashed: bytes) -> Cached | None:
        """What the cache has for a key of a source."""
        with self._lock:
            return self._session.ask(lambda: look_up(source, hashed))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._session.close()
