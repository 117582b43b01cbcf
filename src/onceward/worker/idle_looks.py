"""Looks of an idle worker: whether anything is ready, will be, or is left at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onceward.errors import StoreError
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.governance.budget_waits import sweep_budgets
from onceward.store.lines.idle import anything_left, ready_now, suspects_soon
from onceward.store.op import Op, drive


class IdleLooks:
    """Looks at the lanes of one worker, on sessions of their own."""

    def __init__(
        self, store: Any, kinds: Sequence[str], lanes: tuple[str, ...], suspect_lanes: tuple[str, ...]
    ) -> None:
        self._store = store
        self._kinds = kinds
        self._lanes = lanes + suspect_lanes
        self._suspect_lanes = suspect_lanes

    def is_work_ready(self) -> bool:
        """Whether anything could be claimed now."""
        return self._look(ready_now(self._lanes, self._store.clock.now()), in_trouble=False)

    def are_suspects_coming(self) -> bool:
        """Whether a suspect is or will be ready; a child for suspects stays while one waits at a gate."""
        return self._look(suspects_soon(self._suspect_lanes, self._store.clock.now()))

    def is_anything_left(self) -> bool:
        """Whether any task is open that a worker which runs until idle waits for."""
        return self._look(anything_left(self._lanes, self._kinds), sweeps=True)

    def _look(self, asked: Op[bool], *, in_trouble: bool = True, sweeps: bool = False) -> bool:
        """Look at one moment of the database: what goes from running to ready meanwhile would be seen nowhere."""
        session = self._store.session(patience_s=5.0)
        try:
            if sweeps and sweep_budgets(session, self._store.clock.now()):
                return True  # what was set aside and not needed is enough for a task
            with session.reading():
                return drive(asked, session)
        except (StoreError, ConnectionLost, TryAgainLater):
            return in_trouble
        finally:
            session.close()
