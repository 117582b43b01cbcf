"""How a batch stands and how it ends, from the counts of its tasks alone."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class BatchOutcome(IntEnum):
    """Where a batch stands. The numbers are stored."""

    OPEN = 0
    SUCCEEDED = 1
    PARTIAL = 2
    FAILED = 3

    @property
    def word(self) -> str:
        """As people read and write it."""
        return self.name.lower()


class BatchCounts(NamedTuple):
    """How many tasks of a batch have ended, and how."""

    succeeded: int = 0
    filtered: int = 0
    skipped: int = 0
    failed: int = 0
    cancelled: int = 0
    refused: int = 0
    """Of those that were to be added, how many a limit has refused."""


def outcome_of(counts: BatchCounts, *, is_overdue: bool) -> BatchOutcome:
    """How a batch ends whose last task has ended.

    A filtered or skipped task came to the end that it was meant for, so it counts as good; a cancelled one does not,
    nor does one that a limit refused. All good, or none at all: succeeded. Some good: partial. None good: failed. A
    batch that overran its deadline has failed, whatever its tasks had done before.
    """
    if is_overdue:
        return BatchOutcome.FAILED
    if not counts.failed + counts.cancelled + counts.refused:
        return BatchOutcome.SUCCEEDED
    return BatchOutcome.PARTIAL if counts.succeeded + counts.filtered + counts.skipped else BatchOutcome.FAILED


def name_taken(name: str) -> str:
    """What is said to those who would open a batch that is there already."""
    return f"there is a batch {name!r} already; every batch has a name of its own"
