"""Further keys of tasks (`ctx.alias`). An alias is an identity of its task, like its own:

- It stands where the own one stands: in its lineage, with `unique="everywhere"` also everywhere, with `"no"` nowhere.
- Whoever has an identity keeps it, whether as its own or as an alias, until it gives way: in a lineage if it was
  cancelled, everywhere if it has ended and is not fresh. So a task may not get what it goes by. What it has got it has
  as long as it is open, and takes back when it is opened again; if somebody else is at that work, it is not opened.
- Among ancestors every alias counts, whoever has that identity: a circle is one whoever came first.
- What a task has everywhere is dropped when it is pruned, the rest when its whole lineage is.

Aliases that come with children are taken by the spawn guard, in one go with the identities of the children: so the lock
order is that of all spawns, lineages before identities, identities sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from onceward.model.lineage import EVERYWHERE, Alias, Ancestor, stays
from onceward.model.status import Status
from onceward.model.task import Lease
from onceward.store.lineage.identities import Holder, read_holders, take_identities
from onceward.store.lineage.spawn_requests import Identity
from onceward.store.op import Many, Op, Query


class NewAlias(NamedTuple):
    """Another key that a stage has given its task."""

    lease: Lease
    alias: Alias
    unique: str
    fresh_for_ms: int | None

    @property
    def here(self) -> Identity:
        """Its identity in its lineage."""
        return self.lease.lineage_bytes, self.alias.identity

    @property
    def everywhere(self) -> Identity:
        """Its identity in the whole database."""
        return EVERYWHERE, self.alias.identity

    @property
    def identities(self) -> list[Identity]:
        """Where its identity is to stand."""
        if self.unique == "no":
            return []
        return [self.here, self.everywhere] if self.unique == "everywhere" else [self.here]

    def gives_way(self, scope: bytes, holder: Holder, now: int) -> bool:
        """Whether somebody who has its identity counts no more."""
        if scope == EVERYWHERE:
            return not stays(holder.status, holder.ended_at, self.fresh_for_ms, now)
        return holder.status is Status.CANCELLED


def take_aliases(aliases: Sequence[NewAlias], now: int) -> Op[None]:
    """Let tasks that ask for no children be known by further keys."""
    met = yield from take_identities(wanted_by(aliases))
    yield from keep(aliases, (yield from read_holders(met)) if met else {}, now)


def wanted_by(aliases: Iterable[NewAlias]) -> dict[Identity, int]:
    """The identities that aliases want, for the first who wants each."""
    return {identity: one.lease.task for identity, one in _first(aliases).items()}


def keep(aliases: Sequence[NewAlias], holders: Mapping[Identity, Holder], now: int) -> Op[dict[Identity, int]]:
    """Remember aliases whose identities were taken, but for those that others have: whoever counts no more gives way.
    Returns who has the identities that they want."""
    owners: dict[Identity, int] = {}
    for identity, one in _first(aliases).items():
        holder = holders.get(identity)
        if holder is None or one.gives_way(identity[0], holder, now):
            owners[identity] = one.lease.task
        else:
            owners[identity] = holder.task
    over = [(*one, task) for one, task in owners.items() if one in holders and holders[one].task != task]
    if over:
        yield Many("take_over_identities", sorted(over))
    rows = {
        (one.lease.task, one.alias.identity): (
            one.lease.task, one.alias.identity, one.alias.key, one.lease.lineage,
            int(owners.get(one.here) == one.lease.task), int(owners.get(one.everywhere) == one.lease.task),
        )
        for one in aliases
    }  # fmt: skip
    yield Many("insert_aliases", [rows[place] for place in sorted(rows)])
    return owners


def _first(aliases: Iterable[NewAlias]) -> dict[Identity, NewAlias]:
    """The first of them for every identity that they want."""
    first: dict[Identity, NewAlias] = {}
    for one in aliases:
        for identity in one.identities:
            first.setdefault(identity, one)
    return first


def read_aliases(tasks: Iterable[int]) -> Op[dict[int, list[Ancestor]]]:
    """The other keys of tasks, as they are looked for among ancestors."""
    found: dict[int, list[Ancestor]] = {}
    for task, hashed, key in (yield Query("aliases_of", {"ids": sorted(tasks)})):
        # Whoever was known by another key before keys were kept is still known by what it made with its kind.
        known = Ancestor(task, bytes(hashed), b"") if key is None else Alias(bytes(hashed), key).of(task)
        found.setdefault(task, []).append(known)
    return found
