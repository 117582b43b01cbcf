"""A queue as one writes it in an afternoon, for contrast: a table of jobs, a loop, retries. It knows no lineage.

It is honest: every job is kept until it has run, and a failed one is tried again. What it cannot see is that a job
was asked for by a job that was asked for by the same job. So that the demonstration ends, it stops after a number of
runs and says how far things had come by then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

Handler = Callable[["NaiveQueue", str], None]


@dataclass(frozen=True)
class Multiplied:
    """How far it had come when it ended, or was stopped."""

    ran: int
    made: int
    waiting: int
    stopped: bool
    by_kind: dict[str, int]

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.by_kind.items())
        if self.stopped:
            return (
                f"stopped by hand after {self.ran} runs; {self.made} jobs made ({kinds}), {self.waiting} still waiting"
            )
        return f"ended after {self.ran} runs; {self.made} jobs made ({kinds})"


class NaiveQueue:
    """Jobs in a table, first come, first served. A handler that raises has its job tried again."""

    def __init__(self, handlers: dict[str, Handler], *, retries: int = 0, stop_after: int = 1_000) -> None:
        self._handlers = handlers
        self._retries = retries
        self._stop_after = stop_after
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.execute(
            "CREATE TABLE job (id integer PRIMARY KEY, kind text, about text, attempts integer DEFAULT 0,"
            " status text DEFAULT 'waiting')"
        )
        self._db.execute("CREATE INDEX job_waiting ON job (id) WHERE status = 'waiting'")

    def add(self, kind: str, about: str) -> int:
        """Ask for a job."""
        [(number,)] = self._db.execute("INSERT INTO job (kind, about) VALUES (?, ?) RETURNING id", (kind, about))
        return int(number)

    def run(self) -> Multiplied:
        """Work until nothing waits, or until the safety stop."""
        ran = 0
        while ran < self._stop_after and (job := self._next()):
            number, kind, about, attempts = job
            ran += 1
            try:
                self._handlers[kind](self, about)
                status = "done"
            except Exception:
                status = "waiting" if attempts < self._retries else "failed"
            self._db.execute("UPDATE job SET status = ?, attempts = attempts + 1 WHERE id = ?", (status, number))
        by_kind = dict(self._db.execute("SELECT kind, count(*) FROM job GROUP BY kind ORDER BY min(id)"))
        [(waiting,)] = self._db.execute("SELECT count(*) FROM job WHERE status = 'waiting'")
        self._db.close()
        return Multiplied(ran, sum(by_kind.values()), waiting, ran >= self._stop_after, by_kind)

    def _next(self) -> tuple[int, str, str, int] | None:
        query = "SELECT id, kind, about, attempts FROM job WHERE status = 'waiting' ORDER BY attempts, id LIMIT 1"
        found: tuple[int, str, str, int] | None = self._db.execute(query).fetchone()
        return found
