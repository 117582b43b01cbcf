"""How a piece of work is to be done: what one may say of it beside its payload."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from onceward.errors import ConfigError
from onceward.model.arguments import shown
from onceward.model.lineage import Limits
from onceward.model.task import HIGHEST_PRIORITY, LOWEST_PRIORITY
from onceward.model.times import Duration


class EnqueueOptions(NamedTuple):
    """When a piece of work is to be done, how soon among others, and within which limits."""

    after: Duration | None = None
    at: datetime | None = None
    priority: int | None = None
    limits: Limits | None = None


NO_OPTIONS = EnqueueOptions()


def checked_priority(priority: int) -> int:
    """Check a priority, from -2 to 2."""
    if (
        not isinstance(priority, int)
        or isinstance(priority, bool)
        or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY
    ):
        raise ConfigError(
            f"priority {shown(priority)}: it is a whole number from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}"
        )
    return priority
