"""The rules of spawning in a hundred lines: one spawn after the other, with nothing stored."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from onceward import Status
from onceward.model.lineage import REPEATS, Bounds, Rule
from onceward.store.lineage.insert_children import REFUSALS_KEPT


@dataclass(frozen=True)
class Verdict:
    """Whether a child is new, which task it is, the rule by which it was refused, and whom it met."""

    is_new: bool = False
    task: int | None = None
    rule: Rule | None = None
    met: int | None = None
    asked: frozenset[Rule] = frozenset()
    """The rules about which an operator is asked."""


@dataclass(frozen=True)
class Kind:
    """How the pipeline of a kind wants it."""

    unique: str = "lineage"
    by_key: bool = False
    fresh_for_ms: int | None = None
    asks: bool = False
    """Whether an operator is asked about what a rule refuses."""


KINDS = {
    "plain": Kind(),
    "by key": Kind(by_key=True),
    "one": Kind("everywhere"),
    "fresh": Kind("everywhere", fresh_for_ms=5_000),
    "free": Kind("no"),
    "asking": Kind(by_key=True, asks=True),
    "asking one": Kind("everywhere", asks=True),
    "asking free": Kind("no", asks=True),
}


@dataclass
class Counted:
    """A lineage, or a narrower scope in it."""

    max_tasks: int
    tasks: int = 1


@dataclass
class Member:
    """A task of a lineage."""

    id: int
    kind: str
    key: str
    lineage: uuid.UUID
    bounds: Bounds
    created_at: int
    parent: Member | None = None
    scopes: tuple[uuid.UUID, ...] = ()
    status: Status = Status.PENDING
    ended_at: int = 0
    children: int = 0
    asked: frozenset[Rule] = frozenset()
    aliases: dict[str, list[uuid.UUID | None]] = field(default_factory=dict)
    """Its other keys, and where it has got each."""

    @property
    def keys(self) -> set[str]:
        """All that it goes by."""
        return {self.key, *self.aliases}

    @property
    def family(self) -> list[Member]:
        """Its ancestors and itself, root first."""
        return [*(self.parent.family if self.parent is not None else []), self]

    @property
    def root(self) -> Member:
        return self.family[0]


@dataclass
class Model:
    """All lineages."""

    members: dict[int, Member] = field(default_factory=dict)
    counted: dict[uuid.UUID, Counted] = field(default_factory=dict)
    holders: dict[tuple[uuid.UUID | None, str, str], int] = field(default_factory=dict)
    """Who has an identity in a lineage, or everywhere (None)."""
    links: set[tuple[int, int]] = field(default_factory=set)

    def root(self, kind: str, key: str, now: int) -> int | None:
        """The task that a new root would be linked to."""
        holder = self.holders.get((None, kind, key)) if KINDS[kind].unique == "everywhere" else None
        return holder if holder is not None and self._stays(holder, kind, now) else None

    def add_root(self, member: Member) -> None:
        self.members[member.id] = member
        self.counted[member.lineage] = Counted(member.bounds.max_tasks)
        if KINDS[member.kind].unique == "everywhere":
            self.holders[None, member.kind, member.key] = member.id

    def judge(self, parent: Member, kind: str, key: str, now: int) -> Verdict:
        """What becomes of a spawn. A new child is added by `add_child`, when its id is known."""
        bounds, asks = parent.bounds, KINDS[kind].asks
        asked: dict[Rule, list[int]] = {}  # and the tasks that are the reason
        if len(parent.family) > bounds.max_depth:
            if not asks:
                return Verdict(rule=Rule.DEPTH)
            asked[Rule.DEPTH] = []
        if any(key in one.keys and (KINDS[kind].by_key or one.kind == kind) for one in parent.family):
            if not asks:
                return Verdict(rule=Rule.CYCLE)
            asked[Rule.CYCLE] = [one.id for one in parent.family]
        if now >= parent.root.created_at + bounds.deadline_ms:
            return Verdict(rule=Rule.LIMIT)
        if asks and (Rule.CYCLE in asked or KINDS[kind].unique != "no"):
            for one in self.members.values():
                if (one.parent, one.kind, one.key) == (parent, kind, key) and one.status is not Status.CANCELLED:
                    return Verdict(task=one.id)
        for scope in self._scopes(parent, kind):
            if self.holders.get((scope, kind, key)) in [task for tasks in asked.values() for task in tasks]:
                continue
            met = self._meets(parent, scope, kind, key, now)
            if met is not None and asks and met.rule in (Rule.DONE, Rule.DUPLICATE):
                asked[met.rule] = [met.met or 0]
            elif met is not None:
                return met
        full = any(self.counted[scope].tasks >= self.counted[scope].max_tasks for scope in self._counters(parent))
        if full or parent.children >= bounds.max_children:
            mine = [one for one in self.members.values() if one.parent is parent and Rule.LIMIT in one.asked]
            if not asks or len(mine) >= REFUSALS_KEPT:
                return Verdict(rule=Rule.LIMIT)
            asked[Rule.LIMIT] = []
        return Verdict(is_new=True, asked=frozenset(asked))

    def add_child(self, child: Member, scope: uuid.UUID | None) -> None:
        assert child.parent is not None
        self.members[child.id] = child
        for counter in self._counters(child.parent):
            self.counted[counter].tasks += 1
        if scope is not None:
            self.counted[scope] = Counted(child.bounds.max_tasks)
        if child.asked.isdisjoint(REPEATS):
            for where in self._scopes(child.parent, child.kind):
                self.holders[where, child.kind, child.key] = child.id
        child.parent.children += 1

    def alias(self, names: list[tuple[int, str]], now: int) -> None:
        """Let tasks go by further keys: whoever had one of them before has it still, unless it counts no more."""
        wanted: dict[tuple[uuid.UUID | None, str, str], int] = {}
        for task, key in names:
            member = self.members[task]
            for scope in self._scopes(member, member.kind):
                wanted.setdefault((scope, member.kind, key), task)
        for place, task in wanted.items():
            holder = self.holders.get(place, task)
            is_cancelled = self.members[holder].status is Status.CANCELLED
            if is_cancelled if place[0] is not None else not self._stays(holder, place[1], now):
                holder = task
            self.holders[place] = holder
        for task, key in names:
            member = self.members[task]
            scopes = self._scopes(member, member.kind)
            member.aliases[key] = [scope for scope in scopes if self.holders[scope, member.kind, key] == task]

    def reopen(self, member: Member) -> bool:
        """Open a task again, unless another is at the same work; returns whether."""
        places = [(scope, member.kind, member.key) for scope in (member.lineage, None)]
        places += [(scope, member.kind, key) for key, scopes in member.aliases.items() for scope in scopes]
        held = [place for place in places if self.holders.get(place, member.id) != member.id]
        if any(not self.members[self.holders[place]].status.is_terminal for place in held):
            return False
        self.holders.update(dict.fromkeys(held, member.id))
        member.status = Status.PENDING
        return True

    def _scopes(self, parent: Member, kind: str) -> list[uuid.UUID | None]:
        """Where its identity must be free."""
        return {"no": [], "lineage": [parent.lineage], "everywhere": [parent.lineage, None]}[KINDS[kind].unique]

    def _counters(self, parent: Member) -> list[uuid.UUID]:
        return [parent.lineage, *parent.scopes]

    def _meets(self, parent: Member, scope: uuid.UUID | None, kind: str, key: str, now: int) -> Verdict | None:
        holder = self.holders.get((scope, kind, key))
        if holder is None:
            return None
        met = self.members[holder]
        if met.status is Status.CANCELLED:
            return None
        refused = Verdict(rule=Rule.DONE if met.status.is_terminal else Rule.DUPLICATE, met=holder)
        if met.parent is parent:
            return Verdict(task=holder) if met.key == key else refused
        if scope is None and not self._stays(holder, kind, now):
            return None
        if scope is not None and KINDS[kind].asks:
            return refused
        if holder in self._waiting_for(parent.id):
            return Verdict(rule=Rule.CYCLE, met=holder)
        self.links.add((parent.id, holder))
        return Verdict(task=holder) if scope is None else refused

    def _stays(self, holder: int, kind: str, now: int) -> bool:
        met, fresh_for_ms = self.members[holder], KINDS[kind].fresh_for_ms
        if not met.status.is_terminal:
            return True
        return met.status is Status.SUCCEEDED and fresh_for_ms is not None and met.ended_at > now - fresh_for_ms

    def _waiting_for(self, task: int) -> set[int]:
        """Everybody who waits, or may come to wait, for a task."""
        found, new = {task}, {task}
        while new:
            above = {link[0] for link in self.links if link[1] in new}
            above |= {parent.id for one in new if (parent := self.members[one].parent) is not None}
            new = above - found
            found |= new
        return found
