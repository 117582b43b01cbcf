"""Identities: a spawn takes those that are free, and reads the holders of the others.

An identity is a row with a primary key, `(scope, hash)`, that names a task, its holder (decision 19). The end of the
holder changes nothing about it; it stays until a spawn that may do so takes it over. A transaction that meets the row
has locked it when it reads the holder, so that the state of the holder cannot change under it.
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
    """The identity of its own key; the one asked for may be an alias."""


def take_identities(wanted: Mapping[Identity, int]) -> Op[dict[Identity, int]]:
    """Take free identities for tasks; returns the holders of those that were not free."""
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
    """Read the holders of identities. A pruned holder counts as succeeded long ago."""
    rows = yield Query("holders", {"ids": sorted(set(met.values()))})
    found = {
        task: Holder(task, parent, Status(status), ended_at, bytes(identity))
        for task, parent, status, ended_at, identity in rows
    }
    return {identity: found.get(task) or Holder(task, None, Status.SUCCEEDED, 0) for identity, task in met.items()}


def read_open_holders(wanted: Collection[Identity]) -> Op[set[int]]:
    """Read which open tasks have identities, on a database where tasks are locked one by one."""
    scopes, hashes = [scope for scope, _ in wanted], [hashed for _, hashed in wanted]
    return {task for (task,) in (yield Query("open_holders", {"scopes": scopes, "hashes": hashes}))}
