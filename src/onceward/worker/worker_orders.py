"""What a worker process is told to do, and what it tells in the end."""

from __future__ import annotations

import os
import random
import socket
from collections import Counter
from dataclasses import dataclass, field

from onceward.worker.counts import Swept, WriteCounts

RETIRED = 75
"""The exit code of a child that ends because a thread of it is lost to a stage that does not end."""
STARTED_BY_IMPORT = 78
"""The exit code of a child whose app begins work when it is imported."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker process is to do."""

    queues: list[str] | None = None
    until_idle: bool = False
    name: str | None = None
    concurrency: int | None = None
    """How many stages may run at once in this process, whatever the settings say."""
    worker: int | None = None
    """Its id, if a supervisor has registered it; then the supervisor also renews its leases."""
    presence: str | None = None
    suspects_only: bool = False
    app_path: str | None = None
    tick: Tick | None = None
    """Its bounds, if it is to end by itself."""
    failures: int | None = None
    """Where a supervisor writes of failures that its children shall tell of."""


@dataclass(frozen=True, slots=True)
class Tick:
    """How much a worker does before it ends: so many tasks, for so long, and no longer than there is anything ready."""

    max_tasks: int
    limit_ms: int


@dataclass(slots=True)
class Summary:
    """What a worker process has done."""

    counts: WriteCounts = field(default_factory=WriteCounts)
    unknown_commits: int = 0
    retired: bool = False
    worker: int | None = None
    outcomes: Counter[str] = field(default_factory=Counter)
    """Of a tick: how many attempts have ended, and how."""
    swept: Swept = field(default_factory=Swept)
    ended: str = "stopped"
    """Why it has ended: stopped, or of a tick idle, max tasks or time limit."""


def worker_name(given: str | None) -> str:
    """A name for people: the given one, or machine, process and a random end."""
    return given or f"{socket.gethostname()}-{os.getpid()}-{random.randrange(16**4):04x}"
