"""Looks at what other code has parked, while a deploy goes on.

A worker that begins wakes what other code could not run. But an older one may be at work still, and park more. So the
younger one looks again: after a minute, after two more, four more, and so on. Were both to stay, each could park what
the other has woken; with pauses that grow that comes to a handful of attempts a day, not to a loop.
"""

from __future__ import annotations

from onceward.authoring.registry import Registry
from onceward.model.times import StoreClock
from onceward.store.drivers.session import Session
from onceward.store.op import Op
from onceward.store.operations.task_actions import wake_for_code

FIRST_LOOK_MS = 60_000


class ParkedByCode:
    """The looks of one worker, which has looked once as it began."""

    def __init__(self, registry: Registry, clock: StoreClock) -> None:
        self._registry = registry
        self._pause_ms = FIRST_LOOK_MS
        self._next_at = clock.monotonic() + FIRST_LOOK_MS

    def step(self, session: Session) -> int:
        """Look, if it is time; returns how many tasks were woken."""
        now = session.clock.monotonic()
        if now < self._next_at:
            return 0
        self._pause_ms *= 2
        self._next_at = now + self._pause_ms
        return session.transact(lambda: self._wake(session.clock.now()))

    def _wake(self, now: int) -> Op[int]:
        woken = 0
        for pipeline in self._registry:
            woken += yield from wake_for_code(pipeline.kind, pipeline._fingerprint, now)
        return woken
