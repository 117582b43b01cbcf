"""The spawn guard: decides, in the transaction that commits a stage, which of the children it asks for come to be.

Depth and ancestry follow from the lease alone. For the rest constraints decide: an identity is a row with a primary
key, room in a lineage a counter that cannot pass its limit. Locks are taken in one order for all the spawns of a
transaction: lineages, then identities, each sorted. A refusal is an answer with a reason, and a row.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec

from onceward.errors import IllegalTransition, SpawnRefused
from onceward.logs import EngineLog
from onceward.model.budget import WHOLE, Account, AccountKey, BudgetRule
from onceward.model.decide import readable, signal_wait
from onceward.model.lineage import (
    EVERYWHERE,
    REPEATS,
    Ancestor,
    Bounds,
    Refused,
    Rule,
    Spawn,
    ancestry_below,
    parked_note,
    read_ancestry,
    refused_by_ancestors,
    refused_by_children,
    refused_by_depth,
    rules_in,
    spawn_note,
)
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, Lease, NewTask, lane_of
from onceward.model.times import spoken
from onceward.store.budgets import count_tasks, counting, hold, open_lineage_budgets, spent_on_tasks
from onceward.store.enqueue import kept
from onceward.store.lines import Standing, stand
from onceward.store.log import Entry, log
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_bytes, as_uuid

REFUSALS_KEPT = 100
"""How many refusals are stored for one parent; the others are counted. And how many of its children may wait for
approval because there is no room for them; the others are refused, so that a bomb stays one of a known size."""

MANY_ALIKE = 8
"""From how many children on that differ in little a statement of their own is worth its way to the database."""

Identity = tuple[bytes, bytes]
"""A scope and a hash."""

logger = EngineLog("onceward.spawning")


class InBatch(NamedTuple):
    """A batch to which a child is added, with the counter in which it needs room there."""

    id: int
    scope: uuid.UUID | None


class Asked(msgspec.Struct, frozen=True, gc=False):
    """One child that the stage of a task asks for."""

    lease: Lease
    stage: str
    key_hash: bytes
    """The key of the task that asks, as a hash."""
    defaults: Bounds
    """The limits of a lineage for which nobody has set any."""
    spawn: Spawn
    batch: InBatch | None = None
    """The batch that its stage adds it to; without one it belongs where its parent does."""

    @property
    def identities(self) -> list[Identity]:
        """Where its identity must be free."""
        match self.spawn.unique:
            case "no":
                return []
            case "everywhere":
                return [(self.lease.lineage_bytes, self.spawn.identity), (EVERYWHERE, self.spawn.identity)]
        return [(self.lease.lineage_bytes, self.spawn.identity)]


@dataclass(slots=True)
class _Parent:
    """A task that asks for children, as it stands. Its row is locked by its fence: nobody else can add to it."""

    lease: Lease
    key_hash: bytes
    bounds: Bounds
    identity: bytes
    ancestry: bytes | None
    limits: bytes | None
    scopes: bytes | None
    depth: int
    children: int
    refusals: int
    batch: int | None
    is_paused: bool

    family: list[Ancestor] = field(init=False)
    """Its ancestors and itself."""
    counted_in: list[uuid.UUID] = field(init=False)
    """The counters in which a child needs room: that of its lineage, and narrower ones below."""
    below: bytes = field(init=False)
    """The ancestry of its children."""
    rooms: list[_Room] = field(default_factory=list)
    """What those counters have left, once it was asked for."""
    beyond: int | None = None
    """How many of its children were made although there was no room, to wait for approval; once it was asked for."""

    def adding_to(self, batch: InBatch) -> _Parent:
        """The same task, for the children that it adds to a batch."""
        scopes = self.scopes if batch.scope is None else (self.scopes or b"") + batch.scope.bytes
        return replace(self, batch=batch.id, scopes=scopes)

    def __post_init__(self) -> None:
        myself = Ancestor(self.lease.task, self.identity, self.key_hash)
        self.family = [*read_ancestry(self.ancestry), myself]
        self.counted_in = [self.lease.lineage, *scopes_in(self.scopes)]
        self.below = ancestry_below(self.ancestry, *msgspec.structs.astuple(myself))


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What became of a spawn: a new child, one that was there already and is linked, or a refusal."""

    task: int | None
    is_new: bool = False
    refused: Refused | None = None
    batch: int | None = None
    """The batch to which a new child has been added, because its parent belongs to it."""
    parked: tuple[Refused, ...] = ()
    """Why a new child waits for approval, if it does: by every rule that would have refused it."""


@dataclass(slots=True)
class _Room:
    """What a lineage, or a narrower scope in it, has left."""

    root: int
    left: int
    """Below zero: how many it has more than it may, which wait for approval."""
    max_depth: int
    max_children: int
    max_tasks: int
    deadline_at: int
    created_at: int
    overdue: int
    """Whether its tasks have been ended at its deadline already."""


class _Holder(NamedTuple):
    """The task that has an identity, as it stands."""

    task: int
    parent: int | None
    status: Status
    ended_at: int | None


@dataclass(slots=True)
class _Guard:
    """The spawns of one transaction while they are decided."""

    asked: Sequence[Asked]
    now: int
    parents: dict[int, _Parent] = field(default_factory=dict)
    in_batches: dict[tuple[int, int], _Parent] = field(default_factory=dict)
    """Parents as they stand to the children that they add to a batch."""
    decided: dict[int, Decision] = field(default_factory=dict)
    rooms: dict[uuid.UUID, _Room] = field(default_factory=dict)
    ids: dict[int, int] = field(default_factory=dict)
    taken: dict[Identity, int] = field(default_factory=dict)
    """The identities that were free, and for which task they were taken for the time being."""
    holders: dict[Identity, _Holder] = field(default_factory=dict)
    links: list[tuple[int, int]] = field(default_factory=list)
    parked: dict[int, dict[Rule, Refused]] = field(default_factory=dict)
    """Those that rules refuse, but whose pipeline wants an operator to be asked."""
    budgets: dict[AccountKey, Account] = field(default_factory=dict)
    """Those that count some of them."""
    counts: Counter[AccountKey] = field(default_factory=Counter)
    """How many of them each budget has to count."""
    own: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """Children that a task has already, by parent and identity, where no row of an identity might tell."""

    def decide(self) -> Op[list[Decision]]:
        """Decide on all of them; identities are taken and room is used up, but no child is made yet."""
        yield from self._read_parents()
        for place, one in enumerate(self.asked):
            parent = self.parents[one.lease.task]
            if one.spawn.stopped is not None:
                self._refuse(place, Refused(Rule.STOPPED, one.spawn.stopped))
            self._refuse(place, refused_by_depth(parent.depth + 1, parent.bounds.max_depth))
            self._refuse(place, refused_by_ancestors(one.spawn, parent.family))
        if self._open:
            yield from self._reserve_room()
            yield from self._take_identities()
            yield from self._hold_budgets()
            yield from self._let_in()
        yield from self._link()
        return [self.decided[place] for place in range(len(self.asked))]

    @property
    def _open(self) -> list[int]:
        return [place for place in range(len(self.asked)) if place not in self.decided]

    def _refuse(self, place: int, refused: Refused | None, *, final: bool = False) -> None:
        """Refuse a spawn, by the first rule that does; or have an operator asked, if its pipeline wants that and it is
        not final."""
        if refused is None or place in self.decided:
            return
        if self._asks(place, refused.rule) and not final:
            self.parked.setdefault(place, {}).setdefault(refused.rule, refused)
        else:
            self.decided[place] = Decision(None, refused=refused)

    def _asks(self, place: int, rule: Rule) -> bool:
        """Whether an operator is to be asked if this rule refuses a spawn. What follows a batch waits for that already,
        and nobody waits for two things."""
        child = self.asked[place].spawn
        return child.policy(rule) == "park" and child.follows is None

    def parent(self, place: int) -> _Parent:
        """The task that asks for a child."""
        one = self.asked[place]
        return self.parents[one.lease.task] if one.batch is None else self.in_batches[one.lease.task, one.batch.id]

    def _read_parents(self) -> Op[None]:
        asking = {one.lease.task: one for one in self.asked}
        for task, identity, ancestry, limits, scopes, depth, children, refusals, batch, paused in (
            yield Query("spawning_tasks", {"ids": sorted(asking)})
        ):
            one = asking[task]
            bounds = one.defaults if limits is None else msgspec.json.decode(limits, type=Bounds)
            self.parents[task] = _Parent(
                one.lease, one.key_hash, bounds, identity, ancestry, limits, scopes, depth, children, refusals, batch,
                bool(paused),
            )  # fmt: skip
        for one in self.asked:
            if one.batch is not None and (one.lease.task, one.batch.id) not in self.in_batches:
                self.in_batches[one.lease.task, one.batch.id] = self.parents[one.lease.task].adding_to(one.batch)

    # Room

    def _reserve_room(self) -> Op[None]:
        """Ask for as much room as could be needed. What the limits of the lineage itself refuse is refused here."""
        roots = {task: parent for task, parent in sorted(self.parents.items()) if parent.depth == 0}
        if roots:
            yield Many("open_lineages", [_lineage_row(parent) for parent in roots.values()])
        wanted = Counter[uuid.UUID]()
        for place, many in self._alike().items():
            wanted.update(dict.fromkeys(self.parent(place).counted_in, many))
        rows = yield Many("reserve_room", sorted(wanted.items()))
        self.rooms = {as_uuid(scope): _Room(*rest) for scope, *rest in rows}
        for parent in (*self.parents.values(), *self.in_batches.values()):
            parent.rooms = [self.rooms[scope] for scope in parent.counted_in if scope in self.rooms]
        for place in self._open:
            parent = self.parent(place)
            lineage = parent.rooms[0]
            self._refuse(place, refused_by_depth(parent.depth + 1, lineage.max_depth))
            deadline_at = min(lineage.deadline_at, lineage.created_at + parent.bounds.deadline_ms)
            if self.now >= deadline_at or lineage.overdue:
                after = spoken(deadline_at - lineage.created_at)
                # Nobody is asked: it would be over before anybody could answer.
                self._refuse(place, Refused(Rule.LIMIT, f"the deadline of its lineage, {after}, is over"), final=True)

    def _alike(self) -> dict[int, int]:
        """How many of those that are open need room in the same counters, by the place of one of them."""
        first: dict[tuple[int, InBatch | None], int] = {}
        asking = ((place, self.asked[place]) for place in self._open)
        return Counter(first.setdefault((one.lease.task, one.batch), place) for place, one in asking)

    # Identities

    def _take_identities(self) -> Op[None]:
        """Take every identity that is wanted, and find out who has those that are taken already.

        A row that was taken already is locked by us from here on, so that what its holder is now stays true.
        """
        places = self._open
        if not places:
            return
        numbers = yield Query("reserve_ids", {"count": len(places)})
        self.ids = dict(zip(places, sorted(number for (number,) in numbers), strict=True))
        for place in places:
            for identity in self.asked[place].identities:
                self.taken.setdefault(identity, self.ids[place])
        if not self.taken:
            return
        rows = yield Many("take_identities", [(*identity, number) for identity, number in sorted(self.taken.items())])
        held = {(bytes(scope), bytes(hashed)): task for scope, hashed, task in rows}
        met = {identity: task for identity, task in held.items() if task != self.taken[identity]}
        if met:
            rows = yield Query("holders", {"ids": sorted(set(met.values()))})
            found = {task: _Holder(task, parent, Status(status), ended_at) for task, parent, status, ended_at in rows}
            for identity, task in met.items():  # one that was pruned had ended
                self.holders[identity] = found.get(task) or _Holder(task, None, Status.SUCCEEDED, 0)
                del self.taken[identity]

    def _let_in(self) -> Op[None]:
        """Decide one after the other, in the order in which they were asked for: whoever comes later meets those who
        came before. Then set right who has which identity, and give back the room that was not needed."""
        children = {task: parent.children for task, parent in self.parents.items()}
        yield from self._read_own()
        new: dict[Identity, int] = {}
        for place in self._open:
            one, parent = self.asked[place], self.parent(place)
            if (met := self._first_met(place)) is not None:
                self.decided[place] = met
                continue
            if (full := self._no_room(parent, children[one.lease.task])) is not None:
                yield from self._refuse_or_exceed(place, full)
            self._refuse(place, self._spent(place), final=True)
            if place in self.decided:
                continue
            self.counts.update(self._counting(place).keys())
            parked = self.parked.get(place, {})
            self.decided[place] = Decision(
                self.ids[place], is_new=True, batch=parent.batch, parked=tuple(parked.values())
            )
            children[one.lease.task] += 1
            for room in parent.rooms:
                room.left -= 1
            if parked.keys() & REPEATS:
                self.own[one.lease.task, one.spawn.identity] = self.ids[place]
                continue
            for identity in one.identities:
                new[identity] = self.ids[place]
                self.holders[identity] = _Holder(self.ids[place], one.lease.task, Status.PENDING, None)
        taken_over = [(*identity, task) for identity, task in new.items() if self.taken.get(identity) != task]
        if taken_over:
            yield Many("take_over_identities", sorted(taken_over))
        dropped = [(*identity, number) for identity, number in self.taken.items() if identity not in new]
        if dropped:
            yield Many("drop_identities", sorted(dropped))
        unused = [(scope, room.left) for scope, room in sorted(self.rooms.items()) if room.left]
        if unused:
            yield Many("return_room", unused)
        yield from count_tasks(self.counts)

    # Budgets that count tasks

    def _counting(self, place: int) -> dict[AccountKey, BudgetRule]:
        one = self.asked[place].spawn
        if not one.counted:
            return {}
        parent = self.parent(place)
        return counting(one.counted, one.kind, str(parent.counted_in[0]), parent.batch, self.now)

    def _hold_budgets(self) -> Op[None]:
        wanted = {key: rule for place in self._open for key, rule in self._counting(place).items()}
        self.budgets = yield from hold(wanted, self.now)

    def _spent(self, place: int) -> Refused | None:
        for key in self._counting(place):
            if self.budgets[key].left < (self.counts[key] + 1) * WHOLE:
                return Refused(Rule.BUDGET, spent_on_tasks(self.budgets[key]))
        return None

    def _no_room(self, parent: _Parent, children: int) -> Refused | None:
        used_up = [room for room in reversed(parent.rooms) if room.left <= 0]
        if used_up:
            full = min(used_up, key=lambda room: room.max_tasks)
            return Refused(Rule.LIMIT, f"its {_named(full, parent)} has no room: max_tasks is {full.max_tasks}")
        return refused_by_children(children, min(parent.bounds.max_children, parent.rooms[0].max_children))

    def _refuse_or_exceed(self, place: int, full: Refused) -> Op[None]:
        """Refuse a spawn for which there is no room; or have an operator asked, if it is one of not too many."""
        parent = self.parents[self.asked[place].lease.task]
        if not self._asks(place, full.rule):
            self._refuse(place, full)
            return
        if parent.beyond is None:
            notes = yield Query("parked_children", {"task": parent.lease.task})
            parent.beyond = sum(Rule.LIMIT in rules_in(note) for (note,) in notes)
        self._refuse(place, full, final=parent.beyond >= REFUSALS_KEPT)
        parent.beyond += 1

    def _read_own(self) -> Op[None]:
        """Find the children that tasks have already of work about which an operator is asked. Nobody else can make any
        meanwhile: their parents are locked."""
        wanted: set[tuple[int, bytes]] = set()
        for place in self._open:
            one = self.asked[place]
            asks = one.spawn.policies and any(self._asks(place, rule) for rule in REPEATS)
            if asks and (one.identities or Rule.CYCLE in self.parked.get(place, {})):
                wanted.add((one.lease.task, one.spawn.identity))
        if wanted:
            for parent, identity, task in (yield Many("own_children", sorted(wanted))):
                self.own.setdefault((parent, bytes(identity)), task)

    def _first_met(self, place: int) -> Decision | None:
        """What it means for a spawn that its identity is taken, in its lineage or everywhere; None if it is not, or if
        an operator is asked about that."""
        one = self.asked[place]
        mine = self.own.get((one.lease.task, one.spawn.identity))
        if mine is not None and one.spawn.follows is None:
            return Decision(mine)  # the same child, asked for again
        for identity in one.identities:
            holder = self.holders.get(identity)
            if holder is not None and (decision := self._met(place, identity[0], holder)) is not None:
                return decision
        return None

    def _met(self, place: int, scope: bytes, holder: _Holder) -> Decision | None:
        """What it means that a holder was met; None if it gives way, or if an operator is asked."""
        one = self.asked[place]
        if self._is_asked_about(place, holder):
            return None
        if holder.parent == one.lease.task and holder.status is not Status.CANCELLED:
            if one.spawn.follows is not None:  # that one does not wait for this batch
                return Decision(None, refused=met_in_lineage(one.spawn, holder.task, holder.status))
            return Decision(holder.task)  # the same child, asked for again
        if scope == EVERYWHERE:
            if not stays(holder.status, holder.ended_at, one.spawn.fresh_for_ms, self.now):
                return None
            self.links.append((place, holder.task))
            return Decision(holder.task)
        if holder.status is Status.CANCELLED:
            return None
        refused = met_in_lineage(one.spawn, holder.task, holder.status)
        if self._asks(place, refused.rule):
            self._refuse(place, refused)
            return None
        self.links.append((place, holder.task))
        return Decision(None, refused=refused)

    def _is_asked_about(self, place: int, holder: _Holder) -> bool:
        """Whether an operator is asked about a spawn because it is the work of this very task."""
        parked = self.parked.get(place, {})
        if any(refused.existing == holder.task for refused in parked.values()):
            return True
        return Rule.CYCLE in parked and any(one.task == holder.task for one in self.parent(place).family)

    # Links

    def _link(self) -> Op[None]:
        """Remember whom a child was folded into, unless waiting for it would close a circle."""
        if self.links:
            yield Query("lock_links")
        for place, holder in self.links:
            one = self.asked[place]
            above = yield Query("who_waits_for", {"task": one.lease.task})
            if holder in {row[0] for row in above}:
                reason = f"task {holder} waits for the spawning task; waiting for it would close a circle"
                self.decided[place] = Decision(None, refused=Refused(Rule.CYCLE, reason, existing=holder))
            else:
                yield Many("insert_links", [(one.lease.task, holder, one.stage, self.now)])


def met_in_lineage(spawn: Spawn, holder: int, status: Status) -> Refused:
    """The refusal of work that its lineage has already."""
    what = f"{spawn.kind} {spawn.key!r}" if spawn.key is not None else f"the same {spawn.kind}"
    if status.is_terminal:
        return Refused(Rule.DONE, f"{what} was done in this lineage: task {holder}, {status.word}", existing=holder)
    return Refused(Rule.DUPLICATE, f"{what} is under way in this lineage: task {holder}", existing=holder)


def spawn(asked: Sequence[Asked], now: int) -> Op[list[Decision]]:
    """Decide on children and make those that may be; returns what became of each, in order."""
    guard = _Guard(asked, now)
    decisions = yield from guard.decide()
    both = list(zip(asked, decisions, strict=True))
    for one, decision in both:
        if decision.refused is not None and one.spawn.policy(decision.refused.rule) == "raise":
            raise SpawnRefused(f"{one.spawn.kind} was not spawned: {decision.refused.reason}")
    new = [(one, guard.parent(at), d.task) for at, (one, d) in enumerate(both) if d.is_new and d.task is not None]
    if new:
        yield from _insert(new, now)
        if paused := sorted(task for _, parent, task in new if parent.is_paused):
            yield Query("pause_tasks", {"ids": paused})
        yield from _park([(one, d.task, d.parked) for one, d in both if d.parked and d.task], now)
    yield from _record(both, guard.parents, now)
    return decisions


def _named(room: _Room, parent: _Parent) -> str:
    """Whose counter it is. That of a batch says nothing of depth and children; a branch of which nothing may come has
    no use for one."""
    if room is parent.rooms[0]:
        return "lineage"
    is_batch = room.max_depth == room.max_children == 0
    return "batch" if is_batch else f"branch, which begins with task {room.root},"


def _park(new: Sequence[tuple[Asked, int, Sequence[Refused]]], now: int) -> Op[None]:
    """Let new children wait for approval. Their places in line do no harm: nobody leases a task that waits."""
    if new:
        waiting = [
            (task, readable(f"waits for approval: {'; '.join(refused.reason for refused in parked)}"))
            for _, task, parked in new
        ]
        yield Many("park_new", waiting, (signal_wait("approved"), NEVER))
        yield from log(
            Entry(
                task, 1, 0, Event.PARKED, Status.WAITING, None, one.lease.worker, now, readable(parked_note(parked)),
            )
            for one, task, parked in new
        )  # fmt: skip


def enqueue_root(
    task: NewTask, now: int, batch: int | None = None, scopes: bytes | None = None
) -> Op[tuple[int, bool]]:
    """Enqueue a root that has limits of its own, or that may be there already; its id, and whether it is new."""
    [(number,)] = yield Query("reserve_ids", {"count": 1})
    if task.unique == "everywhere":
        [(_, _, holder)] = yield Many("take_identities", [(EVERYWHERE, task.identity, number)])
        if holder != number:
            found = yield Query("holders", {"ids": [holder]})
            if found and stays(Status(found[0][2]), found[0][3], task.fresh_for_ms, now):
                return holder, False
            yield Many("take_over_identities", [(EVERYWHERE, task.identity, number)])
    bounds = task.bounds
    if bounds is not None:
        deadline_at = task.created_at + bounds.deadline_ms
        limits = (bounds.max_depth, bounds.max_tasks, bounds.max_children)
        yield Many("open_lineages", [(task.lineage, number, *limits, deadline_at, 1, task.created_at)])
        if bounds.budget is not None:
            yield from open_lineage_budgets([(str(task.lineage), bounds.budget)])
    [payload] = yield from kept([task.payload])
    yield Many(
        "insert_children",
        [
            (
                number, task.kind, task.version, task.queue, task.band, task.key, task.identity, *payload, task.lineage,
                None, 0, batch, task.due_at, None, None if bounds is None else msgspec.json.encode(bounds), scopes,
                0 if bounds is None else 1, task.gates, task.estimate,
            )
        ],
        (task.created_at,),
    )  # fmt: skip
    yield from stand([Standing(number, lane_of(task.queue, task.kind, task.gates), task.band, 0, task.due_at)], now)
    return number, True


def take_identity_back(task: int) -> Op[None]:
    """A task is opened again: it must have its identity, and nobody else may be at the same work."""
    rows = yield Query("identity_of", {"task": task})
    for lineage, hashed in rows:
        wanted = [(as_bytes(lineage), bytes(hashed)), (EVERYWHERE, bytes(hashed))]
        taken = [row for row in (yield Many("hold_identities", sorted(wanted))) if row[2] != task]
        if not taken:
            return
        for holder, _, status, _ in (yield Query("holders", {"ids": sorted({row[2] for row in taken})})):
            if not Status(status).is_terminal:
                raise IllegalTransition(f"task {task} cannot be opened again: task {holder} is at the same work now")
        yield Many("take_over_identities", [(bytes(scope), bytes(one), task) for scope, one, _ in taken])


def stays(status: Status, ended_at: int | None, fresh_for_ms: int | None, now: int) -> bool:
    """Whether a task keeps an identity that is unique everywhere: while it is open, or fresh."""
    if not status.is_terminal:
        return True
    return status is Status.SUCCEEDED and fresh_for_ms is not None and (ended_at or 0) > now - fresh_for_ms


def scopes_in(data: bytes | None) -> list[uuid.UUID]:
    """The narrower scopes in which a task is counted."""
    return [] if not data else [uuid.UUID(bytes=data[start : start + 16]) for start in range(0, len(data), 16)]


def _lineage_row(root: _Parent) -> tuple[uuid.UUID, int, int, int, int, int, int, int]:
    lease, bounds = root.lease, root.bounds
    return (
        lease.lineage, lease.task, bounds.max_depth, bounds.max_tasks, bounds.max_children,
        lease.created_at + bounds.deadline_ms, 1, lease.created_at,
    )  # fmt: skip


class _InCommon(NamedTuple):
    """What children that one stage asks for mostly have in common, in the order of their columns."""

    kind: str
    version: int
    queue: str
    band: int
    due_at: int
    lineage: uuid.UUID
    parent: int
    depth: int
    batch: int | None
    ancestry: bytes
    limits: bytes | None
    scopes: bytes | None
    worker: int
    is_unique: bool


def _in_common(one: Asked, parent: _Parent, now: int) -> _InCommon:
    child = one.spawn
    return _InCommon(
        child.kind, child.version, child.queue, child.band,
        max(child.due_at, now),  # it was asked for a moment ago, but nobody could have run it
        parent.counted_in[0], one.lease.task, parent.depth + 1, parent.batch, parent.below,
        parent.limits if child.bounds is None else msgspec.json.encode(child.bounds),
        parent.scopes if child.scope is None else (parent.scopes or b"") + child.scope.bytes,
        one.lease.worker, child.unique != "no",
    )  # fmt: skip


def _told(common: _InCommon) -> str:
    return spawn_note(common.parent, common.depth, unique=common.is_unique)


def _insert_few(few: Sequence[tuple[_InCommon, tuple[Any, ...]]], now: int) -> Op[None]:
    """Children of many parents or kinds, in one statement with a column for everything."""
    yield Many(
        "insert_children",
        [
            (
                task, at.kind, at.version, at.queue, at.band, key, identity, payload, blob, at.lineage, at.parent,
                at.depth, at.batch, at.due_at, at.ancestry, at.limits, at.scopes, 0, gates, estimate,
            )
            for at, (task, key, identity, payload, blob, gates, estimate) in few
        ],
        (now,),
    )  # fmt: skip
    yield from log(
        Entry(mine[0], 1, 0, Event.SPAWNED, Status.PENDING, None, at.worker, now, _told(at)) for at, mine in few
    )


def _insert(new: Sequence[tuple[Asked, _Parent, int]], now: int) -> Op[None]:
    narrower = [
        (one.spawn.scope, task, bounds.max_depth, bounds.max_tasks, bounds.max_children, NEVER, 1, now)
        for one, _, task in new
        if one.spawn.scope is not None and (bounds := one.spawn.bounds) is not None
    ]
    if narrower:
        yield Many("open_lineages", narrower)
        yield from open_lineage_budgets(
            (str(one.spawn.scope), one.spawn.bounds.budget)
            for one, parent, _ in new
            if one.spawn.scope is not None and one.spawn.bounds is not None
            if one.spawn.bounds.budget is not None and one.spawn.bounds.budget != parent.bounds.budget
        )
    payloads = yield from kept([one.spawn.payload for one, _, _ in new])
    alike: dict[_InCommon, list[tuple[Any, ...]]] = {}
    for (one, parent, task), place in zip(new, payloads, strict=True):
        mine = (task, one.spawn.key, one.spawn.identity, *place, one.spawn.gates, one.spawn.estimate)
        alike.setdefault(_in_common(one, parent, now), []).append(mine)
    few = [(common, mine) for common, some in alike.items() if len(some) < MANY_ALIKE for mine in some]
    if few:
        yield from _insert_few(few, now)
    for common, some in alike.items():
        if len(some) >= MANY_ALIKE:
            yield Many("insert_alike", some, (now, *common[:-2]))
            told = {"worker": common.worker, "note": _told(common), "now": now}
            yield Query("log_spawned", {**told, "ids": [mine[0] for mine in some]})
    yield from _stand_fairly(new, now)


def _stand_fairly(new: Sequence[tuple[Asked, _Parent, int]], now: int) -> Op[None]:
    """Put new children in line, each at the next rank of its lineage: a large one stands there like everybody else."""
    standings: dict[uuid.UUID, list[Standing]] = {}
    for one, parent, task in new:
        child = one.spawn
        lane = lane_of(child.queue, child.kind, child.gates)
        standings.setdefault(parent.counted_in[0], []).append(Standing(task, lane, child.band, 0, child.due_at))
    wanted = [(lineage, some[0].lane, some[0].band, len(some)) for lineage, some in sorted(standings.items())]
    rows = yield Many("advance_ranks", wanted)
    next_ranks = {as_uuid(lineage): rank for lineage, rank in rows}
    yield from stand(
        (
            replace(standing, rank=rank)
            for lineage, some in standings.items()
            for rank, standing in enumerate(some, next_ranks[lineage] - len(some))
        ),
        now,
    )


def _record(decided: Sequence[tuple[Asked, Decision]], parents: dict[int, _Parent], now: int) -> Op[None]:
    """Count children and refusals at their parents, and keep the first refusals."""
    counts: dict[int, list[int]] = {}
    refusals: list[tuple[object, ...]] = []
    entries: list[Entry] = []
    for one, decision in decided:
        lease, refused = one.lease, decision.refused
        mine = counts.setdefault(lease.task, [0, 0])
        mine[0] += decision.is_new
        if refused is None:
            continue
        if parents[lease.task].refusals + mine[1] < REFUSALS_KEPT:
            refusals.append(
                (
                    lease.lineage, lease.task, one.stage, one.spawn.kind, one.spawn.key, one.spawn.identity,
                    refused.rule.value, refused.reason, refused.ancestor, refused.existing, now,
                )
            )  # fmt: skip
            entries.append(
                Entry(
                    lease.task, lease.run, lease.fence, Event.REFUSED, Status.RUNNING, one.stage, lease.worker, now,
                    f"{refused.rule.value}: {refused.reason}",
                )
            )  # fmt: skip
        mine[1] += 1
        logger.warning(
            "spawn refused", rule=refused.rule.value, reason=refused.reason, task=lease.task, lineage=str(lease.lineage)
        )
    changed = [(task, children, refused) for task, (children, refused) in sorted(counts.items()) if children or refused]
    if changed:
        yield Many("count_family", changed)
    if refusals:
        yield Many("insert_refusals", refusals)
        yield from log(entries)
