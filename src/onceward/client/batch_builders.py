"""What is added to a batch, kept until its block ends: as roots, as children of a stage, or of a task elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from onceward.authoring.context import Context
from onceward.baggage import Far
from onceward.errors import ConfigError, NoLineage, SpawnRefused
from onceward.model.enqueue_options import NO_OPTIONS, EnqueueOptions
from onceward.model.lineage import Limits, Refused, Spawn, StageBatch
from onceward.model.payload import Payload
from onceward.model.task import Lease, NewTask
from onceward.store.lineage.batches import OpenedBatch
from onceward.store.lineage.remote_spawn import ParentCancelled
from onceward.store.lineage.stage_batches import SpawnResults


class Filling(Protocol):
    """Takes what is added to a batch."""

    def add(self, payload: Payload, options: EnqueueOptions) -> bool:
        """Add a piece of work; False if it is known already that it will be kept out."""

    def commit(self) -> OpenedBatch | None:
        """Open the batch with all that was added; None if that happens when a stage commits."""


class RootFilling:
    """Roots, each with a lineage of its own."""

    def __init__(
        self,
        make: Callable[[Payload, EnqueueOptions], NewTask | None],
        commit: Callable[[Sequence[NewTask]], OpenedBatch],
    ) -> None:
        self._make = make
        self._commit = commit
        self._added: list[NewTask] = []

    def add(self, payload: Payload, options: EnqueueOptions) -> bool:
        """Add a root, unless the stop list says no."""
        task = self._make(payload, options)
        if task is not None:
            self._added.append(task)
        return task is not None

    def commit(self) -> OpenedBatch:
        """Open the batch, in a transaction of its own."""
        return self._commit(self._added)


class StageFilling:
    """Children of a running stage. The batch is an effect: it is opened when the stage commits, or not at all."""

    def __init__(self, context: Context[Any], batch: StageBatch, then: Payload | None, limits: Limits | None) -> None:
        self._context = context
        self._batch = batch
        self._limits = limits
        self._children: list[Spawn] = []
        if then is not None:
            follower = context._child(then).following(batch.name)
            if (refused := context._refused_at_once(follower)) is not None:
                raise not_followed(batch.name, refused)
            self._children.append(follower)

    def add(self, payload: Payload, options: EnqueueOptions) -> bool:
        """Add a child. Refused or not, it is asked for, so that the refusal is kept."""
        child = self._context._child(payload, options._replace(limits=self._limits))
        refused = self._context._refused_at_once(child, counts=False)
        self._children.append(child.added_to(self._batch.name))
        return refused is None

    def commit(self) -> None:
        """Hand the batch over to the stage."""
        self._context._open_batch(self._batch, self._children)


class FarFilling:
    """Children of a task in another process, for which a request is served here."""

    def __init__(
        self,
        far: Far,
        batch: StageBatch,
        then: Payload | None,
        limits: Limits | None,
        child: Callable[[Lease, Payload, EnqueueOptions], Spawn],
        arrive: Callable[[Callable[[Lease], list[Spawn]]], SpawnResults],
        otherwise: RootFilling,
    ) -> None:
        self._far = far
        self._batch = batch
        self._then = then
        self._limits = limits
        self._child = child
        self._arrive = arrive
        self._otherwise = otherwise
        self._added: list[tuple[Payload, EnqueueOptions]] = []

    def add(self, payload: Payload, options: EnqueueOptions) -> bool:
        """Add a child; what the rules say of it is known at the end."""
        self._added.append((payload, options._replace(limits=self._limits)))
        return self._otherwise.add(payload, options)

    def commit(self) -> OpenedBatch:
        """Open the batch, in a transaction of its own; as one of roots, if the request is from elsewhere and may be."""
        try:
            spawned = self._arrive(self._wanted)
        except NoLineage:
            if self._far.otherwise == "raise":
                raise
            return self._otherwise.commit()
        except ParentCancelled as error:
            raise ConfigError(f"batch {self._batch.name!r} was not opened: {error}") from error
        made = [decision.task for _, decision in spawned.decisions if decision.batch is not None]
        return OpenedBatch(spawned.batches[0], [task for task in made if task is not None])

    def _wanted(self, lease: Lease) -> list[Spawn]:
        followers = [] if self._then is None else [self._child(lease, self._then, NO_OPTIONS)]
        children = [self._child(lease, payload, options) for payload, options in self._added]
        return [
            *(one.following(self._batch.name) for one in followers),
            *(one.added_to(self._batch.name) for one in children),
        ]


def not_followed(name: str, refused: Refused) -> SpawnRefused:
    """The error of a stage that wants a batch followed by what its lineage does not allow."""
    return SpawnRefused(f"what follows batch {name!r} was not spawned: {refused.reason}")
