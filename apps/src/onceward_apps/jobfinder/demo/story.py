"""How things stand at one moment of the demo, and what has happened so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from onceward import App, Connection, Status
from onceward_apps.jobfinder import listing_rows, source_rows
from onceward_apps.jobfinder.source_rows import SourceRow
from onceward_apps.statements import rows

OPEN = frozenset({Status.PENDING, Status.RUNNING, Status.RETRYABLE, Status.WAITING})
KINDS = ("company", "source_discovery", "scrape_source", "job", "fetch")


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that is alive."""

    name: str
    pid: int
    holds: int


@dataclass(frozen=True, slots=True)
class Look:
    """How things stand at one moment."""

    at_s: float
    tasks: Counter[tuple[str, Status]]
    listings: dict[str, int]
    matches: int
    sources: Sequence[SourceRow]
    workers: Sequence[Worker]

    def done(self, kind: str) -> int:
        """How many tasks of a kind have ended."""
        return sum(count for (name, status), count in self.tasks.items() if name == kind and status not in OPEN)

    def all(self, kind: str) -> int:
        """How many tasks of a kind there are."""
        return sum(count for (name, _), count in self.tasks.items() if name == kind)

    @property
    def open(self) -> int:
        """How many tasks have not ended."""
        return sum(count for (_, status), count in self.tasks.items() if status in OPEN)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do."""
        return self.open == 0

    @property
    def decided(self) -> int:
        """How many listings have been decided about."""
        return sum(count for status, count in self.listings.items() if status != "analyzing")

    def source_of(self, company: str) -> SourceRow | None:
        """The source of a company."""
        return next((row for row in self.sources if row.company == company), None)


@dataclass(frozen=True, slots=True)
class Kill:
    """The worker that was killed."""

    worker: Worker
    at_s: float
    at_ms: int
    """The same by the clock on the wall, as the engine's log has it."""


@dataclass(slots=True)
class Story:
    """What has happened so far, for those who watch."""

    looks: list[Look] = field(default_factory=list)
    events: list[tuple[float, Text]] = field(default_factory=list)
    killed: Kill | None = None
    approved: int = 0
    seen: set[str] = field(default_factory=set)

    @property
    def now(self) -> Look:
        """The latest look."""
        return self.looks[-1]

    def tell(self, text: Text | str) -> None:
        """Something worth a line of its own has happened."""
        self.events.append((self.now.at_s, Text(text) if isinstance(text, str) else text))

    @property
    def listings_per_s(self) -> float:
        """How many listings were decided about a second, over the last two seconds or so."""
        last = self.now
        first = next((look for look in self.looks if look.at_s >= last.at_s - 2), last)
        span_s = last.at_s - first.at_s
        return (last.decided - first.decided) / span_s if span_s > 0 else 0.0


def look(app: App, at_s: float) -> Look:
    """How things stand now."""
    return Look(
        at_s,
        Counter({(str(kind), Status(status)): int(count) for kind, status, count in app.read(_counts)}),
        app.read(listing_rows.counts),
        int(app.read(_matches)),
        app.read(source_rows.sources),
        [Worker(one.name, one.pid, one.holds) for one in app.workers.list()],
    )


def _counts(connection: Connection) -> list[tuple[Any, ...]]:
    return rows(connection, "SELECT kind, status, count(*) FROM onceward_task GROUP BY kind, status")


def _matches(connection: Connection) -> int:
    return int(rows(connection, "SELECT count(*) FROM jobs_match")[0][0])
