"""The pipelines that a worker knows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onceward.authoring.pipeline import Pipeline
from onceward.authoring.stage import LAST, Stage
from onceward.errors import ConfigError, UnknownKind
from onceward.model.arguments import checked_values
from onceward.model.budget import BudgetRule
from onceward.model.gates import BUDGET, KEY, PIPELINE, WEIGHT, kind_of, source_of, weighed
from onceward.model.payload import secret_fields
from onceward.model.source import GateLimits, Source
from onceward.model.task import lane_of

NO_LIMITS = GateLimits()


class Registry:
    """The pipelines of an app by kind. Two of one kind are refused, and so is one without stages."""

    def __init__(self, pipelines: Iterable[Pipeline[Any]]) -> None:
        self._by_kind: dict[str, Pipeline[Any]] = {}
        for pipeline in checked_values("pipelines", pipelines, Pipeline, "Pipeline(Order)"):
            if pipeline.kind in self._by_kind:
                raise ConfigError(f"two pipelines handle kind {pipeline.kind!r}; give one of the payloads another kind")
            self._by_kind[pipeline.kind] = pipeline
        self.sources: dict[str, Source] = {}
        self.budgets: dict[str, BudgetRule] = {}
        for pipeline in self:
            for stage in pipeline._every_stage:
                self.learn(stage)
            pipeline.tell_of.add(self)

    def learn(self, stage: Stage[Any, Any]) -> None:
        """Take up the source and the budgets of a stage, also of one that is declared after its app."""
        source, costs = stage.source, stage.costs
        if source is not None and not self.sources.setdefault(source.name, source).same_limits(source):
            raise ConfigError(f"two sources are named {source.name!r} and have different limits; make it once")
        for rule in (*costs.drawn, *costs.counting, *costs.held):
            if self.budgets.setdefault(rule.name, rule) != rule:
                raise ConfigError(f"two budgets are named {rule.name!r} and differ; make it once")

    def __getitem__(self, kind: str) -> Pipeline[Any]:
        try:
            return self._by_kind[kind]
        except KeyError:
            raise UnknownKind(kind, list(self._by_kind)) from None

    def __contains__(self, kind: object) -> bool:
        return kind in self._by_kind

    def __iter__(self) -> Any:
        return iter(self._by_kind.values())

    @property
    def kinds(self) -> list[str]:
        """Every kind."""
        return sorted(self._by_kind)

    @property
    def queues(self) -> list[str]:
        """Every queue in which tasks of these pipelines can stand."""
        return sorted({queue for pipeline in self for queue in pipeline._queues})

    def limits_ms(self, otherwise_ms: int) -> dict[str, int]:
        """How long tasks of each kind may take, where their pipeline says nothing otherwise so long."""
        return {pipeline.kind: pipeline._limit_ms(otherwise_ms) for pipeline in self}

    @property
    def kinds_at_expiry(self) -> tuple[list[str], list[str]]:
        """The kinds that have something to do when the time of a task is over, and the others."""
        having = {pipeline.kind for pipeline in self if pipeline.last_stage is not None}
        return sorted(having), sorted(set(self._by_kind) - having)

    @property
    def secret_fields(self) -> dict[str, frozenset[str]]:
        """The fields of payloads that viewers do not see, by kind."""
        return {pipeline.kind: secret_fields(pipeline.payload) for pipeline in self}

    @property
    def threaded(self) -> frozenset[str]:
        """The lines of the kinds whose tasks need a thread as soon as they begin."""
        beginning = [(pipeline, pipeline.stages[0]) for pipeline in self if pipeline.stages]
        return frozenset(
            lane_of(queue, pipeline.kind)
            for pipeline, stage in beginning
            for queue in pipeline._queues
            if not stage.is_async and stage.isolation is None
        )

    @property
    def governs(self) -> bool:
        """Whether any stage has gates to pass."""
        return bool(self.sources) or any(
            one.concurrency or one.key_concurrency or any(stage.costs.is_governed for stage in one._every_stage)
            for one in self
        )

    def budgets_of(self, kind: str, stage: str | None) -> tuple[BudgetRule, ...]:
        """The budgets from which a stage of a kind draws; None is its first."""
        pipeline = self._by_kind.get(kind)
        if stage == LAST:
            return () if pipeline is None or pipeline.last_stage is None else pipeline.last_stage.costs.drawn
        for one in () if pipeline is None else pipeline.stages:
            if stage is None or one.name == stage:
                return one.costs.drawn
        return ()

    def budgets_waited_for(self, kind: str, stage: str | None) -> tuple[BudgetRule, ...]:
        """The budgets for which a task at a stage may wait: to draw from them, or to hold something."""
        held = [
            rule
            for one in (self._by_kind[kind]._every_stage if kind in self._by_kind else ())
            if stage is None or one.name == stage or (stage == LAST and one.name.startswith(LAST))
            for rule in one.costs.held
        ]
        return (*self.budgets_of(kind, stage), *held)

    @property
    def longest_us(self) -> dict[str, int]:
        """How long the bucket of each source takes at most to be full again: after a burst, or after all calls of the
        stage that makes the most."""
        calls: dict[str, int] = {}
        for stage in (stage for one in self for stage in one._every_stage if stage.source is not None):
            calls[stage.source.name] = max(calls.get(stage.source.name, 1), stage.tokens)
        gates = {name: source.gate for name, source in self.sources.items()}
        return {name: max(gate.burst, calls[name]) * (gate.interval_us or 0) for name, gate in gates.items()}

    def limits_of(self, gate: str) -> GateLimits:
        """What a gate lets through. One that the code no longer has lets every task through:
        such a task is put where it belongs before it runs."""
        if gate[0] == BUDGET:
            return NO_LIMITS
        if gate[0] == WEIGHT:
            weight, instance = weighed(gate)
            source = self.sources.get(source_of(instance))
            return NO_LIMITS if source is None else source.weight_gates.get(weight, NO_LIMITS)
        if gate[0] in (PIPELINE, KEY):
            pipeline = self._by_kind.get(kind_of(gate))
            return NO_LIMITS if pipeline is None else pipeline._limits_of(gate)
        source = self.sources.get(source_of(gate))
        return NO_LIMITS if source is None else source.gate

    def check_runnable(self) -> None:
        """Refuse to work with a pipeline that has no stages, or stages whose results cannot be stored."""
        for pipeline in self:
            pipeline._check_stages()
            for stage in pipeline.stages:
                assert stage._reader

    def lanes(self, queues: Sequence[str] | None, *, suspect: bool = False) -> tuple[str, ...]:
        """The lines in which work for this app stands, in all queues or in some."""
        if queues is not None and (isinstance(queues, str) or not all(isinstance(queue, str) for queue in queues)):
            raise ConfigError(f"queues={queues!r}: they are given as in ['slow', 'default']")
        wanted = set(self.queues if queues is None else queues)
        if queues is not None and (unknown := wanted - set(self.queues)):
            raise ConfigError(
                f"no stage uses the queue {', '.join(sorted(unknown))}; this app has: {', '.join(self.queues)}"
            )
        return tuple(
            lane_of(queue, pipeline.kind, suspect=suspect)
            for pipeline in self
            for queue in pipeline._queues
            if queue in wanted
        )
