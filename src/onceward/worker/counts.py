"""What a worker has counted, for programs that do not work themselves too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(slots=True)
class WriteCounts:
    """What the committer has done so far."""

    transactions: int = 0
    commits: int = 0
    refused: int = 0
    claimed: int = 0
    claims: int = 0


class Swept(NamedTuple):
    """How many tasks were taken back from dead workers, and how many have ended by time."""

    reclaimed: int = 0
    expired: int = 0
