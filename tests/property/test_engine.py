"""Whatever happens in whatever order, the store does what a hundred lines of Python say it does."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

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
from onceward.store.attempts import workers
from onceward.store.drivers.session import Session
from onceward.store.operations import task_actions
from onceward.store.verify.verify import verify
from tests.property.databases import Emptied, in_memory, on_postgres
from tests.property.model import ENDED, STAGES, Task
from tests.store.conftest import Hands
from tests.store.trouble import BEFORE, REPLY_LOST, Trouble

ALL = 10_000
RETRY_MS = 1_000  # what `Hands.bury` gives a stage that ignored its time limit

REQUESTS = ["enqueue", "enqueue", "cancel", "reopen", "reopen", "reopen fresh", "deploy"]
waits = some.integers(0, 3_000)
numbers = some.integers(0, 11)
wishes = some.tuples(numbers, some.integers(0, 15))
"""Which lease, and which of the moves below."""


class Engine(RuleBasedStateMachine):
    """The store, driven by hand, beside the model.

    Few rules that choose by number among what there is, and not a rule for each thing with bundles between them:
    Hypothesis leaves out some rules in every run, and what needs three of them would hardly ever happen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hands = Hands(self.session())
        self.model: dict[int, Task] = {}
        self.workers: list[int] = []
        self.leases: list[Lease] = []
        """Every lease that was ever given, also those that were lost."""

    def session(self) -> Session:
        """A connection to an empty, migrated database."""
        self.store, session = in_memory()
        return session

    @initialize(count=some.integers(2, 6))
    def begin(self, count: int) -> None:
        for _ in range(count):
            self.enqueue(0)
        self.start_worker()

    # What clients do

    @rule(what=some.sampled_from(REQUESTS), pick=numbers, ms=waits)
    def ask(self, what: str, pick: int, ms: int) -> None:
        task = list(self.model)[pick % len(self.model)]
        match what:
            case "enqueue":
                self.enqueue(ms)
            case "cancel":
                self.cancel(task)
            case "reopen":
                self.reopen(task, fresh=False)
            case "reopen fresh":
                self.reopen(task, fresh=True)
            case "deploy":
                self.deploy()

    @rule(pick=numbers, name=some.sampled_from(["go", "stop"]))
    def signal(self, pick: int, name: str) -> None:
        waiting = [task for task, known in self.model.items() if known.status in (Status.RUNNING, Status.WAITING)]
        among = waiting if waiting and pick < 9 else list(self.model)
        task = among[pick % len(among)]
        expect = self.model[task].status not in ENDED
        assert self.is_allowed(lambda: task_actions.signal(task, name, b"1", self.hands.now)) == expect
        if expect:
            self.model[task].signalled(name, self.hands.now)

    def enqueue(self, after_ms: int) -> None:
        [task] = self.hands.enqueue(after_ms=after_ms)
        self.model[task] = Task(due_at=self.hands.now + after_ms)

    def cancel(self, task: int) -> None:
        expect = self.model[task].status not in ENDED
        assert self.is_allowed(lambda: task_actions.cancel(task, "not wanted", self.hands.now)) == expect
        if expect:
            self.model[task].cancelled()

    def reopen(self, task: int, *, fresh: bool) -> None:
        expect = self.model[task].status in ENDED | {Status.WAITING}
        assert expect == self.is_allowed(
            lambda: task_actions.reopen(task, fresh=fresh, stage=None, forget=[], now=self.hands.now)
        )
        if expect:
            self.model[task].reopened(fresh=fresh, now=self.hands.now)

    def deploy(self) -> None:
        self.hands.do(lambda: task_actions.wake_for_code("note", "new", self.hands.now))
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

    @rule(
        pick=numbers, count=some.sampled_from([1, 2, ALL]), moves=some.lists(wishes, max_size=6), ms=waits, slow=waits
    )
    def work(self, pick: int, count: int, moves: list[tuple[int, int]], ms: int, slow: int) -> None:
        """Claim, on a machine whose clock may be a little behind; then write what attempts want written, one by one."""
        self.claim(self.workers[pick % len(self.workers)], count, behind_ms=0 if slow > 300 else slow)
        for place, choice in moves:
            for lease in self.chosen(place):
                self.check_commit([(lease, self.move(lease, choice, ms))])
        self.hands.later(ms)

    @rule(picks=some.lists(wishes, min_size=2, max_size=5), ms=waits)
    def commit_together(self, picks: list[tuple[int, int]], ms: int) -> None:
        """Many in one transaction: each is accepted or refused on its own."""
        tasks: dict[int, tuple[Lease, Move]] = {}
        for place, choice in picks:
            for lease in self.chosen(place):
                tasks.setdefault(lease.task, (lease, self.move(lease, choice, ms)))
        self.check_commit(list(tasks.values()))

    def chosen(self, place: int) -> list[Lease]:
        """A lease, if there is one: mostly one that is held, now and then any that was ever given."""
        held = [lease for lease in self.leases if self.model[lease.task].holder == lease.token]
        among = self.leases if place > 8 or not held else held
        return [among[-1 - place % len(among)]] if among else []

    def start_worker(self) -> None:
        self.workers.append(self.hands.worker())

    def claim(self, worker: int, count: int, behind_ms: int) -> None:
        # Whoever stands in line was due by somebody's clock, and may be taken by whose clock is behind.
        perhaps = {task for task, known in self.model.items() if known.is_claimable(self.hands.now)}
        self.hands.later(-behind_ms)
        claimable = {task for task, known in self.model.items() if known.is_claimable(self.hands.now)}
        found = self.hands.claim(worker, count)
        self.hands.later(behind_ms)
        ids = {lease.task for lease in found}
        assert len(ids) == len(found) <= count
        assert ids <= perhaps
        assert ids >= claimable or count != ALL
        # A claim wakes every task whose wait is over, also those it does not take.
        for task in claimable:
            if self.model[task].status is Status.WAITING:
                self.model[task].status, self.model[task].waiting_for = Status.PENDING, None
        for lease in found:
            self.model[lease.task].claimed(lease)
            assert (lease.fence, lease.run) == (self.model[lease.task].fence, self.model[lease.task].run)
        self.leases += found

    def check_commit(self, moves: list[tuple[Lease, Move]]) -> None:
        expected = [self.model[lease.task].committed(lease, move, self.hands.now) for lease, move in moves]
        assert self.hands.commit_all(moves) == expected
        for accepted, (lease, move) in zip(expected, moves, strict=True):
            if accepted and isinstance(move, Advance):
                # As a worker does: under the same lease, the next stage, which may belong to another queue.
                goes_on = msgspec.structs.replace(lease, stage=move.next_stage, queue=move.queue or lease.queue)
                self.leases[self.leases.index(lease)] = goes_on

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
            succeed if following is None else Advance(stage, value, following, "heavy"),
            succeed if following is None else HandOver(stage, value, following, "heavy"),
            TryAgain(stage, later, "no luck"),
            Defer(stage, later, "not yet"),
            Park(stage, "signal:go", NEVER, "waits"),
            Park(stage, "signal:stop", later, "waits"),
            Park(stage, "code:old", NEVER, "does not fit"),
            Release(),
            Release("heavy"),
            Crash(stage, "its process died", Status.PENDING),
            Keep(stage, (Part(stage, CURSOR_PART, value), Part(stage, "once/pay", value))),
            Report(stage, ms, None, "on the way"),
        ]
        return moves[choice]

    # What goes wrong, and what goes on

    @rule(pick=numbers, share=some.sampled_from(["all", "first", "none", "unknown", "overdue"]))
    def die(self, pick: int, share: str) -> None:
        """A worker dies, and it is known, or not, what ran in it."""
        worker = self.workers.pop(pick % len(self.workers))
        held = {task for task, known in self.model.items() if known.worker == worker}
        some_of_them = set(sorted(held)[:1])
        started = {"all": held, "none": set(), "unknown": None}.get(share, some_of_them)
        overdue = frozenset(some_of_them) if share == "overdue" else frozenset[int]()
        suspects = set() if overdue else held if started is None else started
        reclaimed = self.hands.bury(worker, None if started is None else frozenset(started), overdue=overdue)
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
        self.start_worker()

    @rule(pick=numbers)
    def stop(self, pick: int) -> None:
        """A worker gives back what it holds, and ends."""
        worker = self.workers.pop(pick % len(self.workers))
        held = [lease for lease in self.leases if self.model[lease.task].holder == lease.token]
        self.check_commit([(lease, Release()) for lease in held if lease.worker == worker])
        self.hands.do(lambda: workers.stop(worker, "stopped", self.hands.now))
        self.start_worker()
        self.start_worker()

    @rule(ms=waits)
    def pass_time(self, ms: int) -> None:
        self.hands.later(ms)

    # What must be true

    @invariant()
    def the_store_is_where_the_model_is(self) -> None:
        rows = self.hands.sql(
            "SELECT id, status, run, fence, failures, crashes, deferrals, signals, waiting_for, due_at"
            " FROM onceward_task"
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
    max_examples=50,
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],  # to shrink a failure takes minutes: add Phase.shrink when there is one
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def test_sqlite_does_what_the_model_says() -> None:
    run_state_machine_as_test(Engine, settings=QUICK)


def test_sqlite_does_what_the_model_says_also_where_it_has_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    trouble = Trouble(0, 0.2)
    trouble.put_before_the_store(monkeypatch)

    class TroubledEngine(Engine):
        def session(self) -> Session:
            trouble.dice.seed(1)  # the same again, if an example is run again
            return super().session()

    run_state_machine_as_test(TroubledEngine, settings=settings(QUICK, max_examples=16))
    assert {BEFORE, REPLY_LOST} <= {kind for kind, _ in trouble.done}


@pytest.fixture
def postgres_engine(emptying: Emptied) -> type[Engine]:
    """The same machine, on one PostgreSQL database that is emptied before every example."""

    class PostgresEngine(Engine):
        def session(self) -> Session:
            return on_postgres(emptying)

    return PostgresEngine


def test_postgres_does_what_the_model_says(postgres_engine: type[Engine]) -> None:
    run_state_machine_as_test(postgres_engine, settings=settings(QUICK, max_examples=12, stateful_step_count=30))


@pytest.mark.torture
def test_sqlite_does_what_the_model_says_for_long() -> None:
    run_state_machine_as_test(
        Engine, settings=settings(QUICK, max_examples=3_000, stateful_step_count=60, derandomize=False)
    )


@pytest.mark.torture
def test_postgres_does_what_the_model_says_for_long(postgres_engine: type[Engine]) -> None:
    run_state_machine_as_test(
        postgres_engine, settings=settings(QUICK, max_examples=300, stateful_step_count=60, derandomize=False)
    )
