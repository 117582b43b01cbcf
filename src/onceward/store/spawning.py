"""The spawn guard: decides, in the transaction that commits a stage, which of the children it asks for come to be.

Depth and ancestry follow from the lease alone. For the rest constraints decide: an identity is a row with a primary
key, room in a lineage a counter that cannot pass its limit. Locks are taken in one order for all the spawns of a
transaction: lineages, then identities, each sorted. A refusal is an answer with a reason, and a row.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from onceward.errors import IllegalTransition, SpawnRefused
from onceward.logs import EngineLog
from onceward.model.decide import readable, signal_wait
from onceward.model.lineage import (
    EVERYWHERE,
    Ancestor,
    Bounds,
    Refused,
    Rule,
    Spawn,
    ancestry_below,
    read_ancestry,
    refused_by_ancestors,
    refused_by_children,
    refused_by_depth,
)
from onceward.model.status import Event, Status
from onceward.model.task import NEVER, Lease, NewTask, lane_of
from onceward.model.times import spoken
from onceward.store.enqueue import kept
from onceward.store.lines import Standing, stand
from onceward.store.log import Entry, log
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_bytes, as_uuid

REFUSALS_KEPT = 100
"""How many refusals are stored for one parent; the others are counted."""

MANY_ALIKE = 8
"""From how many children on that differ in little a statement of their own is worth its way to the database."""

Identity = tuple[bytes, bytes]
"""A scope and a hash."""

logger = EngineLog("onceward.spawning")


class Asked(msgspec.Struct, frozen=True, gc=False):
    """One child that the stage of a task asks for."""

    lease: Lease
    stage: str
    key_hash: bytes
    """The key of the task that asks, as a hash."""
    defaults: Bounds
    """The limits of a lineage for which nobody has set any."""
    spawn: Spawn

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
    parked: Refused | None = None
    """Why a new child waits for approval, if it does."""


@dataclass(slots=True)
class _Room:
    """What a lineage, or a narrower scope in it, has left."""

    left: int
    max_depth: int
    max_children: int
    max_tasks: int
    deadline_at: int
    created_at: int


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
    decided: dict[int, Decision] = field(default_factory=dict)
    rooms: dict[uuid.UUID, _Room] = field(default_factory=dict)
    ids: dict[int, int] = field(default_factory=dict)
    taken: dict[Identity, int] = field(default_factory=dict)
    """The identities that were free, and for which task they were taken for the time being."""
    holders: dict[Identity, _Holder] = field(default_factory=dict)
    links: list[tuple[int, int]] = field(default_factory=list)
    parked: dict[int, Refused] = field(default_factory=dict)
    """Those that a rule refuses, but whose pipeline wants an operator to be asked."""

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
            yield from self._let_in()
        yield from self._link()
        return [self.decided[place] for place in range(len(self.asked))]

    @property
    def _open(self) -> list[int]:
        return [place for place in range(len(self.asked)) if place not in self.decided]

    def _refuse(self, place: int, refused: Refused | None) -> None:
        """Refuse a spawn, by the first rule that does; or have an operator asked, if its pipeline wants that."""
        if refused is None or place in self.decided:
            return
        if self.asked[place].spawn.policy(refused.rule) == "park":
            self.parked.setdefault(place, refused)
        else:
            self.decided[place] = Decision(None, refused=refused)

    def _parent(self, place: int) -> _Parent:
        return self.parents[self.asked[place].lease.task]

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

    # Room

    def _reserve_room(self) -> Op[None]:
        """Ask for as much room as could be needed. What the limits of the lineage itself refuse is refused here."""
        roots = {task: parent for task, parent in sorted(self.parents.items()) if parent.depth == 0}
        if roots:
            yield Many("open_lineages", [_lineage_row(parent) for parent in roots.values()])
        wanted = Counter[uuid.UUID]()
        for task, many in Counter(self.asked[place].lease.task for place in self._open).items():
            wanted.update(dict.fromkeys(self.parents[task].counted_in, many))
        rows = yield Many("reserve_room", sorted(wanted.items()))
        self.rooms = {as_uuid(scope): _Room(*rest) for scope, *rest in rows}
        for parent in self.parents.values():
            parent.rooms = [self.rooms[scope] for scope in parent.counted_in if scope in self.rooms]
        for place in self._open:
            parent = self._parent(place)
            lineage = parent.rooms[0]
            self._refuse(place, refused_by_depth(parent.depth + 1, lineage.max_depth))
            deadline_at = min(lineage.deadline_at, lineage.created_at + parent.bounds.deadline_ms)
            if self.now >= deadline_at:
                after = spoken(deadline_at - lineage.created_at)
                self._refuse(place, Refused(Rule.LIMIT, f"the deadline of its lineage, {after}, is over"))

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
        new: dict[Identity, int] = {}
        for place in self._open:
            one, parent = self.asked[place], self._parent(place)
            if (met := self._first_met(place)) is not None:
                self.decided[place] = met
                continue
            self._refuse(place, self._no_room(parent, children[one.lease.task]))
            if place in self.decided:
                continue
            self.decided[place] = Decision(
                self.ids[place], is_new=True, batch=parent.batch, parked=self.parked.get(place)
            )
            children[one.lease.task] += 1
            for room in parent.rooms:
                room.left -= 1
            for identity in one.identities:
                new[identity] = self.ids[place]
                self.holders[identity] = _Holder(self.ids[place], one.lease.task, Status.PENDING, None)
        taken_over = [(*identity, task) for identity, task in new.items() if self.taken.get(identity) != task]
        if taken_over:
            yield Many("take_over_identities", sorted(taken_over))
        dropped = [(*identity, number) for identity, number in self.taken.items() if identity not in new]
        if dropped:
            yield Many("drop_identities", sorted(dropped))
        unused = [(scope, room.left) for scope, room in sorted(self.rooms.items()) if room.left > 0]
        if unused:
            yield Many("return_room", unused)

    def _no_room(self, parent: _Parent, children: int) -> Refused | None:
        full = next((room for room in parent.rooms if room.left <= 0), None)
        if full is not None:
            return Refused(Rule.LIMIT, f"its lineage has no room: max_tasks is {full.max_tasks}")
        return refused_by_children(children, min(parent.bounds.max_children, parent.rooms[0].max_children))

    def _first_met(self, place: int) -> Decision | None:
        """What it means for a spawn that its identity is taken, in its lineage or everywhere; None if it is not."""
        for identity in self.asked[place].identities:
            holder = self.holders.get(identity)
            if holder is not None and (decision := self._met(place, identity[0], holder)) is not None:
                return decision
        return None

    def _met(self, place: int, scope: bytes, holder: _Holder) -> Decision | None:
        """What it means that a holder was met; None if it gives way."""
        one = self.asked[place]
        if holder.parent == one.lease.task and holder.status is not Status.CANCELLED:
            return Decision(holder.task)  # the same child, asked for again
        if scope == EVERYWHERE:
            if not stays(holder.status, holder.ended_at, one.spawn.fresh_for_ms, self.now):
                return None
            self.links.append((place, holder.task))
            return Decision(holder.task)
        if holder.status is Status.CANCELLED:
            return None
        self.links.append((place, holder.task))
        return Decision(None, refused=met_in_lineage(one.spawn, holder.task, holder.status))

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
    new = [(one, guard.parents[one.lease.task], d.task) for one, d in both if d.is_new and d.task is not None]
    if new:
        yield from _insert(new, now)
        if paused := sorted(task for _, parent, task in new if parent.is_paused):
            yield Query("pause_tasks", {"ids": paused})
        yield from _park([(one, d.task, d.parked) for one, d in both if d.parked and d.task], now)
    yield from _record(both, guard.parents, now)
    return decisions


def _park(new: Sequence[tuple[Asked, int, Refused]], now: int) -> Op[None]:
    """Let new children wait for approval. Their places in line do no harm: nobody leases a task that waits."""
    if new:
        reasons = [readable(f"waits for approval: {refused.reason}") for _, _, refused in new]
        waiting = [(task, reason) for (_, task, _), reason in zip(new, reasons, strict=True)]
        yield Many("park_new", waiting, (signal_wait("approved"), NEVER))
        yield from log(
            Entry(task, 1, 0, Event.PARKED, Status.WAITING, None, one.lease.worker, now, reason)
            for (one, task, _), reason in zip(new, reasons, strict=True)
        )


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
    [payload] = yield from kept([task.payload])
    yield Many(
        "insert_children",
        [
            (
                number, task.kind, task.version, task.queue, task.band, task.key, task.identity, *payload, task.lineage,
                None, 0, batch, task.due_at, None, None if bounds is None else msgspec.json.encode(bounds), scopes,
                0 if bounds is None else 1,
            )
        ],
        (task.created_at,),
    )  # fmt: skip
    yield from stand([Standing(number, lane_of(task.queue, task.kind), task.band, 0, task.due_at)], now)
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


def _in_common(one: Asked, parent: _Parent, now: int) -> _InCommon:
    child = one.spawn
    return _InCommon(
        child.kind, child.version, child.queue, child.band,
        max(child.due_at, now),  # it was asked for a moment ago, but nobody could have run it
        parent.counted_in[0], one.lease.task, parent.depth + 1, parent.batch, parent.below,
        parent.limits if child.bounds is None else msgspec.json.encode(child.bounds),
        parent.scopes if child.scope is None else (parent.scopes or b"") + child.scope.bytes,
        one.lease.worker,
    )  # fmt: skip


def _told(common: _InCommon) -> str:
    return f"by task {common.parent}, at depth {common.depth}"


def _insert_few(few: Sequence[tuple[_InCommon, tuple[Any, ...]]], now: int) -> Op[None]:
    """Children of many parents or kinds, in one statement with a column for everything."""
    yield Many(
        "insert_children",
        [
            (
                task, at.kind, at.version, at.queue, at.band, key, identity, payload, blob, at.lineage, at.parent,
                at.depth, at.batch, at.due_at, at.ancestry, at.limits, at.scopes, 0,
            )
            for at, (task, key, identity, payload, blob) in few
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
    payloads = yield from kept([one.spawn.payload for one, _, _ in new])
    alike: dict[_InCommon, list[tuple[Any, ...]]] = {}
    for (one, parent, task), place in zip(new, payloads, strict=True):
        mine = (task, one.spawn.key, one.spawn.identity, *place)
        alike.setdefault(_in_common(one, parent, now), []).append(mine)
    few = [(common, mine) for common, some in alike.items() if len(some) < MANY_ALIKE for mine in some]
    if few:
        yield from _insert_few(few, now)
    for common, some in alike.items():
        if len(some) >= MANY_ALIKE:
            yield Many("insert_alike", some, (now, *common[:-1]))
            told = {"worker": common.worker, "note": _told(common), "now": now}
            yield Query("log_spawned", {**told, "ids": [mine[0] for mine in some]})
    yield from stand(
        (
            Standing(task, lane_of(one.spawn.queue, one.spawn.kind), one.spawn.band, 0, one.spawn.due_at)
            for one, _, task in new
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
