"""Forgetting by itself: once an hour one process deletes tasks that ended longer ago than they are kept.

The first worker in an hour does it, after having watched the clock for as long: one that was set ahead by a month, and
is soon set back, must not make everything seem old.
"""

from __future__ import annotations

from collections.abc import Callable

from onceward.model.watch import PRUNING
from onceward.settings.config import Config
from onceward.store.drivers.session import Session
from onceward.store.operations.alerts import claim_look
from onceward.store.operations.pruning import prune
from onceward.support.logs import EngineLog

EVERY_MS = 3_600_000

logger = EngineLog("onceward.pruner")


class Pruner:
    """Deletes what is old enough, for one process."""

    def __init__(self, session: Session, config: Callable[[], Config], goes_on: Callable[[], bool]) -> None:
        self._session = session
        self._config = config
        self._goes_on = goes_on
        self._looked_at = session.clock.monotonic()

    def step(self) -> None:
        """Delete what is old enough, if it is time and no other worker has done so."""
        clock = self._session.clock
        if clock.steady_ms < EVERY_MS or clock.monotonic() - self._looked_at < EVERY_MS:
            return
        self._looked_at = clock.monotonic()
        now = clock.now()
        if not self._session.transact(lambda: claim_look(PRUNING, now, EVERY_MS)):
            return
        pruned = prune(self._session, now - self._config().keep_ms, now, is_thorough=False, goes_on=self._goes_on)
        if pruned.tasks:
            logger.info("old tasks deleted", tasks=pruned.tasks, checkpoints=pruned.checkpoints, events=pruned.events)
