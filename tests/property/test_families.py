"""Families, pauses, a budget, a schedule, pruning, and clocks that are set: the store does what a model says."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as some
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from onceward import App, Budget, Cron, IllegalTransition, Limits, Payload, Pipeline, Status
from onceward.model import gates
from onceward.model.budget import Bill, Charge
from onceward.model.payload import identity
from onceward.model.source import GateLimits
from onceward.model.task import Commit, Finish, HandOver, Lease, Move, NewTask, Release, TryAgain, band_of, lane_of
from onceward.store.attempts import claims, commits
from onceward.store.drivers.session import Session
from onceward.store.governance import budget_waits
from onceward.store.lineage import pause_lineage
from onceward.store.lineage.trees import Head
from onceward.store.lines import enqueue
from onceward.store.lines.memory import LineMemory
from onceward.store.operations import pruning
from onceward.store.operations import task_actions as operate
from onceward.store.verify.verify import verify
from onceward.worker.scheduler import fire_due
from tests.proof.tally import Tally
from tests.property.databases import Emptied, in_memory, on_postgres
from tests.property.family_model import BUDGET, MINUTE_MS, Member, World
from tests.property.test_engine import QUICK
from tests.store.children import DEFAULTS, child, together
from tests.store.conftest import Hands

ALL = 10_000
ESTIMATE = 20
DEEP = DEFAULTS.replaced(Limits(max_depth=60))
"""No family here comes to its limits: they have a model of their own."""
REQUESTS = [
    "enqueue", "costly", "costly", "cancel", "retry", "fresh", "pause", "resume", "resume", "raise", "raise",
    "sweep", "sweep", "prune", "prune",
]  # fmt: skip
numbers = some.integers(0, 11)


class Note(Payload, kind="note"):
    """The work of the schedule."""


usd = Budget("usd", 1)
RULE = usd.rule
notes = Pipeline(Note)


@notes.stage
def only(ctx: Any) -> None:
    """Nothing: the store is driven by hand."""


class Families(RuleBasedStateMachine):
    """The store, driven by hand, beside the model."""

    met: ClassVar[Counter[str]] = Counter()
    """What has happened in all runs."""

    def __init__(self) -> None:
        super().__init__()
        self.hands = Hands(self.session())
        self.schedules = App("sqlite:///:memory:", [notes], schedules=[Cron("* * * * *", Note())])._schedules
        self.workers = [self.hands.worker()]
        self.leases: list[Lease] = []
        self.keys = 0
        self.latest = self.hands.now
        self.met["run"] += 1

    def session(self) -> Session:
        """A connection to an empty, migrated database."""
        self.store, session = in_memory()
        return session

    @initialize(ceiling=some.sampled_from([ESTIMATE, 2 * ESTIMATE + 5]), costly=some.integers(1, 4))
    def begin(self, ceiling: int, costly: int) -> None:
        now = self.hands.now
        self.world = World(ESTIMATE, ceiling, now - now % MINUTE_MS + MINUTE_MS)
        self.hands.do(lambda: budget_waits.set_limit("usd", "", ceiling, "ant", now))
        fire_due(self.hands.session, self.schedules, now)
        for number in range(costly + 2):
            self.enqueue(costly=number < costly)

    # What clients and operators do

    @rule(
        what=some.sampled_from(
            [
                "enqueue",
                "costly",
                "costly",
                "cancel",
                "retry",
                "fresh",
                "pause",
                "pause",
                "resume",
                "raise",
                "sweep",
                "prune",
            ]
        ),
        pick=numbers,
    )
    def ask(self, what: str, pick: int) -> None:
        members = list(self.world.members.values())
        member = members[pick % len(members)] if members else None
        match what:
            case "enqueue" | "costly":
                self.enqueue(costly=what == "costly")
            case "raise":
                self.world.ceiling += pick * ESTIMATE // 4
                self.wake(lambda: self.hands.do(
                    lambda: budget_waits.set_limit("usd", "", self.world.ceiling, "ant", self.hands.now)
                ))  # fmt: skip
            case "sweep":
                self.sweep()
            case "prune":
                self.prune(pick)
            case _ if member is not None:
                self.operate(what, member)

    def enqueue(self, *, costly: bool) -> None:
        self.keys += 1
        lineage = uuid.uuid4()
        task = NewTask(
            kind="note", version=1, queue="default", band=band_of(0), key=str(self.keys),
            identity=identity("note", str(self.keys)), payload=b"{}", lineage=lineage, due_at=self.hands.now,
            created_at=self.hands.now, gates=f"{gates.BUDGET}usd*1" if costly else None,
            estimate=ESTIMATE if costly else None,
        )  # fmt: skip
        [number] = self.hands.do(lambda: enqueue.enqueue([task], self.hands.now))
        self.world.members[number] = Member(number, lineage, costly=costly, due_at=self.hands.now)

    def operate(self, what: str, member: Member) -> None:
        now, world = self.hands.now, self.world
        head = Head(member.lineage, member.id, len(member.above), member.parent is None)
        match what:
            case "cancel":
                expect = member.is_open
                assert self.is_allowed(lambda: operate.cancel(member.id, "not wanted", now)) == expect
                if expect:
                    world.ended(member, Status.CANCELLED, now)
            case "retry" | "fresh":
                expect = not member.is_open or member.status is Status.WAITING
                fresh = what == "fresh"
                again = self.is_allowed(lambda: operate.reopen(member.id, fresh=fresh, stage=None, forget=[], now=now))
                assert again == expect
                if expect:
                    world.reopened(member, fresh, now)
            case "pause":
                expect = world.may_pause(member)
                assert self.is_allowed(lambda: pause_lineage.pause(head, now)) == expect
                if expect:
                    self.met["paused"] += 1
                    member.paused = True
                    for one in world.below(member):
                        one.paused = one.paused or one.is_open
            case "resume":
                expect = world.may_resume(member)
                assert self.is_allowed(lambda: pause_lineage.resume(head, now)) == expect
                if expect:
                    self.met["resumed"] += 1
                    for one in world.below(member):
                        one.paused = False

    def is_allowed(self, operation: Any) -> bool:
        try:
            self.hands.do(operation)
        except IllegalTransition:
            return False
        return True

    def wake(self, act: Any) -> None:
        """As many of those that wait for the budget go on as there is enough for, the oldest first."""
        waiting = sorted(one.id for one in self.world.waiting_for(BUDGET))
        woken = waiting[: self.world.fitting]
        self.met["woken for the budget"] += len(woken)
        assert act() == len(woken)
        for task in woken:
            self.world.members[task].goes_back(Status.PENDING, self.hands.now)

    def sweep(self) -> None:
        """Settle what lost attempts have left behind, and wake whom there is enough for."""
        spent = self.world.spent
        self.world.swept()
        self.met["swept"] += self.world.spent > spent
        self.wake(lambda: budget_waits.sweep_budgets(self.hands.session, self.hands.now))

    def prune(self, pick: int) -> None:
        """Forget what ended some time ago."""
        before = self.hands.now + 1 - 500 * (pick % 3)
        gone = {
            one.id for one in self.world.members.values() if one.is_over(before) and not self.is_asked_for(one, before)
        }
        assert pruning.prune(self.hands.session, before, self.hands.now).tasks == len(gone)
        self.met["pruned"] += len(gone)
        self.leases = [lease for lease in self.leases if lease.task not in gone]
        for task in gone:
            del self.world.members[task]

    def is_asked_for(self, one: Member, before: int) -> bool:
        """Whether the task that has spawned one is there, and may still ask what has become of it."""
        return one.parent is not None and one.parent.id in self.world.members and not one.parent.is_over(before)

    # What workers do

    @rule(
        pick=numbers,
        moves=some.lists(some.tuples(numbers, some.integers(0, 6), some.integers(0, ESTIMATE)), max_size=6),
        ms=some.integers(0, 2_000),
    )
    def work(self, pick: int, moves: list[tuple[int, int, int]], ms: int) -> None:
        """Claim all there is, then end attempts in this way and that."""
        self.claim(self.workers[pick % len(self.workers)])
        for place, choice, charge in moves:
            held = [lease for lease in self.leases if self.world.members[lease.task].token == lease.token]
            among = self.leases if place > 8 or not held else held
            if among:
                self.commit(among[-1 - place % len(among)], choice, charge, ms)

    def memory(self) -> LineMemory:
        sweeps = self.hands.session.dialect == "postgres"
        return LineMemory(
            (lane_of("default", "note"),), lambda _: GateLimits(), sweeps, budgets_of=lambda _, __: (RULE,)
        )

    def claim(self, worker: int) -> None:
        world, now = self.world, self.hands.now
        free = [one for one in world.members.values() if one.status in (Status.PENDING, Status.RETRYABLE)]
        runnable = [one for one in free if not one.paused]
        # What stood in line once was due by some clock, and stays there if the clock is set back.
        must = {one.id for one in runnable if one.due_at <= now}
        may = {one.id for one in runnable if one.due_at <= self.latest}
        room = world.fitting
        found = self.hands.do(lambda: claims.claim(self.memory(), worker, ALL, now, slots=ALL)).leases
        got = {lease.task for lease in found}
        costly = {one.id for one in runnable if one.costly}
        assert len(got) == len(found)
        assert must - costly <= got <= may
        assert min(room, len(must & costly)) <= len(got & costly) <= room
        for lease in found:
            member = world.members[lease.task]
            member.status, member.token, member.worker = Status.RUNNING, lease.token, worker
            if member.costly:
                world.reserved[member.id, lease.token] = ESTIMATE
        self.leases += found
        turned_away = [one for one in runnable if one.costly and one.id not in got]
        for member in turned_away:
            [(status, waiting_for)] = self.hands.sql(
                "SELECT status, waiting_for FROM onceward_task WHERE id = ?", member.id
            )
            assert member.id not in must or (status, waiting_for) == (int(Status.WAITING), BUDGET)
            if waiting_for is not None:
                self.met["waits for the budget"] += 1
                member.status, member.waiting_for = Status.WAITING, BUDGET

    def commit(self, lease: Lease, choice: int, charge: int, ms: int) -> None:
        world, now = self.world, self.hands.now
        member = world.members[lease.task]
        later, stage, following = now + ms, f"stage {member.stage}", f"stage {member.stage + 1}"
        moves: list[Move] = [
            Finish(stage, b"1", Status.SUCCEEDED, None),
            Finish(stage, None, Status.FAILED, "no"),
            TryAgain(stage, later, "no luck"),
            Release(),
            HandOver(stage, b"1", following, "default", joins=True),
            HandOver(stage, b"1", following, "default", joins=True),
            HandOver(stage, b"1", following, "default", joins=True),
        ]
        move = moves[choice]
        spawned = [child(f"{self.keys + n + 1}") for n in range(choice - 4)] if choice > 4 else []
        self.keys += len(spawned)
        bill = Bill((Charge("usd", charge),), frees=True) if member.costly else None
        spawns = together(f"of {lease.task}", *spawned, defaults=DEEP) if spawned else None
        wanted = Commit(lease, move, (), spawns, bill=bill)
        [accepted] = self.hands.do(lambda: commits.commit([wanted], now))
        expect = member.token == lease.token
        assert bool(accepted) == expect
        if not expect:
            self.met["refused"] += 1
            return
        self.met["committed"] += 1
        if member.costly:  # what others of its task have left behind is otherwise left to the sweep
            world.settled(member, charge)
        for one in spawned:
            [(task,)] = self.hands.sql("SELECT id FROM onceward_task WHERE key = ?", one.key)
            world.members[task] = Member(task, member.lineage, member, due_at=now, paused=member.paused)
        match move:
            case Finish():
                self.met["ends a join"] += any(one.joins == {member.id} for one in world.members.values())
                world.ended(member, move.status, now)
            case TryAgain():
                member.goes_back(Status.RETRYABLE, later)
            case Release():
                member.goes_back(Status.PENDING, member.due_at)
            case HandOver():
                world.handed_over(member, now)
                self.met["joins"] += bool(member.joins)

    # What goes wrong, and what goes on

    @rule(pick=numbers)
    def die(self, pick: int) -> None:
        """A worker dies, and nothing had begun in it."""
        worker = self.workers.pop(pick % len(self.workers))
        held = [one for one in self.world.members.values() if one.worker == worker]
        reclaimed = self.hands.bury(worker)
        assert reclaimed is not None
        assert reclaimed.released == len(held)
        for member in held:
            member.goes_back(Status.PENDING, self.hands.now)
        self.workers += [self.hands.worker(), self.hands.worker()]

    @rule(ms=some.sampled_from([0, 500, 3_000, 40_000, 130_000, -700, -5_000]))
    def set_clock(self, ms: int) -> None:
        """Time passes, or the clock is set back; then somebody looks after budgets and at the schedule."""
        now = self.hands.later(ms)
        self.latest = max(self.latest, now)
        self.sweep()
        is_due = self.world.next_at <= now
        look = fire_due(self.hands.session, self.schedules, now)
        assert look.fired == is_due, "one for all the times that were missed"
        self.met["fired"] += is_due
        if is_due:
            self.world.next_at = now - now % MINUTE_MS + MINUTE_MS
            [(task, lineage)] = self.hands.sql("SELECT id, lineage FROM onceward_task ORDER BY id DESC LIMIT 1")
            assert task not in self.world.members
            raw = lineage if isinstance(lineage, uuid.UUID) else uuid.UUID(bytes=bytes(lineage))
            self.world.members[task] = Member(task, raw, due_at=now)

    # What must be true

    @invariant()
    def the_store_is_where_the_model_is(self) -> None:
        rows = self.hands.sql("SELECT id, status, run, waiting_for, paused FROM onceward_task")
        stored = {task: facts for task, *facts in map(list, rows)}
        assert stored == {
            one.id: [int(one.status), one.run, one.waiting_for, int(one.paused)] for one in self.world.members.values()
        }
        for spent, reserved in self.hands.sql("SELECT spent, reserved FROM onceward_budget"):
            assert (spent, reserved) == (self.world.spent, sum(self.world.reserved.values()))
            assert spent + reserved <= self.world.ceiling

    def teardown(self) -> None:
        breaches = [breach.sentence for check in verify(self.hands.session, self.hands.now).checks
                    for breach in check.breaches]  # fmt: skip
        assert not breaches, breaches
        self.hands.session.close()


OFTEN = {"run", "committed", "refused", "joins", "paused", "waits for the budget", "fired"}
EVERYTHING = OFTEN | {"ends a join", "resumed", "woken for the budget", "swept", "pruned"}


def explore(machine: type[Families], store: str, **wanted: Any) -> None:
    """Run it, see that everything was met that can be expected in so many runs, and keep the counts."""
    Families.met.clear()
    run_state_machine_as_test(machine, settings=settings(QUICK, **wanted))
    met = Families.met
    assert {what for what, count in met.items() if count} >= (EVERYTHING if met["run"] > 50 else OFTEN)
    Tally(
        matrix="model",
        fault="families, pauses, budget, schedule and clocks, beside a model",
        store=store,
        faults=0,
        seeds=met["run"],
    ).keep()


@pytest.fixture
def on_emptied(emptying: Emptied) -> type[Families]:
    """The same machine, on one PostgreSQL database that is emptied before every example."""

    class OnPostgres(Families):
        def session(self) -> Session:
            return on_postgres(emptying)

    return OnPostgres


def test_sqlite_does_what_the_model_of_families_says() -> None:
    explore(Families, "sqlite", max_examples=25)


def test_postgres_does_what_the_model_of_families_says(on_emptied: type[Families]) -> None:
    explore(on_emptied, "postgres", max_examples=12)


@pytest.mark.torture
def test_sqlite_does_what_the_model_of_families_says_for_long() -> None:
    explore(Families, "sqlite", max_examples=2_000, stateful_step_count=60, derandomize=False)


@pytest.mark.torture
def test_postgres_does_what_the_model_of_families_says_for_long(on_emptied: type[Families]) -> None:
    explore(on_emptied, "postgres", max_examples=200, stateful_step_count=60, derandomize=False)
