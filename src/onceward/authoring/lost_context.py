"""The context of a stage that has lost its lease. A thread cannot be stopped, but what it asks for can be refused."""

from __future__ import annotations

from typing import Any

from onceward.authoring.context import Context
from onceward.errors import LeaseLost

ALLOWED = frozenset({"alive", "idempotency_key", "log", "payload", "task"})
"""What a stage may still use, to say what it was and to tidy up."""


class LostContext(Context[Any]):
    """A context of which every other use raises `LeaseLost`, so that its stage stops."""

    def __getattribute__(self, name: str) -> Any:
        if name in ALLOWED or name.startswith("_"):
            return super().__getattribute__(name)
        raise LeaseLost(f"task {self._lease.task} belongs to another attempt now; nothing of this one is kept")


def lose(context: Context[Any]) -> None:
    """Have a stage hear, at its next use of its context, that its lease is gone."""
    context.__class__ = LostContext  # first: a stage that sees that it is not alive gets nothing more
    context._end()
