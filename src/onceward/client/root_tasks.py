"""Roots as they are asked for: what becomes of payloads before anything is written.

Payloads of a plain pipeline stay in columns, one for what differs between them: a thousand are asked for at once.
Those that have to be asked something first, or have something kept beside them, are tasks one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onceward.authoring.pipeline import Pipeline
from onceward.authoring.registry import Registry
from onceward.errors import ConfigError
from onceward.model.enqueue_options import EnqueueOptions, checked_priority
from onceward.model.lineage import Bounds, Limits
from onceward.model.payload import (
    Payload,
    checked_key,
    has_own_key,
    identities,
    identity,
    stored_payload,
    stored_payloads,
)
from onceward.model.stop_list import StopList, title_of
from onceward.model.task import Alike, NewTask, band_of
from onceward.model.times import due, uuid7, uuids7


@dataclass(slots=True)
class Roots:
    """What one caller has asked for, by the places of its payloads."""

    count: int
    now: int
    alike: list[tuple[Sequence[int], Alike]] = field(default_factory=list)
    tasks: dict[int, NewTask] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    """Why some may not be: the stop list keeps them out."""

    @property
    def is_one(self) -> bool:
        """Whether it is one plain task."""
        return self.count == 1 and bool(self.alike)

    @property
    def locks_nothing(self) -> bool:
        """Whether it needs no rows that others may be waiting for: identities that are unique everywhere, budgets."""
        return all(task.is_plain and not task.counted for task in self.tasks.values())


def together(several: Sequence[Roots]) -> Roots:
    """What several callers have asked for, one after the other, as if one had asked: at the time of the last."""
    joined = Roots(sum(one.count for one in several), max(one.now for one in several))
    columns: dict[tuple[Any, ...], tuple[list[int], Alike]] = {}
    before = 0
    for one in several:
        for places, new in one.alike:
            is_due = new.due_at <= new.created_at
            due_at = joined.now if is_due else new.due_at
            same = (new.kind, new.version, new.queue, new.band, due_at, new.keys is None)
            if same not in columns:
                empty = new._replace(due_at=due_at, created_at=joined.now, identities=[], payloads=[], lineages=[])
                columns[same] = [], empty if new.keys is None else empty._replace(keys=[])
            all_places, all_new = columns[same]
            all_places += [before + place for place in places]
            all_new.identities.extend(new.identities)
            all_new.payloads.extend(new.payloads)
            all_new.lineages.extend(new.lineages)
            if all_new.keys is not None and new.keys is not None:
                all_new.keys.extend(new.keys)
        joined.tasks.update((before + place, task) for place, task in one.tasks.items())
        joined.refused.update((before + place, why) for place, why in one.refused.items())
        before += one.count
    joined.alike.extend(columns.values())
    return joined


class Rooting:
    """Makes tasks of payloads, for the pipelines of an app."""

    def __init__(self, registry: Registry, stop_list: StopList | None, replaced: Callable[[Limits], Bounds]) -> None:
        self._registry = registry
        self._stop_list = stop_list
        self._replaced = replaced

    def roots(self, payloads: Sequence[Payload], now: int, options: EnqueueOptions) -> Roots:
        """What is to be enqueued for payloads; those that cannot be stored are refused with an error."""
        made = Roots(len(payloads), now)
        for kind, places in _by_class(payloads).items():
            pipeline = self._pipeline_of(kind)
            some = payloads if len(places) == len(payloads) else [payloads[place] for place in places]
            if pipeline._is_plain and options.limits is None and self._stop_list is None:
                made.alike.append((places, _alike(pipeline, kind, some, now, options)))
                continue
            for place, payload in zip(places, some, strict=True):
                task = self.task(payload, now, options)
                if (why := self.stopped(task, payload)) is not None:
                    made.refused[place] = why
                else:
                    made.tasks[place] = task
        return made

    def stopped(self, task: NewTask, payload: Payload) -> str | None:
        """Why the stop list keeps the task of a payload out, if it does: by its key, or by its title."""
        if self._stop_list is None:
            return None
        return self._stop_list.match(task.key if task.key is not None else task.payload.decode(), title_of(payload))

    def task(self, payload: Payload, now: int, options: EnqueueOptions) -> NewTask:
        """The task for a payload."""
        pipeline = self._pipeline_of(type(payload))
        data = stored_payload(payload)
        own = has_own_key(type(payload))
        key = checked_key(payload) if own else data.decode()
        return NewTask(
            kind=pipeline.kind,
            version=pipeline.version,
            queue=_first_queue(pipeline),
            band=_band(pipeline, options),
            key=key if own else None,
            identity=identity(pipeline.kind, key),
            payload=data,
            lineage=uuid7(now),
            due_at=due(now, options.after, options.at),
            created_at=now,
            unique=pipeline.unique,
            fresh_for_ms=pipeline.fresh_for_ms,
            bounds=None if options.limits is None else self._replaced(options.limits),
            gates=pipeline._gates_of(pipeline.stages[0], payload) if pipeline.stages else None,
            estimate=pipeline.stages[0].costs.estimate(payload) if pipeline.stages else None,
            counted=pipeline._counted_in(payload),
        )

    def _pipeline_of(self, kind: type[Payload]) -> Pipeline[Any]:
        if not issubclass(kind, Payload):
            raise ConfigError(f"enqueue takes a payload, not {kind.__name__}")
        pipeline = self._registry[kind.__kind__]
        if not pipeline.stages:
            pipeline._check_stages()
        return pipeline


def _by_class(payloads: Sequence[Payload]) -> Mapping[type[Payload], Sequence[int]]:
    """The places of payloads by their class. Most callers ask for one kind of work at a time."""
    classes = set(map(type, payloads))
    if len(classes) == 1:
        return {classes.pop(): range(len(payloads))}
    places: dict[type[Payload], list[int]] = {}
    for place, payload in enumerate(payloads):
        places.setdefault(type(payload), []).append(place)
    return places


def _alike(
    pipeline: Pipeline[Any], kind: type[Payload], payloads: Sequence[Payload], now: int, options: EnqueueOptions
) -> Alike:
    stored = stored_payloads(payloads)
    keys = [checked_key(payload) for payload in payloads] if has_own_key(kind) else None
    return Alike(
        pipeline.kind,
        pipeline.version,
        _first_queue(pipeline),
        _band(pipeline, options),
        due(now, options.after, options.at),
        now,
        keys,
        identities(pipeline.kind, stored if keys is None else [key.encode() for key in keys]),
        stored,
        uuids7(now, len(payloads)),
    )


def _first_queue(pipeline: Pipeline[Any]) -> str:
    return pipeline.stages[0].queue if pipeline.stages else pipeline.queue


def _band(pipeline: Pipeline[Any], options: EnqueueOptions) -> int:
    return band_of(pipeline.priority if options.priority is None else checked_priority(options.priority))
