"""How a piece of work is to be done: what one may say of it beside its payload."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from onceward.model.lineage import Limits
from onceward.model.times import Duration


class EnqueueOptions(NamedTuple):
    """When a piece of work is to be done, how soon among others, and within which limits."""

    after: Duration | None = None
    at: datetime | None = None
    priority: int | None = None
    limits: Limits | None = None


NO_OPTIONS = EnqueueOptions()
