"""Values that all open pages share: read again now and then, and waited for no longer than a page may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
RESTS = 20
"""How many times as long as a value took to read it is kept: reading takes a twentieth of the time at most."""


class Kept(Generic[T]):
    """A value that is read in a thread, and kept."""

    def __init__(self, read: Callable[[], T], *, fresh_s: float) -> None:
        self._read = read
        self._fresh_s = fresh_s
        self._value: T | None = None
        self._read_at = float("-inf")
        self._stale_at = float("-inf")
        self._reading: asyncio.Future[None] | None = None

    async def get(self, patience_s: float | None = None) -> T | None:
        """Return the value, as fresh as is promised; what takes longer than that to read is what it was, or None."""
        if time.monotonic() >= self._stale_at and (self._reading is None or self._reading.done()):
            self._reading = asyncio.ensure_future(self._look())
        if self._reading is not None and not self._reading.done():
            done, _ = await asyncio.wait({self._reading}, timeout=patience_s)
            if done:
                self._reading.result()
        elif self._reading is not None and self._value is None:
            self._reading.result()
        return self._value

    @property
    def age_s(self) -> float:
        """How old the value is."""
        return time.monotonic() - self._read_at

    async def _look(self) -> None:
        began = time.monotonic()
        self._value = await asyncio.to_thread(self._read)
        self._read_at = time.monotonic()
        self._stale_at = self._read_at + max(self._fresh_s, RESTS * (self._read_at - began))
