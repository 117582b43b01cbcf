"""Further keys of tasks (`ctx.alias`, decision 45). An alias is an identity of its task, like that of its own key:

- Its scopes are those of the own key: the lineage, with `unique="everywhere"` also everywhere, with `"no"` none.
- A holder keeps an identity, own or alias, until it gives way: in a lineage once it was cancelled, everywhere once it
  has ended and is not fresh. So a task may not get the identity of its alias. It holds what it got while it is open. A
  reopened task takes its identities back; it is not reopened while another open task holds one.
- Among ancestors every alias counts, even if another task holds its identity: a circle is one in any order of arrival.
- Pruning a task drops its identities everywhere; those in the lineage go with the whole lineage.

The spawn guard takes aliases together with the identities of the children of the same commit: so the lock order is that
of all spawns, lineages before identities, identities sorted (decision 46).
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
        """Its identity in each of its scopes."""
        if self.unique == "no":
            return []
        return [self.here, self.everywhere] if self.unique == "everywhere" else [self.here]

    def gives_way(self, scope: bytes, holder: Holder, now: int) -> bool:
        """Whether a holder of its identity in this scope gives it up to the alias."""
        if scope == EVERYWHERE:
            return not stays(holder.status, holder.ended_at, self.fresh_for_ms, now)
        return holder.status is Status.CANCELLED


def take_aliases(aliases: Sequence[NewAlias], now: int) -> Op[None]:
    """Give further keys to tasks that spawn no children in this transaction."""
    met = yield from take_identities(wanted_identities(aliases))
    yield from store_aliases(aliases, (yield from read_holders(met)) if met else {}, now)


def wanted_identities(aliases: Iterable[NewAlias]) -> dict[Identity, int]:
    """The identities that aliases want, each for the first task that wants it."""
    return {identity: one.lease.task for identity, one in _first(aliases).items()}


def store_aliases(aliases: Sequence[NewAlias], holders: Mapping[Identity, Holder], now: int) -> Op[dict[Identity, int]]:
    """Store aliases, and take their identities over from holders that give way; returns the holder of each."""
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
    """The first alias for each wanted identity."""
    first: dict[Identity, NewAlias] = {}
    for one in aliases:
        for identity in one.identities:
            first.setdefault(identity, one)
    return first


def read_aliases(tasks: Iterable[int]) -> Op[dict[int, list[Ancestor]]]:
    """Read the aliases of tasks, in the form of ancestors."""
    found: dict[int, list[Ancestor]] = {}
    for task, hashed, key in (yield Query("aliases_of", {"ids": sorted(tasks)})):
        # An alias from before keys were stored is known by its identity alone.
        known = Ancestor(task, bytes(hashed), b"") if key is None else Alias(bytes(hashed), key).of(task)
        found.setdefault(task, []).append(known)
    return found
