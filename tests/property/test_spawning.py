"""Whoever spawns what in whatever order, together or one by one, the guard decides as a hundred lines of Python do."""

from __future__ import annotations

import uuid
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from onceward import IllegalTransition, Limits, Status
from onceward.authoring.child_builder import key_hash
from onceward.model.lineage import Alias, Bounds, Rule, Sort, Spawn
from onceward.model.payload import identity
from onceward.model.task import Finish, Lease, NewTask, band_of
from onceward.store.drivers.session import Session
from onceward.store.lineage.aliases import NewAlias, take_aliases
from onceward.store.lineage.spawn_guard import spawn
from onceward.store.lineage.spawn_requests import Decision, SpawnRequest
from onceward.store.lineage.unique_roots import enqueue_root
from onceward.store.operations import task_actions
from onceward.store.rows import as_uuid
from onceward.store.verify.verify import verify
from tests.property.databases import Emptied, in_memory, on_postgres
from tests.property.lineage_model import KINDS, Member, Model, Verdict
from tests.store.conftest import Hands

DEFAULTS = Bounds(max_depth=3, max_children=4, deadline_ms=30_000, max_tasks=14)
"""Small, so that every limit is met."""
ENDS = [Status.SUCCEEDED, Status.SUCCEEDED, Status.FAILED, Status.FILTERED, Status.CANCELLED]

numbers = some.integers(0, 11)
kinds = some.sampled_from(sorted(KINDS))
keys = some.sampled_from("abcd")
names = some.lists(some.tuples(numbers, keys), max_size=2)
waits = some.sampled_from([0, 0, 300, 3_000, 9_000])


class Wish(NamedTuple):
    """A child that somebody asks for, perhaps with narrower limits of its own."""

    pick: int
    kind: str
    key: str
    narrow: str


wishes = some.builds(Wish, numbers, kinds, keys, some.sampled_from(["", "", "", "tasks", "depth", "children"]))


class Lineages(RuleBasedStateMachine):
    """The guard beside the model. Every task that may run is claimed at once, so that it can spawn."""

    def __init__(self) -> None:
        super().__init__()
        self.hands = Hands(self.session())
        self.hands.kinds = set(KINDS)
        self.worker = self.hands.worker()
        self.model = Model()
        self.leases: dict[int, Lease] = {}

    def session(self) -> Session:
        """A connection to an empty, migrated database."""
        self.store, session = in_memory()
        return session

    @initialize()
    def begin(self) -> None:
        self.enqueue("plain", "a", 0)
        self.enqueue("one", "b", 1)

    @rule(kind=kinds, key=keys, limit=some.integers(0, 3))
    def enqueue(self, kind: str, key: str, limit: int) -> None:
        """A new root, with limits of its own or without."""
        now = self.hands.now
        limits = [None, Limits(max_tasks=3), Limits(max_depth=1), Limits(max_children=1, deadline="5s")][limit]
        bounds = None if limits is None else DEFAULTS.replaced(limits)
        lineage = uuid.uuid4()
        root = NewTask(
            kind=kind, version=1, queue="default", band=band_of(0), key=key, identity=identity(kind, key),
            payload=b"{}", lineage=lineage, due_at=now, created_at=now, unique=KINDS[kind].unique,
            fresh_for_ms=KINDS[kind].fresh_for_ms, bounds=bounds,
        )  # fmt: skip
        expected = self.model.root(kind, key, now)
        task, is_new, _ = self.hands.do(lambda: enqueue_root(root, now))
        assert is_new == (expected is None)
        if is_new:
            assert task is not None
            self.model.add_root(Member(task, kind, key, lineage, bounds or DEFAULTS, now))
        else:
            assert task == expected
        self.claim()

    @rule(wishes=some.lists(wishes, min_size=1, max_size=6), names=names)
    def spawn(self, wishes: list[Wish], names: list[tuple[int, str]]) -> None:
        """Several spawns in one transaction, by one task or by many; some of them, or others, go by further keys."""
        running = list(self.leases)
        if not running:
            return
        now = self.hands.now
        asked: list[SpawnRequest] = []
        for wish in wishes:
            lease = self.leases[running[-1 - wish.pick % len(running)]]
            asked.append(
                SpawnRequest(
                    lease, "first", key_hash(self.model.members[lease.task].key), DEFAULTS, self.child(lease, wish)
                )
            )
        aliases = self.aliases(names)
        decisions = self.hands.do(lambda: spawn(asked, now, aliases)).decisions
        self.model.alias([(one.lease.task, one.alias.key) for one in aliases], now)
        for one, decision in zip(asked, decisions, strict=True):
            parent = self.model.members[one.lease.task]
            expected = self.model.judge(parent, one.spawn.sort.kind, one.spawn.key or "", now)
            assert told(decision) == expected, (one.spawn, decision, wishes)
            if decision.is_new:
                child = self.member(decision.task or 0, parent, one.spawn, now)
                child.asked = expected.asked
                child.status = Status.WAITING if child.asked else Status.PENDING
                self.model.add_child(child, one.spawn.scope)
        self.claim()

    @rule(names=names)
    def alias(self, names: list[tuple[int, str]]) -> None:
        """Tasks go by further keys, and ask for nothing."""
        if aliases := self.aliases(names):
            self.hands.do(lambda: take_aliases(aliases, self.hands.now))
            self.model.alias([(one.lease.task, one.alias.key) for one in aliases], self.hands.now)

    def aliases(self, names: list[tuple[int, str]]) -> list[NewAlias]:
        """Further keys of tasks that run."""
        running, found = list(self.leases), []
        for pick, key in names if running else ():
            lease = self.leases[running[-1 - pick % len(running)]]
            kind = KINDS[lease.kind]
            if self.model.members[lease.task].key != key:
                found.append(NewAlias(lease, Alias(identity(lease.kind, key), key), kind.unique, kind.fresh_for_ms))
        return found

    def child(self, lease: Lease, wish: Wish) -> Spawn:
        given = self.model.members[lease.task].bounds
        narrower = {
            "": None,
            "tasks": Bounds(given.max_depth, given.max_children, given.deadline_ms, min(2, given.max_tasks)),
            "depth": Bounds(min(2, given.max_depth), given.max_children, given.deadline_ms, given.max_tasks),
            "children": Bounds(given.max_depth, min(1, given.max_children), given.deadline_ms, given.max_tasks),
        }[wish.narrow]
        kind = KINDS[wish.kind]
        sort = Sort(
            kind=wish.kind, version=1, queue="default", band=band_of(0), unique=kind.unique,
            fresh_for_ms=kind.fresh_for_ms,
            policies=tuple((refused, "park") for refused in Rule) if kind.asks else (),
        )  # fmt: skip
        return Spawn(
            sort=sort, key=wish.key, identity=identity(wish.kind, wish.key), payload=b"{}",
            key_hash=key_hash(wish.key) if kind.by_key else None, bounds=narrower,
            scope=uuid.uuid4() if wish.narrow == "tasks" else None,
        )  # fmt: skip

    def member(self, task: int, parent: Member, child: Spawn, now: int) -> Member:
        scopes = parent.scopes if child.scope is None else (*parent.scopes, child.scope)
        return Member(
            task, child.sort.kind, child.key or "", parent.lineage, child.bounds or parent.bounds, now, parent, scopes
        )

    @rule(pick=numbers, status=some.sampled_from(ENDS))
    def end(self, pick: int, status: Status) -> None:
        """A task ends, or is cancelled."""
        if not self.leases:
            return
        task = list(self.leases)[pick % len(self.leases)]
        lease = self.leases.pop(task)
        if status is Status.CANCELLED:
            self.hands.do(lambda: task_actions.cancel(task, "not wanted", self.hands.now))
        else:
            assert self.hands.commit(lease, Finish("first", None, status, "because")) is True
        self.model.members[task].status, self.model.members[task].ended_at = status, self.hands.now

    @rule(pick=numbers, approved=some.sampled_from([True, True, False]))
    def answer(self, pick: int, approved: bool) -> None:
        """An operator approves of a task that waits for that, or cancels it."""
        waiting = [task for task, member in self.model.members.items() if member.status is Status.WAITING]
        if not waiting:
            return
        task, now = waiting[-1 - pick % len(waiting)], self.hands.now
        if approved:
            self.hands.do(lambda: task_actions.signal(task, "approved", b"true", now))
            self.claim()
            assert self.model.members[task].status is Status.RUNNING
        else:
            self.hands.do(lambda: task_actions.cancel(task, "not wanted", now))
            self.model.members[task].status, self.model.members[task].ended_at = Status.CANCELLED, now

    @rule(
        wishes=some.lists(wishes, min_size=1, max_size=4), names=names, pick=numbers, status=some.sampled_from(ENDS),
        ms=waits,
    )  # fmt: skip
    def work(self, wishes: list[Wish], names: list[tuple[int, str]], pick: int, status: Status, ms: int) -> None:
        """What goes on all the time: somebody spawns, somebody ends, and the same is asked for again."""
        self.spawn(wishes, names)
        self.answer(pick, approved=True)
        self.end(pick, status)
        self.hands.later(ms)
        self.spawn(wishes, [])

    @rule(pick=numbers, fresh=some.booleans())
    def reopen(self, pick: int, fresh: bool) -> None:
        """An operator opens an ended task again."""
        ended = [task for task, member in self.model.members.items() if member.status.is_terminal]
        if ended:
            task = ended[pick % len(ended)]
            expected = self.model.reopen(self.model.members[task])
            try:
                self.hands.do(lambda: task_actions.reopen(task, fresh=fresh, stage=None, forget=[], now=self.hands.now))
            except IllegalTransition:
                assert not expected
            else:
                assert expected
            self.claim()

    @rule(ms=waits)
    def pass_time(self, ms: int) -> None:
        self.hands.later(ms)

    def claim(self) -> None:
        """Everything that may run, runs."""
        for lease in self.hands.claim(self.worker):
            self.leases[lease.task] = lease
            self.model.members[lease.task].status = Status.RUNNING

    @invariant()
    def everything_is_counted(self) -> None:
        stored = self.hands.sql("SELECT id, parent, depth, children FROM onceward_task ORDER BY id")
        assert [tuple(row) for row in stored] == [
            (one.id, one.parent.id if one.parent else None, len(one.family) - 1, one.children)
            for one in sorted(self.model.members.values(), key=lambda one: one.id)
        ]
        for number, tasks in self.hands.sql("SELECT id, tasks FROM onceward_lineage"):
            assert tasks == self.model.counted[as_uuid(number)].tasks
        assert {tuple(row) for row in self.hands.sql("SELECT parent, child FROM onceward_link")} == self.model.links

    def teardown(self) -> None:
        report = verify(self.hands.session, self.hands.now)
        assert [breach.sentence for check in report.checks for breach in check.breaches] == []
        self.hands.session.close()


def told(decision: Decision) -> Verdict:
    """What the guard says, in the words of the model."""
    if decision.is_new:
        return Verdict(is_new=True, asked=frozenset(refused.rule for refused in decision.parked))
    refused = decision.refused
    return Verdict(task=decision.task) if refused is None else Verdict(rule=refused.rule, met=refused.existing)


QUICK = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],  # to shrink a failure takes minutes: add Phase.shrink when there is one
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def test_sqlite_decides_as_the_model_does() -> None:
    run_state_machine_as_test(Lineages, settings=QUICK)


@pytest.fixture
def postgres_lineages(emptying: Emptied) -> type[Lineages]:
    """The same machine, on one PostgreSQL database that is emptied before every example."""

    class PostgresLineages(Lineages):
        def session(self) -> Session:
            return on_postgres(emptying)

    return PostgresLineages


def test_postgres_decides_as_the_model_does(postgres_lineages: type[Lineages]) -> None:
    run_state_machine_as_test(postgres_lineages, settings=settings(QUICK, max_examples=12, stateful_step_count=20))


@pytest.mark.torture
def test_sqlite_decides_as_the_model_does_for_long() -> None:
    run_state_machine_as_test(
        Lineages, settings=settings(QUICK, max_examples=3_000, stateful_step_count=40, derandomize=False)
    )


@pytest.mark.torture
def test_postgres_decides_as_the_model_does_for_long(postgres_lineages: type[Lineages]) -> None:
    run_state_machine_as_test(
        postgres_lineages, settings=settings(QUICK, max_examples=300, stateful_step_count=40, derandomize=False)
    )
