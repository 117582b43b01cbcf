"""The spawn guard: decides, in the transaction that commits a stage, which requested children are made (decision 19).

Depth and ancestry follow from the row of the parent. For the rest constraints decide: an identity is a row with a
primary key, room in a lineage a counter that cannot pass its limit. All spawns of a transaction take locks in one order
(decision 46): lineages, then identities, those of aliases among them, each sorted. A refusal is an answer with a
reason, and a row.
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
from onceward.store.lineage.aliases import NewAlias, read_aliases, store_aliases, take_aliases, wanted_identities
from onceward.store.lineage.identities import Holder, read_holders, take_identities
from onceward.store.lineage.insert_children import insert_children, park_children, record_decisions
from onceward.store.lineage.spawn_requests import Decision, Identity, Parent, Room, SpawnRequest
from onceward.store.lines.enqueue import reserve_ids
from onceward.store.op import Many, Op, Query
from onceward.store.rows import as_uuid

MOST_BEYOND = 100
"""How many children of one task may wait for approval because there is no room for them; the others are refused, so
that a bomb stays one of a known size."""


@dataclass(slots=True)
class _Guard:
    """The spawns of one transaction while they are decided."""

    requests: Sequence[SpawnRequest]
    now: int
    aliases: Sequence[NewAlias] = ()
    """Further keys that tasks have got with the same stages."""
    parents: dict[int, Parent] = field(default_factory=dict)
    in_batches: dict[tuple[int, int], Parent] = field(default_factory=dict)
    """Parents as seen by the children that they add to a batch."""
    request_parents: list[Parent] = field(default_factory=list)
    """The parent of each request, in their order."""
    decided: dict[int, Decision] = field(default_factory=dict)
    wanted: Counter[uuid.UUID] = field(default_factory=Counter)
    """Room wanted in each counter."""
    rooms: dict[uuid.UUID, Room] = field(default_factory=dict)
    ids: dict[int, int] = field(default_factory=dict)
    taken: dict[Identity, int] = field(default_factory=dict)
    """The identities that were free, each with the child for which it was taken so far."""
    is_shared: bool = False
    """Whether two requests want the same identity."""
    holders: dict[Identity, Holder] = field(default_factory=dict)
    is_free: bool = False
    """Whether every request was granted without a further look."""
    links: list[tuple[int, Holder]] = field(default_factory=list)
    parked: dict[int, dict[Rule, Refused]] = field(default_factory=dict)
    """Requests that rules refuse, but whose pipelines want an operator to decide."""
    budgets: dict[AccountKey, Account] = field(default_factory=dict)
    """Budgets that count some of the children."""
    counts: Counter[AccountKey] = field(default_factory=Counter)
    """Number of children that each budget has to count."""
    own: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """Children that a task has already, by parent and identity, where no row of an identity might tell."""

    def decide(self) -> Op[list[Decision]]:
        """Decide on all requests: takes identities and room, but makes no child yet."""
        yield from self._read_parents()
        self._refuse_at_once()
        if self._open:
            yield from self._reserve_room()
            yield from self._take_identities()
            if self._is_free_for_all:
                self.is_free = True
                return [
                    Decision(self.ids[at], True, None, parent.batch) for at, parent in enumerate(self.request_parents)
                ]
            yield from self._hold_budgets()
            yield from self._let_in()
        elif self.aliases:
            yield from take_aliases(self.aliases, self.now)
        yield from self._link()
        return [self.decided[index] for index in range(len(self.requests))]

    def _refuse_at_once(self) -> None:
        """Refuse what the rows of the parents show: too deep, stopped, a circle. Most requests pass."""
        too_deep = {
            task: refused
            for task, parent in self.parents.items()
            if (refused := refused_by_depth(parent.depth + 1, parent.bounds.max_depth)) is not None
        }
        doubtful = [
            index
            for index, (request, parent) in enumerate(zip(self.requests, self.request_parents, strict=True))
            if request.spawn.identity in parent.above
            or request.spawn.stopped is not None
            or request.spawn.key_hash is not None
        ]
        for index in range(len(self.requests)) if too_deep else doubtful:
            request, parent = self.requests[index], self.request_parents[index]
            if request.spawn.stopped is not None:
                self._refuse(index, Refused(Rule.STOPPED, request.spawn.stopped))
            self._refuse(index, too_deep.get(request.lease.task))
            self._refuse(index, refused_by_ancestors(request.spawn, parent.family))

    @property
    def _open(self) -> list[int]:
        return [index for index in range(len(self.requests)) if index not in self.decided]

    def _refuse(self, index: int, refused: Refused | None, *, final: bool = False) -> None:
        """Refuse a spawn by its first rule; or let an operator decide, if its pipeline wants that unless final."""
        if refused is None or index in self.decided:
            return
        if self._operator_decides(index, refused.rule) and not final:
            self.parked.setdefault(index, {}).setdefault(refused.rule, refused)
        else:
            self.decided[index] = Decision(None, refused=refused)

    def _operator_decides(self, index: int, rule: Rule) -> bool:
        """Whether an operator is to be asked if this rule refuses a spawn."""
        return self.requests[index].spawn.sort.policy(rule) == "park"

    def _read_parents(self) -> Op[None]:
        asking = {request.lease.task: request for request in self.requests}
        known: set[int] = set()
        rows = yield Query("spawning_tasks", {"ids": sorted(asking)})
        for task, identity, ancestry, limits, scopes, depth, children, refusals, batch, paused, has_asked, also in rows:
            request = asking[task]
            bounds = request.defaults if limits is None else msgspec.json.decode(limits, type=Bounds)
            self.parents[task] = Parent(
                request.lease, request.key_hash, bounds, identity, ancestry, limits, scopes, depth, children, refusals,
                batch, bool(paused), bool(has_asked),
            )  # fmt: skip
            if also or self.aliases:
                known.update(ancestor.task for ancestor in self.parents[task].family)
        if known:
            yield from self._read_aliases(known)
        self.request_parents = [self.parents[request.lease.task] for request in self.requests]
        for index, request in enumerate(self.requests):
            if (batch := request.batch) is not None:
                parent = self.request_parents[index]
                mine = parent.lease.task, batch.id
                self.in_batches[mine] = self.in_batches.get(mine) or parent.adding_to(batch)
                self.request_parents[index] = self.in_batches[mine]

    def _read_aliases(self, tasks: set[int]) -> Op[None]:
        """Add the aliases of parents and ancestors to their identities, also those of this commit."""
        found: dict[int, list[Ancestor]] = yield from read_aliases(tasks)
        for one in self.aliases:
            found.setdefault(one.lease.task, []).append(one.alias.of(one.lease.task))
        for task, parent in self.parents.items():
            aliases = tuple(alias for one in parent.family for alias in found.get(one.task, ()))
            if aliases:
                self.parents[task] = replace(parent, aliases=aliases)

    # Room

    def _reserve_room(self) -> Op[None]:
        """Reserve as much room as could be needed, and refuse what the limits of the lineage itself refuse."""
        roots = {task: parent for task, parent in sorted(self.parents.items()) if parent.depth == 0}
        if roots:
            yield Many("open_lineages", [parent.lineage_row for parent in roots.values()])
        for index in self._open:
            self.request_parents[index].wanted += 1
        parents = [*self.parents.values(), *self.in_batches.values()]
        for parent in parents:
            if parent.wanted:
                self.wanted.update(dict.fromkeys(parent.counted_in, parent.wanted))
        rows = yield Many("reserve_room", sorted(self.wanted.items()))
        self.rooms = {as_uuid(scope): Room(*rest) for scope, *rest in rows}
        for parent in parents:
            parent.rooms = [self.rooms[scope] for scope in parent.counted_in if scope in self.rooms]
        refused = {
            task: found
            for task, parent in self.parents.items()
            if parent.rooms and (found := self._refused_by_lineage(parent))
        }
        for index in self._open if refused else ():
            for one in refused.get(self.requests[index].lease.task, ()):
                # No operator is asked about a deadline: it would be over before an answer.
                self._refuse(index, one, final=one.rule is Rule.LIMIT)

    def _refused_by_lineage(self, parent: Parent) -> list[Refused]:
        """The refusals that the limits of a lineage give to all children of a task."""
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
        """Take all wanted identities, and read the holders of those that are not free.

        A row with another holder is locked by us from here on, so that the state of the holder cannot change.
        """
        indexes = self._open
        if indexes:
            self.ids = dict(zip(indexes, (yield from reserve_ids(len(indexes))), strict=True))
        wanted = [
            (identity, number) for index, number in self.ids.items() for identity in self.requests[index].identities
        ]
        self.taken = dict(reversed(wanted))  # for the first request that wants it
        self.is_shared = len(self.taken) < len(wanted)
        met = yield from take_identities(self.taken | wanted_identities(self.aliases) if self.aliases else self.taken)
        if met:
            self.holders = yield from read_holders(met)
        if self.aliases:
            met |= yield from store_aliases(self.aliases, self.holders, self.now)
            met = {identity: task for identity, task in met.items() if identity in self.taken}
            self.holders = (yield from read_holders(met)) if met else {}
        for identity in self.holders:
            del self.taken[identity]

    @property
    def _is_free_for_all(self) -> bool:
        """Whether all requests can be granted at once: no refusal, no other holder, no question to an operator, and
        room for all."""
        if self.decided or self.parked or self.holders or self.is_shared:
            return False
        return (
            all(room.left >= self.wanted[scope] for scope, room in self.rooms.items())
            and all(parent.children + parent.wanted <= parent.most_children for parent in self.parents.values())
            and not any(request.spawn.sort.policies or request.spawn.sort.counted for request in self.requests)
        )

    def _let_in(self) -> Op[None]:
        """Decide request by request, in their order: a later one meets the children of earlier ones. Then correct the
        holders of identities, and give back unused room."""
        children = {task: parent.children for task, parent in self.parents.items()}
        yield from self._read_own()
        new: dict[Identity, int] = {}
        for index in self._open:
            request, parent, number = self.requests[index], self.request_parents[index], self.ids[index]
            task, is_counted = request.lease.task, bool(request.spawn.sort.counted)
            if (met := self._decide_by_holders(index)) is not None:
                self.decided[index] = met
                continue
            if (full := self._no_room(parent, None if request.batch else children[task])) is not None:
                yield from self._refuse_or_exceed(index, full)
            if is_counted:
                self._refuse(index, self._spent(index), final=True)
            if index in self.decided:
                continue
            if is_counted:
                self.counts.update(self._counting(index).keys())
            parked = self.parked.get(index)
            waits = () if parked is None else tuple(parked.values())
            self.decided[index] = Decision(number, True, None, parent.batch, waits)
            children[task] += request.batch is None  # those of a batch have its room, and that of their lineage
            for room in parent.rooms:
                room.left -= 1
            if parked is not None and parked.keys() & REPEATS:
                self.own[task, request.spawn.identity] = number
                continue
            for identity in request.identities:
                new[identity] = number
                self.holders[identity] = Holder(number, task, Status.PENDING, None, request.spawn.identity)
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

    def _counting(self, index: int) -> dict[AccountKey, BudgetRule]:
        sort, parent = self.requests[index].spawn.sort, self.request_parents[index]
        return task_budgets(sort.counted, sort.kind, str(parent.counted_in[0]), parent.batch, self.now)

    def _hold_budgets(self) -> Op[None]:
        counted = [index for index in self._open if self.requests[index].spawn.sort.counted]
        wanted = {key: rule for index in counted for key, rule in self._counting(index).items()}
        self.budgets = yield from lock_accounts(wanted, self.now)

    def _spent(self, index: int) -> Refused | None:
        for key in self._counting(index):
            if self.budgets[key].left < (self.counts[key] + 1) * WHOLE:
                return Refused(Rule.BUDGET, spent_on_tasks(self.budgets[key]))
        return None

    def _no_room(self, parent: Parent, children: int | None) -> Refused | None:
        if without := [room for room in reversed(parent.rooms) if room.left <= 0]:
            full = min(without, key=lambda room: room.max_tasks)
            return Refused(Rule.LIMIT, f"its {parent.word_for(full)} has no room: max_tasks is {full.max_tasks}")
        return None if children is None else refused_by_children(children, parent.most_children)

    def _refuse_or_exceed(self, index: int, full: Refused) -> Op[None]:
        """Refuse a spawn without room; or let an operator decide, if not too many wait for that already."""
        parent = self.parents[self.requests[index].lease.task]
        if not self._operator_decides(index, full.rule):
            self._refuse(index, full)
            return
        if parent.beyond is None:
            notes = yield Query("parked_children", {"task": parent.lease.task})
            parent.beyond = sum(Rule.LIMIT in rules_in(note) for (note,) in notes)
        self._refuse(index, full, final=parent.beyond >= MOST_BEYOND)
        parent.beyond += 1

    def _read_own(self) -> Op[None]:
        """Read existing children with the same work, where an operator is asked about it. No others can appear
        meanwhile: their parents are locked."""
        wanted: set[tuple[int, bytes]] = set()
        for index in self._open:
            request = self.requests[index]
            is_parking = request.spawn.sort.policies and any(self._operator_decides(index, rule) for rule in REPEATS)
            if is_parking and (request.identities or Rule.CYCLE in self.parked.get(index, {})):
                wanted.add((request.lease.task, request.spawn.identity))
        if wanted:
            for parent, identity, task in (yield Many("own_children", sorted(wanted))):
                self.own.setdefault((parent, bytes(identity)), task)

    def _decide_by_holders(self, index: int) -> Decision | None:
        """Decide on a spawn whose identity is taken, in its lineage or everywhere; None if it is free, or if an
        operator decides."""
        request = self.requests[index]
        mine = self.own.get((request.lease.task, request.spawn.identity)) if self.own else None
        if mine is not None and request.spawn.follows is None:
            return Decision(mine)  # the same child, requested again
        for identity in request.identities:
            holder = self.holders.get(identity)
            if holder is not None and (decision := self._decide_by_holder(index, identity[0], holder)) is not None:
                return decision
        return None

    def _decide_by_holder(self, index: int, scope: bytes, holder: Holder) -> Decision | None:
        """Decide on a spawn that meets a holder; None if the holder gives way, or if an operator decides."""
        request = self.requests[index]
        if self._is_same_parked_work(index, holder):
            return None
        if holder.parent == request.lease.task and holder.status is not Status.CANCELLED:
            if request.spawn.follows is None and holder.identity == request.spawn.identity:
                return Decision(holder.task)  # the same child, requested again
            # That child does not wait for this batch, or has another key: its parent would not find it by this one.
            return self._refuse_repeat(index, holder)
        if scope == EVERYWHERE:
            if not stays(holder.status, holder.ended_at, request.spawn.sort.fresh_for_ms, self.now):
                return None
            self.links.append((index, holder))
            return Decision(holder.task)
        if holder.status is Status.CANCELLED:
            return None
        refused = self._refuse_repeat(index, holder)
        if refused is not None:
            self.links.append((index, holder))
        return refused

    def _refuse_repeat(self, index: int, holder: Holder) -> Decision | None:
        """The refusal of work that its lineage has already; None if an operator decides."""
        refused = met_in_lineage(self.requests[index].spawn, holder.task, holder.status)
        if self._operator_decides(index, refused.rule):
            self._refuse(index, refused)
            return None
        return Decision(None, refused=refused)

    def _is_same_parked_work(self, index: int, holder: Holder) -> bool:
        """Whether an operator is asked about a spawn because it is the work of this very task."""
        parked = self.parked.get(index, {})
        if any(refused.existing == holder.task for refused in parked.values()):
            return True
        return Rule.CYCLE in parked and any(one.task == holder.task for one in self.request_parents[index].family)

    # Links

    def _link(self) -> Op[None]:
        """Store the task that a child was folded into, unless waiting for it would close a circle."""
        if self.links:
            yield Query("lock_links")
        for index, holder in self.links:
            request = self.requests[index]
            above = yield Query("tasks_waiting_for", {"task": request.lease.task})
            if holder.task in {row[0] for row in above}:
                reason = f"task {holder.task} waits for the spawning task; waiting for it would close a circle"
                self.decided[index] = Decision(None, refused=Refused(Rule.CYCLE, reason, existing=holder.task))
            else:
                asked_as = None if holder.identity == request.spawn.identity else request.spawn.identity
                yield Many("insert_links", [(request.lease.task, holder.task, request.stage, asked_as, self.now)])


def met_in_lineage(spawn: Spawn, holder: int, status: Status) -> Refused:
    """The refusal of work that its lineage has already."""
    what = spawn.in_words
    if status.is_terminal:
        return Refused(Rule.DONE, f"{what} was done in this lineage: task {holder}, {status.word}", existing=holder)
    return Refused(Rule.DUPLICATE, f"{what} is under way in this lineage: task {holder}", existing=holder)


class SpawnDecisions(NamedTuple):
    """Decisions on requests, in their order."""

    decisions: list[Decision]
    beginners: frozenset[int]
    """Tasks that spawn for the first time, and were granted all: their children need not be read back."""


def spawn(requests: Sequence[SpawnRequest], now: int, aliases: Sequence[NewAlias] = ()) -> Op[SpawnDecisions]:
    """Decide on requests, make the granted children, and store the aliases of the same commits."""
    guard = _Guard(requests, now, aliases)
    decisions = yield from guard.decide()
    both = list(zip(requests, decisions, strict=True))
    for request, refused in [(request, decision.refused) for request, decision in both if decision.refused is not None]:
        if request.spawn.sort.policy(refused.rule) == "raise":
            raise SpawnRefused(f"{request.spawn.in_words} was not spawned: {refused.reason}")
        if request.batch is not None and refused.rule in LIMITS and not request.spawn.sort.lets_part_in(refused.rule):
            wanted = sum(other.batch == request.batch for other in requests)
            raise SpawnRefused(cannot_take_all(request.spawn.batch, wanted, refused))
    new = [
        (request, parent, d.task)
        for (request, d), parent in zip(both, guard.request_parents, strict=True)
        if d.is_new and d.task is not None
    ]
    if new:
        yield from insert_children(new, now)
        if any(parent.is_paused for parent in guard.parents.values()):
            yield Query("pause_tasks", {"ids": sorted(task for _, parent, task in new if parent.is_paused)})
        yield from park_children([(request, d.task, d.parked) for request, d in both if d.parked and d.task], now)
    yield from record_decisions(both, guard.parents, now)
    beginners = [task for task, parent in guard.parents.items() if not parent.has_asked] if guard.is_free else []
    return SpawnDecisions(decisions, frozenset(beginners))
