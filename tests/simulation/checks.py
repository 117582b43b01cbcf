"""What is looked at after a claim, when a stage begins, and at the end: past the engine, and with its `verify`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from onceward.model.pause import Pauses
from onceward.model.task import Lease, Move, Release, lane_of
from onceward.store.verify.verify import verify
from tests.simulation import work
from tests.simulation.database import SimulatedSession

if TYPE_CHECKING:
    from tests.simulation.world import World

HOUR_MS = 3_600_000
HEEDED_WITHIN_MS = 5_000
"""After so long every worker has heard of a pause."""
_FIRED = "SELECT CAST(payload AS text), scheduled_at FROM onceward_task WHERE scheduled_at IS NOT NULL"
_OPEN_TWICE = """
    SELECT 1 FROM onceward_task WHERE kind IN ('shared', 'brief') AND status < 4 GROUP BY identity HAVING count(*) > 1
    UNION ALL
    SELECT 1
    FROM onceward_alias a
    JOIN onceward_task first ON first.id = a.task AND first.status < 4
    JOIN onceward_task other ON other.identity = a.identity AND other.status < 4 AND other.id <> first.id
    WHERE a.everywhere = 1
"""
_FOLLOWED = "SELECT CAST(payload AS text) FROM onceward_task WHERE kind = 'closing'"
_OPEN_IN_BATCH = """
    SELECT t.id FROM onceward_task t JOIN onceward_batch b ON b.id = t.batch WHERE b.name = ? AND t.status < 4
"""


class Checks:
    """The checks of one world, apart from those that its ledger makes with every commit."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._billed = 0.0
        self._billed_by_the_hour = 0.0
        self._first_hour = world.wall_ms // HOUR_MS
        self._passed: list[int] | None = []
        """When tasks have passed the source with a rate; None where that says nothing: a pass was given back."""

    def _check(self, is_so: bool, kind: str, sentence: str) -> None:
        if not is_so:
            self._world.broken(kind, sentence)

    # While things happen

    def look_at_beginning(self, lease: Lease, stage: str) -> None:
        """A stage begins: those before it are durable. (After a restore, until its worker has noticed, anything goes:
        what must not happen then is that it is accepted.)"""
        names = work.STAGES[lease.kind]
        if stage not in names:  # what is done at expiry comes after any of them
            return
        missing = set(names[: names.index(stage)]) - set(self._world.ledger.truth.done.get((lease.task, lease.run), ()))
        if not self._world.is_restored:
            self._check(not missing, "order", f"task {lease.task} runs {stage}, and {missing} is not durable")

    def bill(self, usd: float) -> None:
        """An outside service was paid, and says so, whatever becomes of who has paid it."""
        self._billed += usd
        limit = self._world.program.limits_usd[work.usd.name]
        if not self._world.is_restored:
            self._check(self._billed <= limit, "budget", f"{self._billed} USD were spent of {limit}")

    def bill_by_the_hour(self, usd: float) -> None:
        """The same, of a budget that begins anew each hour."""
        world = self._world
        self._billed_by_the_hour += usd
        hours = world.wall_ms // HOUR_MS - self._first_hour + 1
        limit = world.program.limits_usd[work.allowance.name] * hours
        if not (world.is_restored or world.has_odd_clocks):
            self._check(
                self._billed_by_the_hour <= limit,
                "budget",
                f"{self._billed_by_the_hour} USD were spent in {hours} hours of {limit}",
            )

    def look_at_claim(self, leases: Sequence[Lease]) -> None:
        """Tasks were claimed: none that an operator has paused, with its lineage or with others of its kind."""
        held = [
            lease.task
            for lease in leases
            if self._world.database.ask("SELECT 1 FROM onceward_task WHERE id = ? AND paused = 1", lease.task)
        ]
        self._check(not held, "pause", f"tasks {held} were claimed while they are paused")
        world = self._world
        since = {} if world.is_restored or not world.plan.is_prompt else world.program.paused_since
        heeded = Pauses(frozenset(scope for scope, at in since.items() if world.ms - at > HEEDED_WITHIN_MS))
        held = [lease.task for lease in leases if heeded.hold(lane_of(lease.queue, lease.kind), lease.gates)]
        self._check(not held, "pause", f"tasks {held} were claimed in spite of {sorted(heeded.scopes)}")
        self.look_at_gates(leases)

    def look_at_gates(self, leases: Sequence[Lease]) -> None:
        """Tasks were claimed: no more are inside of a source than it lets in, and no more have passed than its rate
        allows."""
        passing = [lease for lease in leases if lease.gates is not None and "api" in lease.gates]
        if not passing:
            return
        [(inside,)] = self._world.database.ask(
            "SELECT count(*) FROM onceward_task WHERE status = 1 AND gates LIKE '%api%'"
        )
        self._check(inside <= work.CONCURRENCY, "source", f"{inside} tasks are inside of a source that lets in two")
        if self._passed is None or self._world.has_odd_clocks or self._world.is_restored:
            return
        self._passed += [self._world.ms] * len(passing)
        for count, first in enumerate(reversed(self._passed), 1):
            within_ms = self._world.ms - first
            is_allowed = count <= work.BURST + within_ms / work.INTERVAL_MS
            self._check(is_allowed, "source", f"{count} tasks have passed a source within {within_ms} ms")

    def look_at_commit(self, lease: Lease, move: Move) -> None:
        """A move was accepted: nobody has gone on before those for whom he waits."""
        if isinstance(move, Release) and lease.gates is not None:
            self._passed = None
        stage = getattr(move, "stage", None)
        if stage == "gather":
            self._have_ended(lease, "SELECT id FROM onceward_task WHERE parent = ? AND status < 4", lease.task)
        elif stage == "close":
            batch = self._world.plan.app._registry[lease.kind]._read(lease.payload, lease.version).name
            self._have_ended(lease, _OPEN_IN_BATCH, batch)

    def _have_ended(self, lease: Lease, question: str, *params: Any) -> None:
        """What an operator has opened again may be open."""
        found = {row[0] for row in self._world.database.ask(question, *params)} - self._world.ledger.truth.reopened
        self._check(
            not found, "wait", f"task {lease.task} went on while {sorted(found)}, for which it waits, were open"
        )

    # At the end

    def unfinished(self) -> list[Any]:
        """What was asked for and has not ended; of schedules that go on for ever, what was due until now."""
        world = self._world
        rows = world.database.ask(
            "SELECT id, kind, status, stage, waiting_for FROM onceward_task WHERE status < 4 AND kind <> 'tick'"
        )
        ticks = world.database.ask(
            "SELECT id, kind, status, stage FROM onceward_task WHERE status < 4 AND kind = 'tick' AND created_at < ?",
            world.wall_ms - 120_000,
        )
        return [*rows, *ticks] or ([] if world.program.is_done else ["the program"])

    def look_at_everything(self) -> None:
        """The whole database: with the engine's own eyes, and beside the ledger."""
        world = self._world
        session = SimulatedSession(world.program, is_spared=True)
        for check in verify(session, world.program.clock.now()).checks:
            for breach in check.breaches:
                world.broken("verify", f"{check.name}: {breach.sentence}")
        self._compare_effects()
        self._compare_tasks()
        self._look_at_schedules()
        self._look_at_followers()
        self._check(not world.database.ask(_OPEN_TWICE), "unique", "work that is unique everywhere is open twice")

    def _look_at_schedules(self) -> None:
        """Every time was fired once, and none left out; also those whose tasks were pruned."""
        world = self._world
        gone = [(text, at) for _, text, at in world.ledger.truth.pruned if at is not None]
        fired = Counter([*gone, *((text, at) for text, at in world.database.ask(_FIRED))])
        for (name, at), times in fired.items():
            self._check(times == 1, "schedule", f"the schedule {name} has fired {times} times for {at}")
        if not (world.has_odd_clocks or world.is_restored):
            ticks = sorted(at for text, at in fired if "each" in text)
            steps = {after - before for before, after in pairwise(ticks)}
            self._check(steps <= {60_000}, "schedule", f"the schedule of every minute has fired for {ticks}")

    def _look_at_followers(self) -> None:
        """No batch is followed twice. (A stage that an operator has opened again may open one anew that was pruned.)"""
        world = self._world
        there = [text for (text,) in world.database.ask(_FOLLOWED)]
        gone = [text for kind, text, _ in world.ledger.truth.pruned if kind == "closing"]
        if world.ledger.truth.reopened:
            gone = []
        twice = [text for text, times in Counter(there + gone).items() if times > 1]
        self._check(not twice, "wait", f"batches were followed twice: {twice}")

    def _compare_effects(self) -> None:
        expected = self._world.ledger.truth.effects
        there = Counter(tuple(row) for row in self._world.database.ask("SELECT * FROM effect"))
        self._check(not expected - there, "lost", f"rows that were committed are not there: {expected - there}")
        self._check(not there - expected, "double effect", f"rows are there that no commit wrote: {there - expected}")

    def _compare_tasks(self) -> None:
        truth = self._world.ledger.truth
        tasks = {row[0]: row[1:] for row in self._world.database.ask("SELECT id, status, token FROM onceward_task")}
        lost = (truth.accepted | truth.held.keys() | truth.ended.keys()) - tasks.keys()
        self._check(not lost, "lost", f"tasks {sorted(lost)} were accepted and are not there")
        for task, held in truth.held.items():
            self._check(tasks[task][1] == held.token, "lease", f"task {task} is not held by fence {held.fence}")
        for task, status in truth.ended.items():
            said = tasks[task][0]
            self._check(said >= 4 and status in (-1, said), "lost", f"task {task} had ended as {status}, and is {said}")
