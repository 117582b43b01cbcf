"""The store by hand: every test here runs on SQLite and on PostgreSQL, with a clock of its own and no worker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from onceward.model.payload import identity
from onceward.model.task import Commit, Lease, Move, NewTask, Write, band_of, lane_of
from onceward.model.times import StoreClock, SystemClock
from onceward.store.attempts import claims, commits, workers
from onceward.store.drivers.migrate import migrate
from onceward.store.drivers.postgres import PostgresStore
from onceward.store.drivers.session import Session
from onceward.store.drivers.sqlite_store import SqliteStore
from onceward.store.lines import enqueue
from onceward.store.lines.memory import LineMemory
from onceward.store.op import Op
from tests.pooler import IS_BETWEEN
from tests.store import trouble

Result = TypeVar("Result")
store_trouble, trouble_is_counted = trouble.store_trouble, trouble.trouble_is_counted
TROUBLED = ("test_spawning_together",)
"""Modules whose tests run once more with a store that has trouble, also where nobody has asked for it."""

NOON = 1_700_000_000_000


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    trouble.vary(metafunc, TROUBLED)


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database, once of each kind."""
    # Those who take it in hand have it migrated anyway; to copy or to empty a database is a lot faster.
    reused = {"sqlite": "migrated_sqlite_url", "postgres": "emptied_postgres_url"}
    url: str = request.getfixturevalue(
        reused[request.param] if "hands" in request.fixturenames else f"{request.param}_url"
    )
    return url


@pytest.fixture
def open_session(store_url: str) -> Iterator[Callable[[], Session]]:
    """Opens sessions on the database of this test, and closes them after it."""
    clock = StoreClock(SystemClock())
    store: SqliteStore | PostgresStore
    if store_url.startswith("sqlite:///"):
        store = SqliteStore(store_url.removeprefix("sqlite:///"), clock)
    else:
        store = PostgresStore(store_url, clock, prepare=not IS_BETWEEN)
    opened: list[Session] = []

    def open_one() -> Session:
        opened.append(store.session(patience_s=5))
        return opened[-1]

    yield open_one
    for session in opened:
        session.close()


@pytest.fixture
def session(open_session: Callable[[], Session]) -> Session:
    """A session on an empty database."""
    return open_session()


@pytest.fixture
def hands(session: Session) -> Hands:
    """The engine's operations, driven by hand on a migrated database."""
    migrate(session, NOON)
    return Hands(session)


class Hands:
    """Does what clients and workers do, one transaction at a time."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.now = NOON
        self.kinds = {"note"}

    def do(self, operation: Callable[[], Op[Result]]) -> Result:
        """Run an operation in a transaction."""
        return self.session.transact(operation)

    def later(self, ms: int) -> int:
        """Let time pass; returns what it is then."""
        self.now += ms
        return self.now

    def enqueue(
        self,
        count: int = 1,
        *,
        kind: str = "note",
        key: str | None = None,
        payload: bytes = b"{}",
        after_ms: int = 0,
        priority: int = 0,
        lineage: uuid.UUID | None = None,
        gates: str | None = None,
    ) -> list[int]:
        """New tasks; their ids."""
        self.kinds.add(kind)
        tasks = [
            NewTask(
                kind=kind,
                version=1,
                queue="default",
                band=band_of(priority),
                key=key,
                identity=identity(kind, key or str(number)),
                payload=payload,
                lineage=lineage or uuid.uuid4(),
                due_at=self.now + after_ms,
                created_at=self.now,
                gates=gates,
            )
            for number in range(count)
        ]
        return self.do(lambda: enqueue.enqueue(tasks, self.now))

    def worker(self, name: str = "ant", lease_ms: int = 300_000) -> int:
        """A new worker; its id."""
        new = workers.NewWorker(name, "host", 7, None, "note", "default", lease_ms)
        return self.do(lambda: workers.register(new, self.now))

    def memory(self) -> LineMemory:
        """Somebody who looks at all lines, suspects' too, as if for the first time."""
        lanes = [
            lane_of(queue, kind, suspect=suspect)
            for queue in ("default", "heavy")
            for kind in sorted(self.kinds)
            for suspect in (False, True)
        ]
        return LineMemory(tuple(lanes), sweeps=self.session.dialect == "postgres")

    def claim(self, worker: int, count: int = 1_000) -> list[Lease]:
        """What a worker gets if it asks for so many."""
        return self.do(lambda: claims.claim(self.memory(), worker, count, self.now)).leases

    def commit(self, lease: Lease, move: Move, *, writes: tuple[Write, ...] = ()) -> commits.CommitResult:
        """Hand in one move of an attempt."""
        return self.commit_all([(lease, move)], writes=writes)[0]

    def commit_all(
        self, moves: Sequence[tuple[Lease, Move]], *, writes: tuple[Write, ...] = ()
    ) -> list[commits.CommitResult]:
        """Hand in many moves in one transaction."""
        wanted = [Commit(lease, move, writes) for lease, move in moves]
        return self.do(lambda: commits.commit(wanted, self.now))

    def bury(
        self, worker: int, started: frozenset[int] | None = frozenset(), **death: Any
    ) -> workers.BuriedWorker | None:
        """Declare a worker dead."""
        [seen] = [seen for seen in self.do(workers.living_workers) if seen.id == worker]
        how = workers.Death("was killed", started, **death)
        return self.do(lambda: workers.bury(seen, how, 3, lambda _: 1_000, self.now))

    def sql(self, text: str, *params: Any) -> list[Any]:
        """A statement past the engine: `?` stands for a parameter on both databases."""
        connection = self.session.opened()
        if self.session.dialect == "postgres":
            cursor = connection.execute(text.replace("?", "%s"), params)
            return cursor.fetchall() if cursor.description else []
        return list(connection.execute(text, params))
