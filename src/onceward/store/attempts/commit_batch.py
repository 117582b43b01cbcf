"""Collects what the commits of one transaction write together after their fences have held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onceward.model.budget import Bill
from onceward.model.gates import BUDGET
from onceward.model.holds import Settlement
from onceward.model.status import Event, Status
from onceward.model.task import (
    NEVER,
    SIZE_PART,
    Advance,
    Commit,
    Fill,
    Filled,
    HandOver,
    Hold,
    Keep,
    Lease,
    Move,
    Part,
    Release,
    Report,
    Take,
    lane_of,
)
from onceward.store.attempts.expiry import expire
from onceward.store.governance.budgets import settle_bills, settle_so_far
from onceward.store.governance.cache import count_lookups
from onceward.store.governance.gate_use import leave_gates
from onceward.store.governance.holds import settle_holds
from onceward.store.history import Entry, log
from onceward.store.lineage.aliases import NewAlias, take_aliases
from onceward.store.lineage.joins import EndedTask, join, lock_parents, propagate_locked_ends
from onceward.store.lineage.spawn_requests import SpawnRequest
from onceward.store.lineage.stage_batches import BatchRequest, SpawnResults, spawn_all
from onceward.store.lines.enqueue import store_values
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import Many, Op

_STAYING = frozenset({Keep, Report, Take, Hold, Fill, Filled})
"""The moves of an attempt that goes on inside the gates it has passed; so does one that advances with gates."""


@dataclass(slots=True)
class CommitBatch:
    """Collects what the accepted commits of one transaction write together."""

    now: int
    entries: list[Entry] = field(default_factory=list)
    parts: list[tuple[Lease, Part]] = field(default_factory=list)
    placements: list[Placement] = field(default_factory=list)
    spawn_requests: list[SpawnRequest] = field(default_factory=list)
    batch_requests: list[BatchRequest] = field(default_factory=list)
    aliases: list[NewAlias] = field(default_factory=list)
    joins: list[tuple[Lease, HandOver]] = field(default_factory=list)
    ended: list[EndedTask] = field(default_factory=list)
    left: list[Commit] = field(default_factory=list)
    """Commits of ended attempts that had passed gates, or that report to sources."""
    billed: list[tuple[Lease, Bill | None]] = field(default_factory=list)
    """Ended attempts with reservations in budgets."""
    billed_so_far: list[tuple[Lease, Bill]] = field(default_factory=list)
    """Attempts that have charged budgets and go on."""
    settlements: list[tuple[Lease, Settlement]] = field(default_factory=list)
    """Settlements of holds."""
    limits: list[tuple[int, int]] = field(default_factory=list)
    """Time limits of tasks that go back in line."""
    expired: dict[str, list[int]] = field(default_factory=dict)
    """Tasks at their time limit, by reason."""
    spawned: SpawnResults | None = None
    """Decisions on the requested children."""

    def note(
        self,
        lease: Lease,
        event: Event,
        status: Status,
        stage: str | None,
        note: str | None = None,
        trace: str | None = None,
    ) -> None:
        """Add a log row."""
        self.entries.append(
            Entry(lease.task, lease.run, lease.fence, event, status, stage, lease.worker, self.now, note, trace)
        )

    def note_refusal(self, lease: Lease, move: Move) -> None:
        """Add a log row of a refused commit, which writes nothing else."""
        self.note(lease, Event.LOST, Status.RUNNING, lease.stage, f"{type(move).__name__} refused by the fence")

    def requeue(self, lease: Lease, due_at: int, over_at: int) -> None:
        """Put a task back in line after its stage has run; its clock goes on."""
        self.placements.append(place_after_stage(lease, due_at))
        if over_at < NEVER:
            self.limits.append((over_at, lease.task))

    def flush(self) -> Op[None]:
        """Write everything but gates and budgets, in the lock order of the engine (decision 46)."""
        if self.ended:
            yield from lock_parents(self.ended)
        if self.parts:
            places = yield from store_values([part.value for _, part in self.parts])
            yield Many(
                "insert_checkpoints",
                [
                    (lease.task, lease.run, part.stage, part.part, value, blob)
                    for (lease, part), (value, blob) in zip(self.parts, places, strict=True)
                ],
                (self.now,),
            )
        if self.entries:
            yield from log(self.entries)
        added: list[int] = []
        opened: list[int] = []
        if self.spawn_requests or self.batch_requests:
            self.spawned = yield from spawn_all(self.spawn_requests, self.batch_requests, self.now, self.aliases)
            added, opened = self.spawned.added, self.spawned.opened
        elif self.aliases:
            yield from take_aliases(self.aliases, self.now)
        for lease, move in self.joins:
            yield from join(lease, move, self.now)
        if self.ended or added or opened:
            yield from propagate_locked_ends(self.ended, self.now, added, opened)
        for reason, tasks in sorted(self.expired.items()):
            yield from expire(tasks, reason, self.now)
        if self.placements:
            yield from put_in_line(self.placements, self.now)
        if self.limits:
            yield Many("limit_times", sorted(set(self.limits)))

    def settle_up(self, commits: Sequence[Commit]) -> Op[None]:
        """Leave gates and settle budgets, for all commits of the transaction at once.

        In the order in which attempts have ended, because a breaker counts failures in a row; gates before budgets, as
        the claim locks them."""
        if self.left:
            said = list({id(one): one for left in self.left for one in left.reports}.values())
            if not all(one.is_plain_success for one in said):
                places = {one.lease.task: place for place, one in enumerate(commits)}
                self.left.sort(key=lambda left: places[left.lease.task])
            yield from leave_gates(self.left, said, self.now)
            if any(one.looked_up for one in said):
                yield from count_lookups(self.left, self.now)
        if self.billed:
            yield from settle_bills(self.billed)
        if self.billed_so_far:
            yield from settle_so_far(self.billed_so_far)
        if self.settlements:
            yield from settle_holds(self.settlements, self.now)

    @property
    def has_paid(self) -> bool:
        """Whether this transaction locks budgets to settle something."""
        return bool(self.billed or self.billed_so_far or self.settlements)

    def leave(self, one: Commit, move: Move) -> None:
        """Note the gates to leave and the bill to settle of an accepted commit, if its attempt is over."""
        if one.bill is not None and one.bill.settlements:
            self.settlements += [(one.lease, settlement) for settlement in one.bill.settlements]
        if type(move) in _STAYING or (type(move) is Advance and move.gates is not None):
            if one.bill is not None and one.bill.charges:
                self.billed_so_far.append((one.lease, one.bill))
            return
        gates = one.lease.gates
        if gates is not None or one.reports:
            self.left.append(one)
        if gates is not None and BUDGET in gates:
            self.billed.append((one.lease, one.bill))

    def add_effects(self, one: Commit) -> None:
        """Note the children, batches, aliases and sizes of an accepted commit."""
        if one.sizes is not None:
            self.parts.append((one.lease, Part(one.move.stage, SIZE_PART, one.sizes)))  # type: ignore[attr-defined]
        if one.spawns is not None:
            stage: str = one.move.stage  # type: ignore[attr-defined]
            for alias in one.spawns.aliases:
                self.aliases.append(NewAlias(one.lease, alias, one.spawns.unique, one.spawns.fresh_for_ms))
            for child in one.spawns.asked:
                self.spawn_requests.append(
                    SpawnRequest(one.lease, stage, one.spawns.key_hash, one.spawns.defaults, child)
                )
            for new in one.spawns.batches:
                self.batch_requests.append(BatchRequest(one.lease, new))


def place_after_stage(lease: Lease, due_at: int) -> Placement:
    """The place in line of a task whose stage has ended: its worker lived, so it is no suspect."""
    return Placement(lease.task, lane_of(lease.queue, lease.kind, lease.gates), lease.band, lease.rank, due_at)


def place_after_release(lease: Lease, move: Release, now: int) -> Placement:
    """The place in line of a released task: a suspect stays one."""
    suspect = lease.company > 0
    rank = lease.company if suspect else lease.rank
    queue, gates = (lease.queue, lease.gates) if move.queue is None else (move.queue, move.gates)
    lane = lane_of(queue, lease.kind, gates, suspect=suspect)
    return Placement(lease.task, lane, lease.band, rank, now)
