"""The systems that are compared, and how each is set: one line a system, which the report repeats.

A peer runs as its documentation says is fast while an acknowledged job still survives a crash. Where it polls, it polls
every 10 ms, far below its default, so that waiting is not what is measured.
"""

from dataclasses import dataclass
from typing import Literal

Backend = Literal["sqlite", "postgres", "redis"]

BACKENDS: dict[Backend, str] = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "Redis"}
OURS: dict[Backend, str] = {
    "sqlite": "onceward-sqlite",
    "postgres": "onceward-postgres",
    # Redis has no side of ours; what an application would choose instead is the other server.
    "redis": "onceward-postgres",
}


@dataclass(frozen=True, slots=True)
class System:
    """One system on one backend."""

    name: str
    label: str
    backend: Backend
    adapter: str
    configuration: str
    requirements: str | None = None
    package: str | None = None
    python: tuple[int, int] = (3, 11)
    bulk: bool = True
    workflows: bool = False
    own_supervisor: bool = False


def ours(backend: Backend) -> tuple[System, System]:
    """The floor and the engine on one backend."""
    floor = System(
        f"floor-{backend}",
        "floor",
        backend,
        "ours",
        "hand-written queue with group commit and no other feature; not a product, the bar of what is possible",
        workflows=True,
    )
    engine = System(
        f"onceward-{backend}",
        "Onceward",
        backend,
        "ours",
        "defaults, everything on; concurrency 100, uvloop; two processes under its supervisor",
        workflows=True,
        own_supervisor=True,
    )
    return floor, engine


SYSTEMS: tuple[System, ...] = (
    *ours("sqlite"),
    System(
        "huey",
        "Huey",
        "sqlite",
        "huey",
        "SqliteHuey, WAL, fsync=True, results off, 1 worker thread (more are slower), poll 10 ms (default 100); "
        "at most once: the row is deleted when it is fetched",
        requirements="huey",
        package="huey",
        bulk=False,
    ),
    System(
        "dbos-sqlite",
        "DBOS",
        "sqlite",
        "dbos",
        "queue with worker_concurrency 100, poll 10 ms (default 1,000), pool 20; async jobs, sync steps (the faster); "
        "bulk: 500 in one transaction by enqueue_in_transaction",
        requirements="dbos",
        package="dbos",
        workflows=True,
    ),
    *ours("postgres"),
    System(
        "pgqueuer",
        "PgQueuer",
        "postgres",
        "pgqueuer",
        "asyncpg, uvloop, durability durable (its default), batch 100, at most 200 at once, LISTEN/NOTIFY",
        requirements="pgqueuer",
        package="pgqueuer",
    ),
    System(
        "awa",
        "Awa",
        "postgres",
        "awa",
        "segmented queue storage, COPY enqueue, concurrency 200 a process, uvloop, Python handlers",
        requirements="awa",
        package="awa-pg",
    ),
    System(
        "oban",
        "Oban",
        "postgres",
        "oban",
        "open-source edition, psycopg pool of 10, limit 100, uvloop, LISTEN/NOTIFY, finished rows kept",
        requirements="oban",
        package="oban",
        python=(3, 12),
    ),
    System(
        "procrastinate",
        "Procrastinate",
        "postgres",
        "procrastinate",
        "psycopg pool of 20, concurrency 100, LISTEN/NOTIFY, finished rows kept (its default)",
        requirements="procrastinate",
        package="procrastinate",
    ),
    System(
        "dbos-postgres",
        "DBOS",
        "postgres",
        "dbos",
        "as on SQLite",
        requirements="dbos",
        package="dbos",
        workflows=True,
    ),
    System(
        "absurd",
        "Absurd",
        "postgres",
        "absurd",
        "async worker, concurrency and batch 100, poll 10 ms (default 250); bulk: 500 spawns in one transaction",
        requirements="absurd",
        package="absurd-sdk",
        workflows=True,
    ),
    System(
        "celery",
        "Celery",
        "redis",
        "celery",
        "acks_late, 10 threads, prefetch 100, no result backend, no gossip, mingle or heartbeat",
        requirements="celery",
        package="celery",
        bulk=False,
    ),
    System(
        "dramatiq",
        "Dramatiq",
        "redis",
        "dramatiq",
        "8 threads a process, queue prefetch 200 (default: twice the threads); polls with a back-off of its own",
        requirements="dramatiq",
        package="dramatiq",
        bulk=False,
    ),
    System(
        "saq",
        "SAQ",
        "redis",
        "saq",
        "concurrency 100, finished jobs not kept",
        requirements="saq",
        package="saq",
        bulk=False,
    ),
    System(
        "taskiq",
        "taskiq",
        "redis",
        "taskiq",
        "RedisStreamBroker (acknowledged), 100 async tasks, prefetch 100, ack when executed, no result backend",
        requirements="taskiq",
        package="taskiq",
        bulk=False,
    ),
)

BY_NAME = {system.name: system for system in SYSTEMS}
