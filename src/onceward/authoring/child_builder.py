"""From a payload to the child that a stage asks for: its pipeline, its key, its own limits, and what can be said of it
before anything is written."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from onceward.authoring.registry import Registry
from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.enqueue_options import NO_OPTIONS, EnqueueOptions, checked_priority
from onceward.model.lineage import (
    Alias,
    Ancestor,
    Bounds,
    Refused,
    Rule,
    Sort,
    Spawn,
    Spawns,
    StageBatch,
    read_ancestry,
    refused_by_ancestors,
    refused_by_children,
    refused_by_depth,
)
from onceward.model.payload import (
    Payload,
    checked_key,
    has_own_key,
    identity,
    payload_key,
    secret_fields,
    stored_payload,
)
from onceward.model.stop_list import StopList, title_of
from onceward.model.task import Lease, band_of
from onceward.model.times import due


def key_hash(key: str) -> bytes:
    """A key as a hash."""
    return codec.digest128(key.encode())


class _SpawningTask(NamedTuple):
    """A task that spawns: its limits, its ancestors and itself, and their identities."""

    lease: Lease
    bounds: Bounds
    family: list[Ancestor]
    above: frozenset[bytes]


class Spawner:
    """Makes the children of stages. It knows the pipelines, the limits of the configuration, and the stop list."""

    def __init__(
        self, registry: Registry, defaults: Bounds, stop_list: StopList | None, now: Callable[[], int]
    ) -> None:
        self._registry = registry
        self._stop_list = stop_list
        self._now = now
        self.defaults = defaults
        self._sorts: dict[type, Sort] = {}
        self._known: _SpawningTask | None = None

    def child(self, lease: Lease, payload: Payload, options: EnqueueOptions = NO_OPTIONS) -> Spawn:
        """The child that a task asks for, before anything is decided."""
        kind = type(payload)
        sort = self._sorts.get(kind) if options is NO_OPTIONS else None
        if sort is None:
            sort = self._sort(payload, options)
        data = stored_payload(payload)
        key = checked_key(payload) if has_own_key(kind) else None
        key_bytes = data if key is None else key.encode()
        hashed = codec.digest128_of(sort.kind, key_bytes)
        key_hash = codec.digest128(key_bytes) if sort.cycle == "key" else None
        limits = options.limits
        if limits is None and self._stop_list is None:
            return Spawn(sort, key, hashed, data, key_hash)
        bounds = scope = None
        if limits is not None:
            bounds = None if limits.is_empty else self.bounds_of(lease).narrowed(limits)
            has_own = (limits.max_tasks, limits.budget, limits.deadline) != (None, None, None)
            scope = uuid.uuid4() if has_own else None
        stopped = None if self._stop_list is None else self._stop_list.match(key_bytes.decode(), title_of(payload))
        return Spawn(sort, key, hashed, data, key_hash, bounds, scope, stopped)

    def _sort(self, payload: Payload, options: EnqueueOptions) -> Sort:
        """The sort of a child; kept where neither its payload nor its options have a say in it."""
        if not isinstance(payload, Payload):
            raise ConfigError(f"spawn takes a payload, not {type(payload).__name__}")
        pipeline = self._registry[payload.__kind__]
        pipeline._check_stages()
        first = pipeline.stages[0]
        sort = Sort(
            pipeline.kind,
            pipeline.version,
            first.queue,
            band_of(pipeline.priority if options.priority is None else checked_priority(options.priority)),
            pipeline.unique,
            pipeline.cycle,
            0 if (options.after, options.at) == (None, None) else due(self._now(), options.after, options.at),
            pipeline.fresh_for_ms,
            pipeline.refusals,
            pipeline._gates_of(first, payload),
            first.costs.estimate(payload),
            pipeline._counted_in(payload),
            secret_fields(type(payload)),
        )
        if pipeline._is_uniform and options is NO_OPTIONS:
            self._sorts[type(payload)] = sort
        return sort

    def bounds_of(self, lease: Lease) -> Bounds:
        """The limits that a task has from its lineage."""
        limits = lease.descent.limits
        return self.defaults if limits is None else msgspec.json.decode(limits, type=Bounds)

    def refused_at_once(
        self, lease: Lease, payload: Payload, child: Spawn, asked_before: int | None, known_as: Sequence[Ancestor] = ()
    ) -> Refused | None:
        """What the lease of the spawning task already says of a child, after so many others, and what its stage has
        said of other keys of it; None if it is there, and needs no room. The rest is decided when its stage commits."""
        standing = self._standing(lease, payload)
        bounds = standing.bounds
        children = -1 if asked_before is None else lease.descent.children + asked_before
        if (
            child.stopped is None
            and child.key_hash is None
            and child.identity not in standing.above
            and not known_as
            and lease.depth < bounds.max_depth
            and children < bounds.max_children
        ):
            return None
        stopped = None if child.stopped is None else Refused(Rule.STOPPED, child.stopped)
        too_deep = refused_by_depth(lease.depth + 1, bounds.max_depth)
        circle = refused_by_ancestors(child, [*known_as, *standing.family])
        too_many = refused_by_children(children, bounds.max_children)
        refusals = (stopped, too_deep, circle, too_many)
        return next((one for one in refusals if one is not None and child.sort.policy(one.rule) != "park"), None)

    def _standing(self, lease: Lease, payload: Payload) -> _SpawningTask:
        """Where a task stands. Kept for a while: a stage that spawns spawns many."""
        known = self._known
        if known is None or known.lease is not lease:
            key = payload_key(payload)
            myself = Ancestor(lease.task, identity(lease.kind, key), key_hash(key))
            family = [*read_ancestry(lease.descent.ancestry), myself]
            known = self._known = _SpawningTask(
                lease, self.bounds_of(lease), family, frozenset([one.identity for one in family])
            )
        return known

    def together(
        self, payload: Payload, asked: tuple[Spawn, ...], aliases: tuple[Alias, ...], batches: tuple[StageBatch, ...]
    ) -> Spawns | None:
        """What a stage asks for, in the form that is committed."""
        if not (asked or aliases or batches):
            return None
        key = payload_key(payload)
        hashed = key_hash(key)
        if not aliases:
            return Spawns(hashed, self.defaults, asked, (), batches)
        others = tuple([alias for alias in aliases if alias.key != key])  # most pages have not moved
        if not (asked or others or batches):
            return None
        pipeline = self._registry[payload.__kind__]
        return Spawns(hashed, self.defaults, asked, others, batches, pipeline.unique, pipeline.fresh_for_ms)
