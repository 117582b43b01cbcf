"""The pipelines that a worker knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onceward.errors import ConfigError, UnknownKind
from onceward.model.task import lane_of
from onceward.pipeline import Pipeline


class Registry:
    """The pipelines of an app by kind. Two of one kind are refused, and so is one without stages."""

    def __init__(self, pipelines: Iterable[Pipeline[Any]]) -> None:
        self._by_kind: dict[str, Pipeline[Any]] = {}
        for pipeline in pipelines:
            if pipeline.kind in self._by_kind:
                raise ConfigError(f"two pipelines handle kind {pipeline.kind!r}; give one of the payloads another kind")
            self._by_kind[pipeline.kind] = pipeline

    def __getitem__(self, kind: str) -> Pipeline[Any]:
        try:
            return self._by_kind[kind]
        except KeyError:
            raise UnknownKind(kind, list(self._by_kind)) from None

    def __iter__(self) -> Any:
        return iter(self._by_kind.values())

    @property
    def kinds(self) -> list[str]:
        """Every kind."""
        return sorted(self._by_kind)

    @property
    def queues(self) -> list[str]:
        """Every queue in which tasks of these pipelines can stand."""
        return sorted({queue for pipeline in self for queue in pipeline.queues})

    def check_runnable(self) -> None:
        """Refuse to work with a pipeline that has no stages, or stages whose results cannot be stored."""
        for pipeline in self:
            if not pipeline.stages:
                raise ConfigError(f"pipeline {pipeline.kind!r} has no stages; add one with @pipeline.stage")
            for stage in pipeline.stages:
                assert stage.reader

    def lanes(self, queues: Sequence[str] | None, *, suspect: bool = False) -> tuple[str, ...]:
        """The lines in which work for this app stands, in all queues or in some."""
        wanted = set(self.queues if queues is None else queues)
        if queues is not None and (unknown := wanted - set(self.queues)):
            raise ConfigError(
                f"no stage uses the queue {', '.join(sorted(unknown))}; this app has: {', '.join(self.queues)}"
            )
        return tuple(
            lane_of(queue, pipeline.kind, suspect=suspect)
            for pipeline in self
            for queue in pipeline.queues
            if queue in wanted
        )
