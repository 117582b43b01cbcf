"""From a payload to the child that a stage asks for: its pipeline, its key, its own limits, and what can be said of it
before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import msgspec

from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.lineage import (
    Ancestor,
    Bounds,
    Refused,
    Rule,
    Spawn,
    Spawns,
    StageBatch,
    read_ancestry,
    refused_by_ancestors,
    refused_by_children,
    refused_by_depth,
)
from onceward.model.payload import Payload, checked_key, has_own_key, identity, payload_key, stored_payload
from onceward.model.stop_list import StopList
from onceward.model.task import Lease, band_of
from onceward.model.times import due
from onceward.model.wishes import NO_WISHES, Wishes
from onceward.pipeline import checked_priority
from onceward.worker.registry import Registry


def key_hash(key: str) -> bytes:
    """A key as a hash."""
    return codec.digest128(key.encode())


class Spawner:
    """Makes the children of stages. It knows the pipelines, the limits of the configuration, and the stop list."""

    def __init__(
        self, registry: Registry, defaults: Bounds, stop_list: StopList | None, now: Callable[[], int]
    ) -> None:
        self._registry = registry
        self._stop_list = stop_list
        self._now = now
        self.defaults = defaults
        self._known: tuple[Lease, Bounds, list[Ancestor]] | None = None

    def child(self, lease: Lease, payload: Payload, wishes: Wishes = NO_WISHES) -> Spawn:
        """The child that a task asks for, before anything is decided."""
        if not isinstance(payload, Payload):
            raise ConfigError(f"spawn takes a payload, not {type(payload).__name__}")
        after, at, priority, limits = wishes
        pipeline = self._registry[payload.__kind__]
        data = stored_payload(payload)
        own = has_own_key(type(payload))
        key = checked_key(payload) if own else data.decode()
        bounds = None if limits is None or limits.is_empty else self.bounds_of(lease).narrowed(limits)
        return Spawn(
            kind=pipeline.kind,
            version=pipeline.version,
            queue=pipeline.stages[0].queue if pipeline.stages else pipeline.queue,
            band=band_of(pipeline.priority if priority is None else checked_priority(priority)),
            key=key if own else None,
            identity=identity(pipeline.kind, key),
            key_hash=key_hash(key) if pipeline.cycle == "key" else None,
            payload=data,
            due_at=due(self._now(), after, at),
            unique=pipeline.unique,
            fresh_for_ms=pipeline.fresh_for_ms,
            bounds=bounds,
            scope=None if limits is None or (limits.max_tasks, limits.budget) == (None, None) else uuid.uuid4(),
            stopped=self._stopped(key, payload),
            policies=pipeline.refusals,
            gates=pipeline.gates_of(pipeline.stages[0], payload) if pipeline.stages else None,
            estimate=pipeline.stages[0].costs.estimate(payload) if pipeline.stages else None,
            counted=pipeline.counted_in(payload),
        )

    def bounds_of(self, lease: Lease) -> Bounds:
        """The limits that a task has from its lineage."""
        limits = lease.descent.limits
        return self.defaults if limits is None else msgspec.json.decode(limits, type=Bounds)

    def refused_at_once(self, lease: Lease, payload: Payload, child: Spawn, asked_before: int) -> Refused | None:
        """What the lease of the spawning task already says of a child. The rest is decided when its stage commits."""
        bounds, family = self._standing(lease, payload)
        refusals = (
            None if child.stopped is None else Refused(Rule.STOPPED, child.stopped),
            refused_by_depth(lease.depth + 1, bounds.max_depth),
            refused_by_ancestors(child, family),
            refused_by_children(lease.descent.children + asked_before, bounds.max_children),
        )
        if refusals.count(None) == len(refusals):
            return None
        return next((one for one in refusals if one is not None and child.policy(one.rule) != "park"), None)

    def _standing(self, lease: Lease, payload: Payload) -> tuple[Bounds, list[Ancestor]]:
        """The limits of a task, and its ancestors and itself. Kept for a while: a stage that spawns spawns many."""
        known = self._known
        if known is None or known[0] is not lease:
            key = payload_key(payload)
            myself = Ancestor(lease.task, identity(lease.kind, key), key_hash(key))
            known = (lease, self.bounds_of(lease), [*read_ancestry(lease.descent.ancestry), myself])
            self._known = known
        return known[1], known[2]

    def together(
        self, payload: Payload, asked: tuple[Spawn, ...], aliases: tuple[bytes, ...], batches: tuple[StageBatch, ...]
    ) -> Spawns | None:
        """What a stage asks for, in the form that is committed."""
        if not (asked or aliases or batches):
            return None
        return Spawns(key_hash(payload_key(payload)), self.defaults, asked, aliases, batches)

    def _stopped(self, key: str, payload: Payload) -> str | None:
        if self._stop_list is None:
            return None
        title = getattr(payload, "title", None)
        return self._stop_list.match(key, title if isinstance(title, str) else None)
