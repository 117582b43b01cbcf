"""The floor on SQLite: apsw, write-ahead log, synchronous=FULL, one writer with group commit."""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress

import apsw

from bench.floor_loop import STEP_RESULT, Claimed, Step, encode
from bench.plan import PAD

POLL_SECONDS = 0.002
LEASE_SECONDS = 60

SCHEMA = """
CREATE TABLE IF NOT EXISTS job (
    id INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    kind TEXT NOT NULL,
    state INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL DEFAULT 0,
    due_at REAL NOT NULL DEFAULT 0,
    attempt INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    lease_until REAL,
    payload BLOB NOT NULL,
    created_at REAL NOT NULL,
    done_at REAL
);
CREATE INDEX IF NOT EXISTS job_ready ON job (queue, priority, due_at, id) WHERE state = 0;
CREATE INDEX IF NOT EXISTS job_leased ON job (lease_until) WHERE state = 1;
CREATE INDEX IF NOT EXISTS job_done ON job (done_at) WHERE state = 2;
CREATE TABLE IF NOT EXISTS step (
    job INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    result BLOB NOT NULL,
    PRIMARY KEY (job, stage)
) WITHOUT ROWID;
"""

INSERT = "INSERT INTO job (queue, kind, payload, created_at) VALUES ('default', ?, ?, ?)"

CLAIM = """
UPDATE job
SET state = 1, attempt = attempt + 1, worker = ?1, lease_until = ?2
WHERE id IN (
    SELECT id FROM job
    WHERE queue = 'default' AND state = 0 AND due_at <= ?3
    ORDER BY priority, due_at, id
    LIMIT ?4
)
RETURNING id, kind, payload
"""

# Names the worker: the one guard against finishing another worker's job that costs nothing.
FINISH = "UPDATE job SET state = 2, done_at = ?, lease_until = NULL WHERE id = ? AND state = 1 AND worker = ?"

CHECKPOINT = "INSERT INTO step (job, stage, result) VALUES (?, ?, ?)"


def connect(url: str) -> apsw.Connection:
    """A durable connection to the file behind `url`, its tables made."""
    connection = apsw.Connection(url.removeprefix("sqlite:///"))
    connection.set_busy_timeout(30_000)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA cache_size = -64000")
    connection.execute(SCHEMA)
    return connection


class SqliteFloorClient:
    """Enqueues on the floor; each call is durable when it returns."""

    def __init__(self, url: str) -> None:
        self.connection = connect(url)
        self.pad = PAD

    def enqueue(self, kind: str, number: int) -> None:
        """Insert one job in a transaction of its own."""
        self.connection.execute(INSERT, (kind, encode(number, self.pad), time.time()))

    def enqueue_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Insert all of them in one transaction."""
        now = time.time()
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(INSERT, [(kind, encode(number, self.pad), now) for number in numbers])
        self.connection.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        self.connection.close()


class SqliteFloorStore:
    """The floor's worker side; the only writer of its process."""

    def __init__(self, url: str) -> None:
        self.connection = connect(url)
        self.worker = f"worker-{os.getpid()}"
        self.wake = asyncio.Event()
        self.version_claimed = 0

    async def tick(self, done: list[int], steps: list[Step], want: int) -> list[Claimed]:
        """Blocks the event loop for the length of the commit: with one writer there is nothing else to do."""
        execute, executemany = self.connection.execute, self.connection.executemany
        now = time.time()
        claimed: list[Claimed] = []
        execute("BEGIN IMMEDIATE")
        if done:
            executemany(FINISH, [(now, job, self.worker) for job in done])
        if steps:
            executemany(CHECKPOINT, [(step.job, step.stage, STEP_RESULT) for step in steps])
        if want:
            # Read inside the transaction: what commits after this claim must count as news.
            self.version_claimed = self.data_version()
            rows = execute(CLAIM, (self.worker, now + LEASE_SECONDS, now, want))
            claimed = [Claimed(*row) for row in rows]
        execute("COMMIT")
        return claimed

    def has_news(self) -> bool:
        """Whether another process has committed since the last claim."""
        return self.data_version() != self.version_claimed

    async def pause(self) -> None:
        """Wait two milliseconds, or less if a handler ends."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.wake.wait(), POLL_SECONDS)

    def data_version(self) -> int:
        """A number that moves when another connection has committed."""
        return int(self.connection.pragma("data_version"))
