"""The floor on PostgreSQL: one statement and one commit per tick, LISTEN on a connection of its own."""

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import asyncpg
import psycopg

from bench.floor_loop import Claimed, Step, encode
from bench.loops import new_loop
from bench.plan import PAD

LOOK_AGAIN_SECONDS = 1.0

SCHEMA = """
CREATE TABLE IF NOT EXISTS job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL,
    kind text NOT NULL,
    state smallint NOT NULL DEFAULT 0,
    priority smallint NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL DEFAULT now(),
    attempt smallint NOT NULL DEFAULT 0,
    worker text,
    lease_until timestamptz,
    payload bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS job_ready ON job (queue, priority, due_at, id) WHERE state = 0;
CREATE INDEX IF NOT EXISTS job_leased ON job (lease_until) WHERE state = 1;
CREATE INDEX IF NOT EXISTS job_done ON job (done_at) WHERE state = 2;
CREATE TABLE IF NOT EXISTS step (
    job bigint NOT NULL,
    stage smallint NOT NULL,
    result bytea NOT NULL,
    PRIMARY KEY (job, stage)
);
"""

INSERT_ONE = """
WITH inserted AS (
    INSERT INTO job (queue, kind, payload)
    VALUES ('default', %s, %s)
)
SELECT pg_notify('job', '')
"""

# One notification per call, however many jobs it brings.
INSERT_MANY = """
WITH inserted AS (
    INSERT INTO job (queue, kind, payload)
    SELECT 'default', $1, unnest($2::bytea[])
)
SELECT pg_notify('job', '')
"""

# Finish, checkpoint and claim in one round trip. SKIP LOCKED, so that two workers never wait for each other.
TICK = """
WITH finished AS (
    UPDATE job
    SET state = 2, done_at = now(), lease_until = NULL
    WHERE id = ANY($1::bigint[]) AND state = 1 AND worker = $2
), checkpointed AS (
    INSERT INTO step (job, stage, result)
    SELECT unnest($3::bigint[]), unnest($4::smallint[]), 'true'::bytea
)
UPDATE job
SET state = 1, attempt = attempt + 1, worker = $2, lease_until = now() + interval '60 seconds'
FROM (
    SELECT id FROM job
    WHERE queue = 'default' AND state = 0 AND due_at <= now()
    ORDER BY priority, due_at, id
    LIMIT $5
    FOR UPDATE SKIP LOCKED
) AS next
WHERE job.id = next.id
RETURNING job.id, job.kind, job.payload
"""


class PostgresFloorClient:
    """Enqueues on the floor; each call is durable when it returns.

    A floor takes the faster way for each: psycopg is ahead by a fifth when jobs come one by one (no event
    loop to turn), asyncpg by twice when a thousand come as one array.
    """

    def __init__(self, url: str) -> None:
        self.pad = PAD
        self.loop = new_loop()
        self.bulk = self.loop.run_until_complete(asyncpg.connect(url))
        self.loop.run_until_complete(self.bulk.execute(SCHEMA))
        self.insert_many = self.loop.run_until_complete(self.bulk.prepare(INSERT_MANY))
        self.single = psycopg.connect(url, autocommit=True)
        self.cursor = self.single.cursor(binary=True)

    def enqueue(self, kind: str, number: int) -> None:
        """Insert one job, one statement, one commit."""
        self.cursor.execute(INSERT_ONE, (kind, encode(number, self.pad)), prepare=True)

    def enqueue_many(self, kind: str, numbers: Sequence[int]) -> None:
        """Insert all of them with one statement."""
        self.loop.run_until_complete(self.insert_many.fetch(kind, [encode(number, self.pad) for number in numbers]))

    def close(self) -> None:
        """Close both connections and the loop."""
        self.single.close()
        self.loop.run_until_complete(self.bulk.close())
        self.loop.close()


class PostgresFloorStore:
    """The floor's worker side; made by `open`, inside the worker's event loop."""

    def __init__(self) -> None:
        self.worker = f"worker-{os.getpid()}"
        self.wake = asyncio.Event()
        self.notified = True

    async def open(self, url: str) -> None:
        """Connect twice: asyncpg hears nothing on a connection that has just prepared a statement."""
        connection = await asyncpg.connect(url)
        self.statement = await connection.prepare(TICK)
        self.listener = await asyncpg.connect(url)
        await self.listener.add_listener("job", self.notify)

    def notify(self, *_: Any) -> None:
        """Somebody has enqueued."""
        self.notified = True
        self.wake.set()

    async def tick(self, done: list[int], steps: list[Step], want: int) -> list[Claimed]:
        """One prepared statement, one round trip."""
        if want:
            # Forgotten before the claim takes its snapshot: what is notified during the claim is news.
            self.notified = False
        rows = await self.statement.fetch(
            done, self.worker, [step.job for step in steps], [step.stage for step in steps], want
        )
        return [Claimed(*row) for row in rows]

    def has_news(self) -> bool:
        """Whether a notification has come since the last claim."""
        return self.notified

    async def pause(self) -> None:
        """Wait for a notification or for the end of a handler; look by oneself every second."""
        try:
            await asyncio.wait_for(self.wake.wait(), LOOK_AGAIN_SECONDS)
        except TimeoutError:
            self.notified = True
