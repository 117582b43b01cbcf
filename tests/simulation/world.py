"""A whole world in one thread: processes, a database, time, and what goes wrong, all of it decided by one seed.

The world runs one piece of work at a time, of whichever process it likes: a turn of an event loop, a transaction of a
committer, a look of a keeper, a stage. Between them, and inside each transaction, it may let things go wrong. A process
that sleeps inside such a piece (to try a transaction again, say) lets the world go on around it.

Real: all code of the engine from `WorkerProcess` and `App` down to every SQL statement, and SQLite. Simulated: time,
chance, threads, the event loop's clock, presence files, wake-ups, the way to the database, and its loss of commits. Not
simulated: supervisors, disposable processes, a disk that lies, and a COMMIT that is still in flight while its process
asks whether it happened; those are for tests with real processes and servers.
"""

from __future__ import annotations

import random
from asyncio import events
from collections import Counter
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import apsw

from onceward import App, Context, Retryable
from tests.simulation import stand_ins, work
from tests.simulation.checks import Checks
from tests.simulation.database import Crashed, Database, SimulatedSession, Trouble
from tests.simulation.ledger import Ledger, Truth, Violated
from tests.simulation.machine import Machine, Worker, app_for
from tests.simulation.plan import Plan
from tests.simulation.programs import Program

START_MS = 1_767_225_600_000
DEEPEST = 6
"""How many pieces of work may be asleep inside each other; beyond that one only waits."""
REFUSALS = (ValueError, apsw.BusyError, apsw.CantOpenError, apsw.CorruptError, apsw.FullError, apsw.IOError)
"""What a row of the application may be refused with."""
MOST_STEPS = 40_000
LONGEST_MS = 1_800_000
"""How much time may pass until everything is done, once nothing goes wrong any more."""


class World:
    """One seed: a life from the first process to the last."""

    def __init__(self, seed: int, database: Database, plan: Plan | None = None) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.plan = Plan.of(self.chance) if plan is None else plan
        self._chance_of_writes = random.Random(f"writes {seed}")  # of its own: other worlds stay as they were
        self._troubles_writes = self._chance_of_writes.random() < 0.4
        self.ms = 1_000_000
        """What every monotonic clock shows."""
        self._ahead_ms = START_MS - self.ms + self.chance.randrange(-120_000, 120_000)
        self.database = database
        database.empty()
        self.ledger = Ledger(self)
        self.checks = Checks(self)
        self.is_calm = False
        """Whether nothing goes wrong any more."""
        self.is_restored = False
        self.has_odd_clocks = False
        self.violation: Violated | None = None
        self.history: list[tuple[int, str, str]] = []
        self.faults: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.sessions: list[SimulatedSession] = []
        self.presences: dict[str, Worker] = {}
        self.machines: list[Machine] = []
        self.acting: Any = None
        """The machine whose work is being done."""
        self.thread = 0
        self.opening: Any = None
        """The machine whose program is being started."""
        self._copy: tuple[bytes, Truth] | None = None
        self._depth = 0
        self._numbered = 0
        self._revive_at: list[int] = []
        self._surroundings = copy_context()
        stand_ins.enter(self)
        for _ in range(self.plan.workers):
            self.start_worker()
        self.program = Program(self, "program", self._app_for)
        self.machines.append(self.program)

    @property
    def wall_ms(self) -> int:
        """What a clock on the wall shows."""
        return self.ms + self._ahead_ms

    # A whole life

    def run(self, *, must_finish: bool) -> None:
        """Let things go wrong for a while; then, if that is asked for, let all be well until everything is done."""
        while self.counts["steps"] < self.plan.steps:
            self.step()
        self.checks.look_at_everything()
        if must_finish:
            self.finish()
            self.checks.look_at_everything()

    def finish(self) -> None:
        """Let nothing go wrong any more: then everything that was asked for must come to its end."""
        self.is_calm = True
        self.tell("all is well from here on")
        for machine in self.machines:
            machine.paused_until = 0
        self.program.settle_down()
        deadline = self.ms + LONGEST_MS
        while left := self.checks.unfinished():
            for _ in range(20):
                self.step()
            if self.ms > deadline:
                self.broken("stuck", f"nothing is wrong any more, and these do not end: {left[:5]}")

    def close(self) -> None:
        """Let everybody go."""
        self.is_calm = True
        for machine in self.machines:
            machine.die()

    def _app_for(self, machine: Machine) -> App:
        return app_for(self.plan.app, machine)

    def start_worker(self) -> Worker:
        """A new worker process."""
        host = f"host{self.chance.randrange(self.plan.hosts)}"
        worker = Worker(self, f"worker{self._numbered + 1}", self._app_for, host=host)
        self.machines.append(worker)
        self.tell("starts", worker)
        return worker

    # What processes ask of it

    def next_number(self) -> int:
        """A number for a new machine."""
        self._numbered += 1
        return self._numbered

    def sleep(self, ms: int) -> None:
        """Let a process sleep in the middle of something: the world goes on around it."""
        until, machine = self.ms + ms, self.acting
        if self._depth >= DEEPEST:
            self.ms = until
        else:
            self._depth += 1
            while not machine.is_dead and (self.ms < until or machine.paused_until > self.ms):
                self.step(max(until, machine.paused_until))
            self._depth -= 1
        if machine.is_dead:
            raise Crashed

    def wait_until(self, is_done: Callable[[], bool]) -> None:
        """Let a thread of a process wait for what another one does."""
        machine = self.acting
        self._depth += 1
        while not machine.is_dead and (machine.paused_until > self.ms or not is_done()):
            if machine.has_ended:
                machine.die()  # a thread does not keep its process
            else:
                self.step()
        self._depth -= 1
        if machine.is_dead:
            raise Crashed

    def committed(self, machine: Machine) -> None:
        """A transaction is committed, whether its process will hear of it or not."""
        self.counts["transactions"] += 1
        if leases := self.ledger.believe():
            self.checks.look_at_claim(leases)
            if not self.is_calm and any(lease.fence > 1 for lease in leases):
                self._wake_those_who_had_it()
        for other in self.machines:
            if other is not machine and isinstance(other, Worker) and self.chance.random() < 0.5:
                other.has_heard = True

    def began(self, ctx: Context[Any]) -> None:
        """A stage begins to run."""
        self.counts["executions"] += 1
        lease = ctx._lease
        self.tell(f"runs {lease.kind} {lease.task} {ctx._stage.name} (fence {lease.fence})")
        self.checks.look_at_beginning(lease, ctx._stage.name)

    def fate_of_stage(self) -> int:
        """How long a stage takes, in milliseconds, if it does not fail here."""
        roll = self.chance.random()
        if self.is_calm or roll >= self.plan.stages:
            return 0 if roll < 0.7 else self.chance.randrange(200)
        roll /= self.plan.stages
        if roll < 0.5:
            return self.chance.randrange(10_000)
        if roll < 0.65:
            self.struck("a stage takes long", self.acting)
            return self.chance.randrange(3 * work.LEASE_MS)
        if roll < 0.85:
            self.struck("a stage fails", self.acting)
            raise RuntimeError("no luck")
        if roll < 0.95:
            self.struck("a stage fails", self.acting)
            raise Retryable("later", after="3s")
        self.struck("a stage kills its process", self.acting)
        return work.DEADLY

    def fate_of_write(self) -> None:
        """Perhaps refuse a row of the application, or let it take long, in the middle of a transaction."""
        chance = self._chance_of_writes
        if self.is_calm or not self._troubles_writes or (roll := chance.random()) > 0.15:
            return
        if roll < 0.1:
            self.struck("a write is refused", self.acting)
            raise chance.choice(REFUSALS)("simulated: no such row")
        self.struck("a write takes long", self.acting)
        self.ms += chance.randrange(100, 8_000)

    # What goes wrong

    def trouble_for_transaction(self) -> Trouble | None:
        """What will happen to a transaction that begins now."""
        return None if self.is_calm else self.plan.trouble_for_transaction(self.chance)

    def is_struck(self, what: str) -> bool:
        """Whether the connection is lost here."""
        if self.is_calm or self.chance.random() >= self.plan.trouble * 0.1:
            return False
        self.struck(f"connection lost at {what}", self.acting)
        return True

    def struck(self, kind: str, machine: Machine | None = None) -> None:
        """Something goes wrong."""
        self.faults[kind] += 1
        self.tell(f"! {kind}", machine)

    def pause(self, machine: Machine) -> None:
        """Freeze a process: often until others can have taken its work, or for a shorter or longer time."""
        shortest, longest = self.chance.choice(((0, 3 * work.LEASE_MS), (work.LEASE_MS, 2 * work.LEASE_MS)))
        machine.paused_until = max(machine.paused_until, self.ms + self.chance.randrange(shortest, longest))

    def let_reply_travel(self) -> None:
        """Let the world go on while the reply to a commit is on its way, where that takes long."""
        if self.plan.commit_ms and not self.is_calm:
            self.counts["slow commits"] += 1
            self.sleep(self.plan.commit_ms)

    def freeze_before_writing(self, machine: Machine) -> None:
        """Perhaps freeze a process that is about to write: when it does, others may have taken its work."""
        if not self.is_calm and self.chance.random() < self.plan.freezes:
            self.struck("pause before a transaction", machine)
            self.pause(machine)
            self.sleep(0)

    def _wake_those_who_had_it(self) -> None:
        """Somebody has taken work that others had begun: the worst moment for one of those to go on."""
        for machine in self.machines:
            if machine.paused_until > self.ms and self.chance.random() < 0.5:
                machine.paused_until = self.ms
                self.counts["processes that woke when others had just taken over"] += 1
                self.tell("wakes up", machine)

    def _let_something_happen(self) -> None:
        kind = self.chance.choice(self.plan.kinds)
        match kind:
            case "clock step" if self.faults[kind] < 2:
                self.struck(kind)
                self.has_odd_clocks = True
                self._ahead_ms += self.chance.choice((-600_000, -60_000, -60_000, -5_000, 5_000, 60_000, 600_000))
            case "twice in line":
                self._stand_twice()
            case "copy" if "restore" in self.plan.kinds and self.faults["restore"] < 3:
                self.make_copy()
            case "restore" if self._copy is not None and self.faults[kind] < 3:
                self.restore_copy()
            case "kill" | "pause" | "stop" | "skew" | "deaf":
                workers = [one for one in self.machines if isinstance(one, Worker) and not one.is_dead]
                if workers:
                    self._happens_to(self.chance.choice(workers), kind)

    def _happens_to(self, worker: Worker, kind: str) -> None:
        self.struck(kind, worker)
        match kind:
            case "kill":
                worker.die()
            case "pause":
                self.pause(worker)
            case "stop":
                worker.request_stop()
            case "skew":
                self.has_odd_clocks = True
                worker.skew_ms = self.chance.randrange(-2_000, 2_000)
            case "deaf":
                worker.has_heard = False

    def _stand_twice(self) -> None:
        """A task is delivered once more: it stands a second time in the line that it had at first, whatever has become
        of it, and whatever it has to pass by now."""
        if rows := self.database.ask("SELECT id, kind, queue, band, rank FROM onceward_task ORDER BY id"):
            self.struck("twice in line")
            task, kind, queue, band, rank = self.chance.choice(rows)
            [(seq,)] = self.database.ask("SELECT coalesce(max(seq), 0) + 1 FROM onceward_ready")
            self.database.ask(
                "INSERT INTO onceward_ready (lane, band, rank, at, seq, task) VALUES (?, ?, ?, ?, ?, ?)",
                f"{queue}:{kind}", band, rank, self.wall_ms, seq, task,
            )  # fmt: skip

    def make_copy(self) -> None:
        """Keep the database as it is now, as a standby or a backup does."""
        self._copy = (self.database.copy(), self.ledger.truth.copy())
        self.tell("a copy of the database is made")

    def restore_copy(self) -> None:
        """The copy takes the place of the database, and every connection is gone: a failover to what was behind."""
        assert self._copy is not None
        self.struck("restore")
        copy, truth = self._copy
        before = self.ledger.truth
        self.counts["accepted tasks lost by a restore"] += len(before.accepted - truth.accepted)
        self.counts["commits lost by a restore"] += before.commits - truth.commits
        self.is_restored = True
        self.database.restore(copy)
        self.ledger.truth = truth.copy()
        for machine in self.machines:
            for session in machine.sessions:
                session.cut()

    # Time, and who is next

    def step(self, until: int | None = None) -> None:
        """Run one piece of work, or let time pass to the next one, but not beyond a moment."""
        self.counts["steps"] += 1
        if self.violation is not None:  # it was raised in a stage, whose errors are its own
            raise self.violation
        if self.counts["steps"] > MOST_STEPS:
            self.broken("stuck", "nothing comes to an end")
        if not self.is_calm and self.chance.random() < self.plan.events and self.counts["steps"] < self.plan.steps:
            self._let_something_happen()
        if self._revive_at and self._revive_at[0] <= self.ms:
            self._revive_at.pop(0)
            self.start_worker()
        found: list[Callable[[], None]] = []
        for machine in self.machines:
            if machine.paused_until <= self.ms and not machine.is_dead:
                found += machine.steps()
        if found:
            self._run_apart(self.chance.choice(found))
            if self.chance.random() < 0.3:
                self.ms += self.chance.randrange(20 if self.is_calm or self.chance.random() < 0.97 else 8_000)
        else:
            times = [max(at, one.paused_until) for one in self.machines if not one.is_dead and (at := one.next_at())]
            times += self._revive_at[:1]
            if until is not None:
                times.append(until)
            self.ms = max(self.ms + 1, min(times, default=self.ms + 1_000))
        if self.acting is None:
            self._replace_the_dead()

    def _run_apart(self, piece: Callable[[], None]) -> None:
        """As in a process of its own: whoever sleeps below has context variables and an event loop that are none of its
        business."""
        below = events._get_running_loop()
        events._set_running_loop(None)
        try:
            self._surroundings.copy().run(piece)
        finally:
            events._set_running_loop(below)

    def _replace_the_dead(self) -> None:
        for machine in [one for one in self.machines if one.is_dead or one.has_ended]:
            self.machines.remove(machine)
            machine.die()
            self._revive_at.append(self.ms + self.chance.randrange(1, 20_000))
            self._revive_at.sort()

    # What is said

    def broken(self, kind: str, sentence: str) -> None:
        """A promise does not hold."""
        if self.violation is None:
            self.violation = Violated(kind, sentence)
            self.tell(f"VIOLATION: {sentence}")
        raise self.violation

    def unexpected(self, error: BaseException | None, where: str) -> None:
        """Something was raised that nobody expected."""
        if isinstance(error, Violated):
            raise error
        self.broken("unexpected", f"{where}: {error!r}")

    def tell(self, what: str, machine: Machine | None = None) -> None:
        """Write a line of the history."""
        actor = machine or self.acting
        self.history.append((self.ms, "world" if actor is None else actor.name, what))
