"""Parents that wait for children, pauses, a budget and a schedule in a hundred lines, with nothing stored."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from onceward import Status

MINUTE_MS = 60_000
OPEN = (Status.PENDING, Status.RUNNING, Status.WAITING, Status.RETRYABLE)
CHILDREN, BUDGET = "children", "budget:usd"


@dataclass
class Member:
    """A task as the model sees it."""

    id: int
    lineage: uuid.UUID
    parent: Member | None = None
    costly: bool = False
    """Whether something is set aside before it runs."""
    status: Status = Status.PENDING
    waiting_for: str | None = None
    token: bytes | None = None
    worker: int | None = None
    run: int = 1
    stage: int = 0
    paused: bool = False
    due_at: int = 0
    ended_at: int = 0
    joins: set[int] = field(default_factory=set)
    """The children it waits for."""
    ended_waiting: bool = False
    """Whether it waited for its children when it ended."""

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    def is_over(self, before: int) -> bool:
        """Whether it ended before a time."""
        return not self.is_open and self.ended_at < before

    @property
    def above(self) -> list[Member]:
        """Its ancestors, the nearest first."""
        return [] if self.parent is None else [self.parent, *self.parent.above]

    def goes_back(self, status: Status, due_at: int) -> None:
        """Nobody holds it."""
        self.status, self.due_at, self.token, self.worker, self.waiting_for = status, due_at, None, None, None


@dataclass
class World:
    """All tasks, the budget and the schedule."""

    estimate: int
    ceiling: int
    next_at: int
    members: dict[int, Member] = field(default_factory=dict)
    spent: int = 0
    reserved: dict[tuple[int, bytes], int] = field(default_factory=dict)
    """What is set aside, for which attempt of which task."""
    fired: int = 0

    @property
    def left(self) -> int:
        return max(0, self.ceiling - self.spent - sum(self.reserved.values()))

    @property
    def fitting(self) -> int:
        """For how many more there is enough."""
        return self.left // self.estimate

    def waiting_for(self, what: str) -> list[Member]:
        return [one for one in self.members.values() if one.waiting_for == what]

    def below(self, head: Member) -> list[Member]:
        """A task and all that descend from it."""
        return [one for one in self.members.values() if one is head or head in one.above]

    def ended(self, member: Member, status: Status, now: int) -> None:
        """It is over, and whoever waited for it as the last one goes on."""
        member.ended_waiting = member.waiting_for == CHILDREN
        member.goes_back(status, member.due_at)
        member.ended_at = now
        member.joins.clear()
        for parent in self.members.values():
            if member.id in parent.joins:
                parent.joins.remove(member.id)
                if not parent.joins:
                    parent.goes_back(Status.PENDING, now)

    def handed_over(self, member: Member, now: int) -> None:
        """Its next stage waits for those of its children that are open."""
        member.goes_back(Status.PENDING, now)
        member.stage += 1
        member.costly = False
        self.waits_for_children(member)

    def waits_for_children(self, member: Member) -> None:
        """It waits for those of its children that are open, if there are any."""
        member.joins = {one.id for one in self.members.values() if one.parent is member and one.is_open}
        if member.joins:
            member.status, member.waiting_for = Status.WAITING, CHILDREN

    def settled(self, member: Member, charged: int) -> None:
        """An attempt is over: what it says is spent; of others of its task that were lost, all that was set aside."""
        for task, token in [one for one in self.reserved if one[0] == member.id]:
            amount = self.reserved.pop((task, token))
            self.spent += charged if token == member.token else amount

    def swept(self) -> None:
        """Of attempts that nobody will hear of, all that was set aside is spent."""
        for task, token in list(self.reserved):
            member = self.members.get(task)
            if member is None or member.token != token:
                self.spent += self.reserved.pop((task, token))

    def may_pause(self, head: Member) -> bool:
        return not head.paused and any(one.is_open for one in self.below(head))

    def may_resume(self, head: Member) -> bool:
        return not any(one.paused for one in head.above) and any(one.paused for one in self.below(head))

    def reopened(self, member: Member, fresh: bool, now: int) -> None:
        """An operator opens it again: if it ended while it waited for its children, it does so again."""
        waits_again = member.ended_waiting and not member.is_open and not fresh
        member.goes_back(Status.PENDING, now)
        member.joins.clear()
        member.run += fresh
        member.stage = 0 if fresh else member.stage
        member.costly = member.costly and not fresh
        member.paused = member.paused or any(one.paused for one in member.above)
        if waits_again:
            self.waits_for_children(member)
