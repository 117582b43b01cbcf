"""Values of the spawn guard: requests for children, their parents, and decisions."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec

from onceward.model.lineage import EVERYWHERE, Ancestor, Bounds, Refused, Spawn, ancestry_below, read_ancestry
from onceward.model.task import Lease

Identity = tuple[bytes, bytes]
"""A scope and a hash."""


class InBatch(NamedTuple):
    """A batch to which a child is added, with the counter in which it needs room there."""

    id: int
    scope: uuid.UUID | None


class SpawnRequest(msgspec.Struct, frozen=True, gc=False):
    """A request of a stage for one child."""

    lease: Lease
    stage: str
    key_hash: bytes
    """The key of the parent, as a hash."""
    defaults: Bounds
    """The limits of a lineage whose root has set none."""
    spawn: Spawn
    batch: InBatch | None = None
    """The batch that its stage adds it to; without one it belongs to the batch of its parent."""

    @property
    def identities(self) -> list[Identity]:
        """The identities that must be free for it."""
        unique, identity = self.spawn.sort.unique, self.spawn.identity
        if unique == "no":
            return []
        here = self.lease.lineage_bytes, identity
        return [here, (EVERYWHERE, identity)] if unique == "everywhere" else [here]


@dataclass(slots=True)
class Room:
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


@dataclass(slots=True)
class Parent:
    """A task that spawns, as read from its row. Its fence has locked the row: no other transaction adds children."""

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
    has_asked: bool
    """Whether it has children, links or refusals from before."""
    aliases: tuple[Ancestor, ...] = ()
    """The aliases of its ancestors and its own."""

    family: list[Ancestor] = field(init=False)
    """Its ancestors and itself, under all their keys."""
    above: frozenset[bytes] = field(init=False)
    """Their identities."""
    counted_in: list[uuid.UUID] = field(init=False)
    """The counters in which a child needs room: that of its lineage, and narrower ones below."""
    below: bytes = field(init=False)
    """The ancestry of its children."""
    wanted: int = 0
    """Number of its requests that are not decided yet."""
    rooms: list[Room] = field(default_factory=list)
    """The state of those counters, once room was reserved."""
    beyond: int | None = None
    """Number of its children beyond the room, which wait for approval; None until it is read."""

    @property
    def most_children(self) -> int:
        """How many children it may have, now that its counters are known."""
        return min(self.bounds.max_children, self.rooms[0].max_children)

    @property
    def lineage_row(self) -> tuple[uuid.UUID, int, int, int, int, int, int, int]:
        """The row of the lineage whose root it is."""
        lease, bounds = self.lease, self.bounds
        return (
            lease.lineage, lease.task, bounds.max_depth, bounds.max_tasks, bounds.max_children,
            lease.created_at + bounds.deadline_ms, 1, lease.created_at,
        )  # fmt: skip

    def word_for(self, room: Room) -> str:
        """The word for the owner of one of its counters."""
        if room is self.rooms[0]:
            return "lineage"
        # The counter of a batch has zero depth and zero children; a branch with both zero needs no counter.
        is_batch = room.max_depth == room.max_children == 0
        return "batch" if is_batch else f"branch, which begins with task {room.root},"

    def adding_to(self, batch: InBatch) -> Parent:
        """The same parent, as seen by the children that it adds to a batch."""
        scopes = self.scopes if batch.scope is None else (self.scopes or b"") + batch.scope.bytes
        return replace(self, batch=batch.id, scopes=scopes)

    def __post_init__(self) -> None:
        myself = Ancestor(self.lease.task, self.identity, self.key_hash)
        self.family = [*read_ancestry(self.ancestry), *self.aliases, myself]
        self.above = frozenset([one.identity for one in self.family])
        self.counted_in = [self.lease.lineage, *scopes_in(self.scopes)]
        self.below = ancestry_below(self.ancestry, *msgspec.structs.astuple(myself))


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The decision on a spawn: a new child, an existing task, or a refusal."""

    task: int | None
    is_new: bool = False
    refused: Refused | None = None
    batch: int | None = None
    """The batch to which a new child has been added, because its parent belongs to it."""
    parked: tuple[Refused, ...] = ()
    """Why a new child waits for approval, if it does: by every rule that would have refused it."""


def scopes_in(data: bytes | None) -> list[uuid.UUID]:
    """The narrower scopes in which a task is counted."""
    return [] if not data else [uuid.UUID(bytes=data[start : start + 16]) for start in range(0, len(data), 16)]
