"""Values that several of these tests begin with."""

from __future__ import annotations

import uuid
from typing import Any

from onceward.model.task import Lease

NOW = 1_767_225_600_000


def lease(**facts: Any) -> Lease:
    """A lease of task 1, first claim, that has come to nothing yet."""
    usual: dict[str, Any] = {
        "task": 1, "fence": 1, "token": b"token", "worker": 1, "run": 1, "kind": "note", "version": 1,
        "queue": "default", "band": 2, "rank": 0, "stage": None, "payload": b"{}", "failures": 0, "crashes": 0,
        "company": 0, "deferrals": 0, "signals": 0, "touched": 0, "lineage_bytes": uuid.UUID(int=1).bytes,
        "parent": None, "depth": 0, "created_at": NOW, "started_at": NOW,
    }  # fmt: skip
    return Lease(**usual | facts)
