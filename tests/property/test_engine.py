"""Whatever happens in whatever order, the store does what a hundred lines of Python say it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as some
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from onceward import IllegalTransition, Status
from onceward.model.task import (
    CURSOR_PART,
    NEVER,
    Advance,
    Crash,
    Defer,
    Finish,
    HandOver,
    Keep,
    Lease,
    Move,
    Park,
    Part,
    Release,
    Report,
    TryAgain,
)  # fmt: skip
from onceward.model.times import StoreClock
from onceward.store import claims, operate
from onceward.store.migrate import migrate
from onceward.store.postgres import PostgresStore
from onceward.store.session import Session
from onceward.store.sqlite import SqliteStore
from onceward.store.verify import verify
from onceward.testing import FakeClock
from tests.property.model import ENDED, STAGES, Task
from tests.store.conftest import NOON, Hands

ALL = 10_000
RETRY_MS = 1_000  # what `Hands.bury` gives a stage that ignored its time limit

waits = some.integers(0, 3_000)
signals = some.sampled_from(["go", "stop"])


class Engine(RuleBasedStateMachine):
    """The store, driven by hand, beside the model."""

    tasks = Bundle("tasks")
    leases = Bundle("leases")
    workers = Bundle("workers")

    def __init__(self) -> None:
        super().__init__()
        self.hands = Hands(self.session())
        self.model: dict[int, Task] = {}

    def session(self) -> Session:
        """A connection to an empty, migrated database."""
        self.store = SqliteStore(":memory:", StoreClock(FakeClock(NOON)))
        session = self.store.session()
        migrate(session, NOON)
        return session

    # What clients do

    @initialize(target=tasks)
    def begin(self) -> int:
        return self.enqueue_one(0)

    @rule(target=tasks, after_ms=waits)
    def enqueue(self, after_ms: int) -> int:
        return self.enqueue_one(after_ms)

    def enqueue_one(self, after_ms: int) -> int:
        [task] = self.hands.enqueue(after_ms=after_ms)
        self.model[task] = Task(due_at=self.hands.now + after_ms)
        return task

    @rule(task=tasks)
    def cancel(self, task: int) -> None:
        expect = self.model[task].status not in ENDED
        assert self.is_allowed(lambda: operate.cancel(task, "not wanted", self.hands.now)) == expect
        if expect:
            self.model[task].cancelled()

    @rule(task=tasks, fresh=some.booleans())
    def reopen(self, task: int, fresh: bool) -> None:
        expect = self.model[task].status in ENDED | {Status.WAITING}
        assert expect == self.is_allowed(
            lambda: operate.reopen(task, fresh=fresh, stage=None, forget=[], now=self.hands.now)
        )
        if expect:
            self.model[task].reopened(fresh=fresh, now=self.hands.now)

    @rule(task=tasks, name=signals)
    def signal(self, task: int, name: str) -> None:
        expect = self.model[task].status not in ENDED
        assert self.is_allowed(lambda: operate.signal(task, name, b"1", self.hands.now)) == expect
        if expect:
            self.model[task].signalled(name, self.hands.now)

    @rule()
    def deploy(self) -> None:
        self.hands.do(lambda: operate.wake_for_code("note", "new", self.hands.now))
        for task in self.model.values():
            if task.waiting_for == "code:old":
                task.woken(self.hands.now)

    def is_allowed(self, operation: Any) -> bool:
        try:
            self.hands.do(operation)
        except IllegalTransition:
            return False
        return True

    # What workers do

    @rule(target=workers)
    def start_worker(self) -> int:
        return self.hands.worker()

    @rule(target=leases, worker=workers, count=some.sampled_from([1, 2, ALL]))
    def claim(self, worker: int, count: int) -> Any:
        claimable = {task for task, known in self.model.items() if known.is_claimable(self.hands.now)}
        found = self.hands.claim(worker, count)
        ids = {lease.task for lease in found}
        assert len(ids) == len(found) <= count
        assert ids == claimable if count == ALL else ids <= claimable
        # A claim wakes every task whose wait is over, also those it does not take.
        for task in claimable:
            if self.model[task].status is Status.WAITING:
                self.model[task].status, self.model[task].waiting_for = Status.PENDING, None
        for lease in found:
            self.model[lease.task].claimed(lease)
            assert (lease.fence, lease.run) == (self.model[lease.task].fence, self.model[lease.task].run)
        return multiple(*found)

    @rule(lease=leases, choice=some.integers(0, 13), ms=waits)
    def commit(self, lease: Lease, choice: int, ms: int) -> None:
        self.check_commit([(lease, self.move(lease, choice, ms))])

    @rule(batch=some.lists(some.tuples(leases, some.integers(0, 13)), max_size=4, unique_by=lambda one: one[0].token))
    def commit_together(self, batch: list[tuple[Lease, int]]) -> None:
        self.check_commit([(lease, self.move(lease, choice, 5)) for lease, choice in batch])

    def check_commit(self, moves: list[tuple[Lease, Move]]) -> None:
        expected = [self.model[lease.task].committed(lease, move, self.hands.now) for lease, move in moves]
        assert self.hands.commit_all(moves) == expected

    def move(self, lease: Lease, choice: int, ms: int) -> Move:
        known = self.model[lease.task]
        stage, value, later = known.stage_name, b'"%d"' % choice, self.hands.now + ms
        following = STAGES[known.stage + 1] if known.stage + 1 < len(STAGES) else None
        succeed = Finish(stage, value, Status.SUCCEEDED, None)
        moves: list[Move] = [
            succeed,
            Finish(stage, None, Status.SUCCEEDED, None),
            Finish(stage, None, Status.FILTERED, "no"),
            succeed if following is None else Advance(stage, value, following),
            succeed if following is None else HandOver(stage, value, following, "heavy"),
            TryAgain(stage, later, "no luck"),
            Defer(stage, later, "not yet"),
            Park(stage, "signal:go", NEVER, "waits"),
            Park(stage, "signal:stop", later, "waits"),
            Park(stage, "code:old", NEVER, "does not fit"),
            Release(),
            Crash(stage, "its process died", Status.PENDING),
            Keep(stage, (Part(stage, CURSOR_PART, value), Part(stage, "once/pay", value))),
            Report(stage, ms, None, "on the way"),
        ]
        return moves[choice]

    @rule(worker=consumes(workers), started=some.sets(tasks), is_overdue=some.booleans(), knows=some.booleans())
    def die(self, worker: int, started: set[int], is_overdue: bool, knows: bool) -> None:
        held = {task for task, known in self.model.items() if known.worker == worker}
        overdue = frozenset(started & held) if is_overdue else frozenset()
        suspects = set() if overdue else held & started if knows else held
        reclaimed = self.hands.bury(worker, frozenset(started) if knows else None, overdue=overdue)
        for task in held:
            self.model[task].buried(
                suspect=task in suspects,
                alone=len(suspects) == 1,
                overdue=task in overdue,
                now=self.hands.now,
                retry_at=self.hands.now + RETRY_MS,
            )
        assert reclaimed is not None
        assert reclaimed.suspects == len(suspects)
        assert reclaimed.released == len(held - suspects - overdue)

    @rule(worker=consumes(workers))
    def stop_worker(self, worker: int) -> None:
        held = [(lease, Release()) for lease in self.held_by(worker)]
        self.check_commit(held)  # type: ignore[arg-type]
        self.hands.do(lambda: claims.stop(worker, "stopped", self.hands.now))

    def held_by(self, worker: int) -> list[Lease]:
        rows = self.hands.sql("SELECT id, token FROM onceward_task WHERE status = 1 AND worker = ?", worker)
        return [
            lease for lease in self.bundle("leases") if (lease.task, lease.token) in {(t, bytes(k)) for t, k in rows}
        ]

    @rule(ms=waits)
    def pass_time(self, ms: int) -> None:
        self.hands.later(ms)

    # What must be true

    @invariant()
    def the_store_is_where_the_model_is(self) -> None:
        rows = self.hands.sql(
            "SELECT id, status, run, fence, failures, crashes, deferrals, signals, waiting_for, due_at FROM onceward_task"
        )
        stored = {task: facts for task, *facts in map(list, rows)}
        assert stored == {
            task: [
                int(known.status), known.run, known.fence, known.failures, known.crashes, known.deferrals, known.heard,
                known.waiting_for, known.due_at,
            ]
            for task, known in self.model.items()
        }  # fmt: skip

    def teardown(self) -> None:
        breaches = [breach.sentence for check in verify(self.hands.session, self.hands.now).checks
                    for breach in check.breaches]  # fmt: skip
        assert breaches == []
        self.nothing_is_lost()
        self.hands.session.close()

    def nothing_is_lost(self) -> None:
        """Everything that may ever run is claimed by whoever asks for all of it, when its time has come."""
        self.hands.later(10_000)
        waiting = {task for task, known in self.model.items() if known.is_claimable(self.hands.now)}
        assert {lease.task for lease in self.hands.claim(self.hands.worker(), ALL)} == waiting


QUICK = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def test_sqlite_does_what_the_model_says() -> None:
    run_state_machine_as_test(Engine, settings=QUICK)


@pytest.fixture
def postgres_engine(postgres_url: str) -> Iterator[type[Engine]]:
    """The same machine, on one PostgreSQL database that is emptied before every example."""

    class PostgresEngine(Engine):
        def session(self) -> Session:
            session = PostgresStore(postgres_url, StoreClock(FakeClock(NOON))).session()
            migrate(session, NOON)
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                names = connection.execute(
                    "SELECT tablename FROM pg_tables WHERE tablename LIKE 'onceward%'"
                ).fetchall()
                connection.execute("SET session_replication_role = replica")
                connection.execute("; ".join(f"DELETE FROM {n}" for (n,) in names if n != "onceward_schema"))
            return session

    yield PostgresEngine


def test_postgres_does_what_the_model_says(postgres_engine: type[Engine]) -> None:
    run_state_machine_as_test(postgres_engine, settings=settings(QUICK, max_examples=8, stateful_step_count=30))
