"""Who has an identity: taking those that are free, and meeting those who have the others.

An identity is a row with a primary key, `(scope, hash)`, that names a task. It stays with that task until somebody who
may do so takes it over: nothing is done about it when its task ends or is cancelled. Whoever meets the row looks at the
task, and the row is locked by then, so that what is seen of its holder stays true.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from onceward.model.status import Status
from onceward.store.lineage.spawn_requests import Identity
from onceward.store.op import Many, Op, Query


class Holder(NamedTuple):
    """The task that has an identity, as it stands."""

    task: int
    parent: int | None
    status: Status
    ended_at: int | None
    identity: bytes = b""
    """Its own; it may have another one as an alias."""


def take_identities(wanted: Mapping[Identity, int]) -> Op[dict[Identity, int]]:
    """Take identities for tasks; whoever has one keeps it. Returns who has those that were not free."""
    if not wanted:
        return {}
    rows = [(*identity, wanted[identity]) for identity in sorted(wanted)]
    before = yield Query("changes_so_far")
    met = yield Many("take_free_identities", rows)
    after = yield Query("changes_so_far")
    if before and after[0][0] - before[0][0] < len(rows):
        scopes, hashes, tasks = ([row[column] for row in rows] for column in range(3))
        met = yield Query("identities_met", {"scopes": scopes, "hashes": hashes, "tasks": tasks})
    return {(bytes(scope), bytes(hashed)): task for scope, hashed, task in met}


def read_holders(met: Mapping[Identity, int]) -> Op[dict[Identity, Holder]]:
    """Those who have identities, as they stand. One that was pruned had ended."""
    rows = yield Query("holders", {"ids": sorted(set(met.values()))})
    found = {row[0]: Holder(row[0], row[1], Status(row[2]), row[3], bytes(row[4])) for row in rows}
    return {identity: found.get(task) or Holder(task, None, Status.SUCCEEDED, 0) for identity, task in met.items()}


def read_open_holders(wanted: Collection[Identity]) -> Op[set[int]]:
    """Read which open tasks have identities, on a database where tasks are locked one by one."""
    scopes, hashes = [scope for scope, _ in wanted], [hashed for _, hashed in wanted]
    return {task for (task,) in (yield Query("open_holders", {"scopes": scopes, "hashes": hashes}))}
