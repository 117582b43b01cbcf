"""The spawn guard: decides, in the transaction that commits a stage, which of the children it asks for come to be.

Depth and ancestry follow from the lease alone. For the rest constraints decide: an identity is a row with a primary
key, room in a lineage a counter that cannot pass its limit. Locks are taken in one order for all the spawns of a
transaction: lineages, then identities, those of aliases among them, each sorted. A refusal is an answer with a reason,
and a row.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from onceward.errors import SpawnRefused
from onceward.model.budget import WHOLE, Account, AccountKey, BudgetRule
from onceward.model.lineage import (
    EVERYWHERE,
    LIMITS,
    REPEATS,
    Ancestor,
    Bounds,
    Refused,
    Rule,
    Spawn,
    cannot_take_all,
    refused_by_ancestors,
    refused_by_children,
    refused_by_depth,
    rules_in,
    stays,
)
from onceward.model.status import Status
from onceward.model.times import duration_text
from onceward.store.governance.budgets import count_tasks, lock_accounts, spent_on_tasks, task_budgets
from onceward.store.lineage.aliases import NewAlias, keep, read_aliases, take_aliases, wanted_by
from onceward.store.lineage.identities import Holder, read_holders, take_identities
from onceward.store.lineage.insert_children import make, park, record
from onceward.store.lineage.spawn_requests import Asked, Decision, Identity, Parent, Room
from onceward.store.lines.enqueue import reserve_ids
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_uuid

MOST_BEYOND = 100
"""How many children of one task may wait for approval because there is no room for them; the others are refused, so
that a bomb stays one of a known size."""


@dataclass(slots=True)
class _Guard:
    """The spawns of one transaction while they are decided."""

    asked: Sequence[Asked]
    now: int
    aliases: Sequence[NewAlias] = ()
    """Further keys that tasks have got with the same stages."""
    parents: dict[int, Parent] = field(default_factory=dict)
    in_batches: dict[tuple[int, int], Parent] = field(default_factory=dict)
    """Parents as they stand to the children that they add to a batch."""
    asks: list[Parent] = field(default_factory=list)
    """For each of them the task that asks for it, as it stands to it."""
    decided: dict[int, Decision] = field(default_factory=dict)
    wanted: Counter[uuid.UUID] = field(default_factory=Counter)
    """How much room is asked for in each counter."""
    rooms: dict[uuid.UUID, Room] = field(default_factory=dict)
    ids: dict[int, int] = field(default_factory=dict)
    taken: dict[Identity, int] = field(default_factory=dict)
    """The identities that were free, and for which task they were taken for the time being."""
    is_shared: bool = False
    """Whether two of them want the same one."""
    holders: dict[Identity, Holder] = field(default_factory=dict)
    is_free: bool = False
    """Whether nothing has stood in the way of anybody."""
    links: list[tuple[int, Holder]] = field(default_factory=list)
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
        self._refuse_at_once()
        if self._open:
            yield from self._reserve_room()
            yield from self._take_identities()
            if self._is_free_for_all:
                self.is_free = True
                return [Decision(self.ids[at], True, None, parent.batch) for at, parent in enumerate(self.asks)]
            yield from self._hold_budgets()
            yield from self._let_in()
        elif self.aliases:
            yield from take_aliases(self.aliases, self.now)
        yield from self._link()
        return [self.decided[place] for place in range(len(self.asked))]

    def _refuse_at_once(self) -> None:
        """Refuse what the rows of the tasks that ask say already. Most ask for nothing of the kind."""
        too_deep = {
            task: refused
            for task, parent in self.parents.items()
            if (refused := refused_by_depth(parent.depth + 1, parent.bounds.max_depth)) is not None
        }
        doubtful = [
            place
            for place, (one, parent) in enumerate(zip(self.asked, self.asks, strict=True))
            if one.spawn.identity in parent.above or one.spawn.stopped is not None or one.spawn.key_hash is not None
        ]
        for place in range(len(self.asked)) if too_deep else doubtful:
            one, parent = self.asked[place], self.asks[place]
            if one.spawn.stopped is not None:
                self._refuse(place, Refused(Rule.STOPPED, one.spawn.stopped))
            self._refuse(place, too_deep.get(one.lease.task))
            self._refuse(place, refused_by_ancestors(one.spawn, parent.family))

    @property
    def _open(self) -> list[int]:
        places = range(len(self.asked))
        return [place for place in places if place not in self.decided] if self.decided else list(places)

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
        """Whether an operator is to be asked if this rule refuses a spawn."""
        return self.asked[place].spawn.sort.policy(rule) == "park"

    def _read_parents(self) -> Op[None]:
        asking = {one.lease.task: one for one in self.asked}
        known: set[int] = set()
        rows = yield Query("spawning_tasks", {"ids": sorted(asking)})
        for task, identity, ancestry, limits, scopes, depth, children, refusals, batch, paused, has_asked, also in rows:
            one = asking[task]
            bounds = one.defaults if limits is None else msgspec.json.decode(limits, type=Bounds)
            self.parents[task] = Parent(
                one.lease, one.key_hash, bounds, identity, ancestry, limits, scopes, depth, children, refusals, batch,
                bool(paused), bool(has_asked),
            )  # fmt: skip
            if also or self.aliases:
                known.update(ancestor.task for ancestor in self.parents[task].family)
        if known:
            yield from self._read_aliases(known)
        self.asks = [self.parents[one.lease.task] for one in self.asked]
        for place, batch in [(place, one.batch) for place, one in enumerate(self.asked) if one.batch is not None]:
            parent = self.asks[place]
            mine = parent.lease.task, batch.id
            if mine not in self.in_batches:
                self.in_batches[mine] = parent.adding_to(batch)
            self.asks[place] = self.in_batches[mine]

    def _read_aliases(self, tasks: set[int]) -> Op[None]:
        """Let those who ask, and their ancestors, be known by their other keys too, also by those of this commit."""
        found: dict[int, list[Ancestor]] = yield from read_aliases(tasks)
        for one in self.aliases:
            found.setdefault(one.lease.task, []).append(one.alias.of(one.lease.task))
        for task, parent in self.parents.items():
            aliases = tuple(alias for one in parent.family for alias in found.get(one.task, ()))
            if aliases:
                self.parents[task] = replace(parent, aliases=aliases)

    # Room

    def _reserve_room(self) -> Op[None]:
        """Ask for as much room as could be needed. What the limits of the lineage itself refuse is refused here."""
        roots = {task: parent for task, parent in sorted(self.parents.items()) if parent.depth == 0}
        if roots:
            yield Many("open_lineages", [_lineage_row(parent) for parent in roots.values()])
        for place in self._open:
            self.asks[place].wanted += 1
        everybody = [*self.parents.values(), *self.in_batches.values()]
        for parent in everybody:
            if parent.wanted:
                self.wanted.update(dict.fromkeys(parent.counted_in, parent.wanted))
        rows = yield Many("reserve_room", sorted(self.wanted.items()))
        self.rooms = {as_uuid(scope): Room(*rest) for scope, *rest in rows}
        for parent in everybody:
            parent.rooms = [self.rooms[scope] for scope in parent.counted_in if scope in self.rooms]
        refused = {
            task: found
            for task, parent in self.parents.items()
            if parent.rooms and (found := self._refused_by_lineage(parent))
        }
        for place in self._open if refused else ():
            for one in refused.get(self.asked[place].lease.task, ()):
                # Nobody is asked about a deadline: it would be over before anybody could answer.
                self._refuse(place, one, final=one.rule is Rule.LIMIT)

    def _refused_by_lineage(self, parent: Parent) -> list[Refused]:
        """What the limits of its lineage say to all children of a task."""
        lineage = parent.rooms[0]
        too_deep = refused_by_depth(parent.depth + 1, lineage.max_depth)
        refused = [] if too_deep is None else [too_deep]
        deadline_at = min(lineage.deadline_at, lineage.created_at + parent.bounds.deadline_ms)
        if self.now >= deadline_at or any(room.overdue for room in parent.rooms):
            after = duration_text(deadline_at - lineage.created_at)
            refused.append(Refused(Rule.LIMIT, f"the deadline of its lineage, {after}, is over"))
        return refused

    # Identities

    def _take_identities(self) -> Op[None]:
        """Take every identity that is wanted, and find out who has those that are taken already.

        A row that was taken already is locked by us from here on, so that what its holder is now stays true.
        """
        places = self._open
        if places:
            self.ids = dict(zip(places, (yield from reserve_ids(len(places))), strict=True))
        wanted = [(one, number) for place, number in self.ids.items() for one in self.asked[place].identities]
        self.taken = dict(reversed(wanted))  # for the first who wants it
        self.is_shared = len(self.taken) < len(wanted)
        met = yield from take_identities(self.taken | wanted_by(self.aliases) if self.aliases else self.taken)
        if met:
            self.holders = yield from read_holders(met)
        if self.aliases:
            met |= yield from keep(self.aliases, self.holders, self.now)
            met = {identity: task for identity, task in met.items() if identity in self.taken}
            self.holders = (yield from read_holders(met)) if met else {}
        for identity in self.holders:
            del self.taken[identity]

    @property
    def _is_free_for_all(self) -> bool:
        """Whether nothing stands in the way of anybody: no rule, nobody else, nobody who is to be asked; and there is
        room for all of them."""
        if self.decided or self.parked or self.holders or self.is_shared:
            return False
        return (
            all(room.left >= self.wanted[scope] for scope, room in self.rooms.items())
            and all(one.children + one.wanted <= one.most_children for one in self.parents.values())
            and not any(one.spawn.sort.policies or one.spawn.sort.counted for one in self.asked)
        )

    def _let_in(self) -> Op[None]:
        """Decide one after the other, in the order in which they were asked for: whoever comes later meets those who
        came before. Then set right who has which identity, and give back the room that was not needed."""
        children = {task: parent.children for task, parent in self.parents.items()}
        yield from self._read_own()
        new: dict[Identity, int] = {}
        for place in self._open:
            one, parent, number = self.asked[place], self.asks[place], self.ids[place]
            task, is_counted = one.lease.task, bool(one.spawn.sort.counted)
            if (met := self._first_met(place)) is not None:
                self.decided[place] = met
                continue
            if (full := self._no_room(parent, None if one.batch else children[task])) is not None:
                yield from self._refuse_or_exceed(place, full)
            if is_counted:
                self._refuse(place, self._spent(place), final=True)
            if place in self.decided:
                continue
            if is_counted:
                self.counts.update(self._counting(place).keys())
            parked = self.parked.get(place)
            waits = () if parked is None else tuple(parked.values())
            self.decided[place] = Decision(number, True, None, parent.batch, waits)
            children[task] += one.batch is None  # those of a batch have its room, and that of their lineage
            for room in parent.rooms:
                room.left -= 1
            if parked is not None and parked.keys() & REPEATS:
                self.own[task, one.spawn.identity] = number
                continue
            for identity in one.identities:
                new[identity] = number
                self.holders[identity] = Holder(number, task, Status.PENDING, None, one.spawn.identity)
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
        one, parent = self.asked[place].spawn.sort, self.asks[place]
        return task_budgets(one.counted, one.kind, str(parent.counted_in[0]), parent.batch, self.now)

    def _hold_budgets(self) -> Op[None]:
        counted = [place for place in self._open if self.asked[place].spawn.sort.counted]
        wanted = {key: rule for place in counted for key, rule in self._counting(place).items()}
        self.budgets = yield from lock_accounts(wanted, self.now)

    def _spent(self, place: int) -> Refused | None:
        for key in self._counting(place):
            if self.budgets[key].left < (self.counts[key] + 1) * WHOLE:
                return Refused(Rule.BUDGET, spent_on_tasks(self.budgets[key]))
        return None

    def _no_room(self, parent: Parent, children: int | None) -> Refused | None:
        if without := [room for room in reversed(parent.rooms) if room.left <= 0]:
            full = min(without, key=lambda room: room.max_tasks)
            return Refused(Rule.LIMIT, f"its {_named(full, parent)} has no room: max_tasks is {full.max_tasks}")
        return None if children is None else refused_by_children(children, parent.most_children)

    def _refuse_or_exceed(self, place: int, full: Refused) -> Op[None]:
        """Refuse a spawn for which there is no room; or have an operator asked, if it is one of not too many."""
        parent = self.parents[self.asked[place].lease.task]
        if not self._asks(place, full.rule):
            self._refuse(place, full)
            return
        if parent.beyond is None:
            notes = yield Query("parked_children", {"task": parent.lease.task})
            parent.beyond = sum(Rule.LIMIT in rules_in(note) for (note,) in notes)
        self._refuse(place, full, final=parent.beyond >= MOST_BEYOND)
        parent.beyond += 1

    def _read_own(self) -> Op[None]:
        """Find the children that tasks have already of work about which an operator is asked. Nobody else can make any
        meanwhile: their parents are locked."""
        wanted: set[tuple[int, bytes]] = set()
        for place in self._open:
            one = self.asked[place]
            asks = one.spawn.sort.policies and any(self._asks(place, rule) for rule in REPEATS)
            if asks and (one.identities or Rule.CYCLE in self.parked.get(place, {})):
                wanted.add((one.lease.task, one.spawn.identity))
        if wanted:
            for parent, identity, task in (yield Many("own_children", sorted(wanted))):
                self.own.setdefault((parent, bytes(identity)), task)

    def _first_met(self, place: int) -> Decision | None:
        """What it means for a spawn that its identity is taken, in its lineage or everywhere; None if it is not, or if
        an operator is asked about that."""
        one = self.asked[place]
        mine = self.own.get((one.lease.task, one.spawn.identity)) if self.own else None
        if mine is not None and one.spawn.follows is None:
            return Decision(mine)  # the same child, asked for again
        for identity in one.identities:
            holder = self.holders.get(identity)
            if holder is not None and (decision := self._met(place, identity[0], holder)) is not None:
                return decision
        return None

    def _met(self, place: int, scope: bytes, holder: Holder) -> Decision | None:
        """What it means that a holder was met; None if it gives way, or if an operator is asked."""
        one = self.asked[place]
        if self._is_asked_about(place, holder):
            return None
        if holder.parent == one.lease.task and holder.status is not Status.CANCELLED:
            if one.spawn.follows is None and holder.identity == one.spawn.identity:
                return Decision(holder.task)  # the same child, asked for again
            # That one does not wait for this batch, or it goes by another key: nobody would find it by this one.
            return self._refused_as_met(place, holder)
        if scope == EVERYWHERE:
            if not stays(holder.status, holder.ended_at, one.spawn.sort.fresh_for_ms, self.now):
                return None
            self.links.append((place, holder))
            return Decision(holder.task)
        if holder.status is Status.CANCELLED:
            return None
        refused = self._refused_as_met(place, holder)
        if refused is not None:
            self.links.append((place, holder))
        return refused

    def _refused_as_met(self, place: int, holder: Holder) -> Decision | None:
        """The refusal of work that its lineage has already; None if an operator is asked about that."""
        refused = met_in_lineage(self.asked[place].spawn, holder.task, holder.status)
        if self._asks(place, refused.rule):
            self._refuse(place, refused)
            return None
        return Decision(None, refused=refused)

    def _is_asked_about(self, place: int, holder: Holder) -> bool:
        """Whether an operator is asked about a spawn because it is the work of this very task."""
        parked = self.parked.get(place, {})
        if any(refused.existing == holder.task for refused in parked.values()):
            return True
        return Rule.CYCLE in parked and any(one.task == holder.task for one in self.asks[place].family)

    # Links

    def _link(self) -> Op[None]:
        """Remember whom a child was folded into, unless waiting for it would close a circle."""
        if self.links:
            yield Query("lock_links")
        for place, holder in self.links:
            one = self.asked[place]
            above = yield Query("tasks_waiting_for", {"task": one.lease.task})
            if holder.task in {row[0] for row in above}:
                reason = f"task {holder.task} waits for the spawning task; waiting for it would close a circle"
                self.decided[place] = Decision(None, refused=Refused(Rule.CYCLE, reason, existing=holder.task))
            else:
                asked_as = None if holder.identity == one.spawn.identity else one.spawn.identity
                yield Many("insert_links", [(one.lease.task, holder.task, one.stage, asked_as, self.now)])


def met_in_lineage(spawn: Spawn, holder: int, status: Status) -> Refused:
    """The refusal of work that its lineage has already."""
    what = spawn.in_words
    if status.is_terminal:
        return Refused(Rule.DONE, f"{what} was done in this lineage: task {holder}, {status.word}", existing=holder)
    return Refused(Rule.DUPLICATE, f"{what} is under way in this lineage: task {holder}", existing=holder)


class Decided(NamedTuple):
    """What became of children that were asked for, in order."""

    decisions: list[Decision]
    beginners: frozenset[int]
    """Tasks that have asked for nothing before, and have got all that they ask for now: nobody needs to read it."""


def spawn(asked: Sequence[Asked], now: int, aliases: Sequence[NewAlias] = ()) -> Op[Decided]:
    """Decide on children and make those that may be; tasks get the further keys that come with them."""
    guard = _Guard(asked, now, aliases)
    decisions = yield from guard.decide()
    both = list(zip(asked, decisions, strict=True))
    for one, refused in [(one, decision.refused) for one, decision in both if decision.refused is not None]:
        if one.spawn.sort.policy(refused.rule) == "raise":
            raise SpawnRefused(f"{one.spawn.in_words} was not spawned: {refused.reason}")
        if one.batch is not None and refused.rule in LIMITS and not one.spawn.sort.lets_part_in(refused.rule):
            wanted = sum(other.batch == one.batch for other in asked)
            raise SpawnRefused(cannot_take_all(one.spawn.batch, wanted, refused))
    new = [
        (one, parent, d.task)
        for (one, d), parent in zip(both, guard.asks, strict=True)
        if d.is_new and d.task is not None
    ]
    if new:
        yield from make(new, now)
        if any(parent.is_paused for parent in guard.parents.values()):
            yield Query("pause_tasks", {"ids": sorted(task for _, parent, task in new if parent.is_paused)})
        yield from park([(one, d.task, d.parked) for one, d in both if d.parked and d.task], now)
    yield from record(both, guard.parents, now)
    beginners = [task for task, parent in guard.parents.items() if not parent.has_asked] if guard.is_free else []
    return Decided(decisions, frozenset(beginners))


def _lineage_row(root: Parent) -> tuple[uuid.UUID, int, int, int, int, int, int, int]:
    lease, bounds = root.lease, root.bounds
    return (
        lease.lineage, lease.task, bounds.max_depth, bounds.max_tasks, bounds.max_children,
        lease.created_at + bounds.deadline_ms, 1, lease.created_at,
    )  # fmt: skip


def _named(room: Room, parent: Parent) -> str:
    """Whose counter it is. That of a batch says nothing of depth and children; a branch of which nothing may come has
    no use for one."""
    if room is parent.rooms[0]:
        return "lineage"
    is_batch = room.max_depth == room.max_children == 0
    return "batch" if is_batch else f"branch, which begins with task {room.root},"
