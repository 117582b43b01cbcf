"""The definition of a kind of task: a typed payload and the stages it goes through, in order."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, TypeVar, overload
from weakref import WeakSet

import msgspec

from onceward.authoring.context import Context
from onceward.authoring.stage import AS_CONFIGURED, LAST, Calls, Isolate, Stage, Weight
from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.arguments import checked_value, checked_whole, checked_word, shown
from onceward.model.budget import Budget, BudgetRule, Counted, Estimate
from onceward.model.enqueue_options import checked_priority
from onceward.model.gates import KEY, PIPELINE, Gate, weight_gate, written_gates, written_kind
from onceward.model.lineage import Rule, checked_deadline
from onceward.model.outcome import SchemaMismatch
from onceward.model.payload import Payload, payload_key
from onceward.model.retry import Retry
from onceward.model.source import MOST_AT_ONCE, GateLimits, Source
from onceward.model.task import RESULT_PART
from onceward.model.times import Duration, milliseconds

P = TypeVar("P", bound=Payload)
R = TypeVar("R")

DEFAULT_QUEUE = "default"
LATEST_VERSION = 2**31 - 1


class _StageMaker(Protocol[P]):
    @overload
    def __call__(self, function: Callable[[Context[P]], Coroutine[Any, Any, R]], /) -> Stage[P, R]: ...
    @overload
    def __call__(self, function: Callable[[Context[P]], R], /) -> Stage[P, R]: ...


class Pipeline(Generic[P]):
    """The stages for one kind of payload.

    `deadline` is how long a task may take since its first claim or its last finished stage; where it is not given, the
    setting `task_limit` holds. `priority` from -2 to 2, higher first; `queue` names the line its tasks stand in;
    `version` is a number of yours: a task made by newer code waits for it, and a task parked because stored data did
    not fit is tried again under it.

    `unique` says where its work must not be twice: in one `"lineage"` (active or ended), `"everywhere"` (a late comer
    is linked to the task that is there; with `fresh_for` also to one that succeeded not long ago), or `"no"`. `cycle`
    says what must not come back among the ancestors: an `"identity"` (kind and key), or a `"key"` of any kind.
    `refused={"limit": "raise"}` makes a refusal by that rule an error of the spawning stage; `{"limit": "park"}` makes
    the child all the same, to wait until an operator approves of it; `"refuse"` is the default of every rule.
    """

    def __init__(
        self,
        payload: type[P],
        *,
        retry: Retry | None = None,
        priority: int = 0,
        queue: str = DEFAULT_QUEUE,
        version: int = 1,
        deadline: Duration | None = None,
        unique: Literal["lineage", "everywhere", "no"] = "lineage",
        fresh_for: Duration | None = None,
        cycle: Literal["identity", "key"] = "identity",
        concurrency: int | None = None,
        key_concurrency: int | None = None,
        refused: Mapping[str, Literal["refuse", "raise", "park"]] | None = None,
    ) -> None:
        if not (isinstance(payload, type) and issubclass(payload, Payload) and payload is not Payload):
            raise ConfigError(f"Pipeline takes a class of payloads, not {shown(payload)}")
        if retry is not None:
            checked_value("retry", retry, Retry, "Retry(retries=3)")
        checked_whole("version", version, 1, LATEST_VERSION)
        checked_limit("concurrency", concurrency)
        checked_limit("key_concurrency", key_concurrency)
        checked_word("unique", unique, ("lineage", "everywhere", "no"))
        checked_word("cycle", cycle, ("identity", "key"))
        fresh_for_ms = None if fresh_for is None else milliseconds(fresh_for)
        if fresh_for is not None and unique != "everywhere":
            raise ConfigError("fresh_for needs unique='everywhere': it is about work of other lineages")
        self.payload = payload
        self.kind = payload.__kind__
        self.retry = retry or Retry()
        self.priority = checked_priority(priority)
        self.queue = checked_queue(queue)
        self.version = version
        self.unique = unique
        self.cycle = cycle
        self.fresh_for_ms = fresh_for_ms
        self.deadline_ms = checked_deadline(deadline)
        self.concurrency = concurrency
        self.key_concurrency = key_concurrency
        self.refusals = _policies({} if refused is None else refused)
        self._decode = codec.decoder(payload)
        self.tell_of: WeakSet[Any] = WeakSet()
        """What learns of every stage that is added later: the registries of apps."""
        self.stages: list[Stage[P, Any]] = []
        self.last_stage: Stage[P, Any] | None = None
        self._following: dict[Stage[P, Any], Stage[P, Any] | None] = {}
        self._counting: list[tuple[Stage[P, Any], BudgetRule]] = []
        self._gates: dict[Stage[P, Any], str | None] = {}
        """The gates of stages for which every task has the same to pass."""

    def __repr__(self) -> str:
        return f"<pipeline {self.kind}: {' → '.join(stage.name for stage in self.stages)}>"

    @overload
    def stage(self, function: Callable[[Context[P]], Coroutine[Any, Any, R]], /) -> Stage[P, R]: ...
    @overload
    def stage(self, function: Callable[[Context[P]], R], /) -> Stage[P, R]: ...
    @overload
    def stage(
        self,
        *,
        timeout: Duration | None = AS_CONFIGURED,
        queue: str | None = None,
        isolate: Isolate = None,
        source: Source | None = None,
        calls: Calls | None = None,
        budget: Budget | Sequence[Budget] | None = None,
        estimate: Estimate | None = None,
        holds: Budget | Sequence[Budget] | None = None,
        weights: Mapping[str, Weight] | None = None,
        join: bool = False,
    ) -> _StageMaker[P]: ...
    def stage(
        self,
        function: Callable[..., Any] | None = None,
        *,
        timeout: Duration | None = AS_CONFIGURED,
        queue: str | None = None,
        isolate: Isolate = None,
        source: Source | None = None,
        calls: Calls | None = None,
        budget: Budget | Sequence[Budget] | None = None,
        estimate: Estimate | None = None,
        holds: Budget | Sequence[Budget] | None = None,
        weights: Mapping[str, Weight] | None = None,
        join: bool = False,
    ) -> Any:
        """Add the next stage: `@pipeline.stage` or `@pipeline.stage(timeout="30s")` above a function.

        A plain function runs in a thread, an `async def` on the event loop, and with `isolate="process"` in a process
        of its own that is thrown away afterwards. With `join=True` it starts when every child that the stages before it
        have asked for has ended; it holds no slot meanwhile.

        `calls` is how many outside calls it makes through `ctx` at most in one run, a number or a function of the
        payload: 1 with a source, 0 without. The next one raises `CallsExceeded`.

        `estimate` is what it costs at most: a number, or a function of the payload. So much of each `budget` is set
        aside before it runs. Of each budget in `holds` the stage may hold something beyond itself, with `ctx.hold`.
        `weights` says how many of each weight of its source it needs, tokens say; `ctx.used` says how many it has used.
        """

        def add(function: Callable[..., Any]) -> Stage[P, Any]:
            stage: Stage[P, Any] = Stage(
                function,
                kind=self.kind,
                timeout=timeout,
                queue=self.queue if queue is None else checked_queue(queue),
                isolate=isolate,
                join=join,
                source=source,
                calls=calls,
                retry=self.retry,
                budget=budget,
                estimate=estimate,
                holds=holds,
                weights=weights,
            )
            if any(known.name == stage.name for known in self.stages):
                raise ConfigError(
                    f"pipeline {self.kind!r} already has a stage {stage.name!r}; names are stored, keep them apart"
                )
            for registry in self.tell_of:
                registry.learn(stage)
            if self.stages:
                self._following[self.stages[-1]] = stage
            self._following[stage] = None
            self.stages.append(stage)
            self._counting += [(stage, rule) for rule in stage.costs.counting]
            return stage

        return add if function is None else add(function)

    @overload
    def at_expiry(self, function: Callable[[Context[P]], Coroutine[Any, Any, None]], /) -> Stage[P, None]: ...
    @overload
    def at_expiry(self, function: Callable[[Context[P]], None], /) -> Stage[P, None]: ...
    @overload
    def at_expiry(
        self,
        *,
        timeout: Duration | None = AS_CONFIGURED,
        source: Source | None = None,
        calls: Calls | None = None,
        budget: Budget | Sequence[Budget] | None = None,
        estimate: Estimate | None = None,
        holds: Budget | Sequence[Budget] | None = None,
        weights: Mapping[str, Weight] | None = None,
    ) -> _StageMaker[P]: ...
    def at_expiry(
        self,
        function: Callable[..., Any] | None = None,
        *,
        timeout: Duration | None = AS_CONFIGURED,
        source: Source | None = None,
        calls: Calls | None = None,
        budget: Budget | Sequence[Budget] | None = None,
        estimate: Estimate | None = None,
        holds: Budget | Sequence[Budget] | None = None,
        weights: Mapping[str, Weight] | None = None,
    ) -> Any:
        """What is done when the time of a task that has begun is over, before it has failed: `@pipeline.at_expiry`.

        It is run like a stage, under a lease and with the retries of the pipeline: to cancel remote work, say, and to
        keep what was paid for. It may read what the stages before it have stored. Whatever comes of it, the task fails.
        """

        def add(function: Callable[..., Any]) -> Stage[P, Any]:
            if self.last_stage is not None:
                raise ConfigError(f"pipeline {self.kind!r} has something to do at expiry already")
            stage: Stage[P, Any] = Stage(
                function,
                kind=self.kind,
                timeout=timeout,
                queue=self.queue,
                isolate=None,
                source=source,
                calls=calls,
                retry=self.retry,
                budget=budget,
                estimate=estimate,
                holds=holds,
                weights=weights,
            )
            stage.name = f"{LAST}{stage.name}"
            for registry in self.tell_of:
                registry.learn(stage)
            self.last_stage = stage
            return stage

        return add if function is None else add(function)

    def _with_stages(self, queue: str, change: Callable[[Stage[P, Any]], Stage[P, Any]]) -> Pipeline[P]:
        """Return a copy in another queue, with other stages in the places of these."""
        other = copy.copy(self)
        changed = {stage: change(stage) for stage in self._every_stage}
        other.queue = queue
        other.stages = [changed[stage] for stage in self.stages]
        other.last_stage = None if self.last_stage is None else changed[self.last_stage]
        other._following = {
            changed[stage]: None if after is None else changed[after] for stage, after in self._following.items()
        }
        other._counting = [(changed[stage], rule) for stage, rule in self._counting]
        other._gates = {}
        other.tell_of = WeakSet()
        return other

    # What the engine asks

    @property
    def _every_stage(self) -> list[Stage[P, Any]]:
        """Its stages, and what is done at expiry."""
        return self.stages if self.last_stage is None else [*self.stages, self.last_stage]

    def _limit_ms(self, otherwise_ms: int) -> int:
        """How long a task may take, since its first claim or its last finished stage."""
        return otherwise_ms if self.deadline_ms is None else self.deadline_ms

    def _gates_of(self, stage: Stage[P, Any], payload: Payload) -> str | None:
        """What a stage has to pass before it runs, for a task with this payload; None if nothing."""
        if stage in self._gates:  # those that are the same for all its tasks
            return self._gates[stage]
        if self._asks_keys(stage):
            return self._gates_by_key(stage, payload_key(payload), payload)
        self._gates[stage] = gates = self._gates_by_key(stage, "", payload)
        return gates

    def _asks_keys(self, stage: Stage[P, Any]) -> bool:
        """Whether what a stage has to pass depends on the key of its task, or its payload."""
        by_source = stage.source is not None and stage.source.per is not None
        return self.key_concurrency is not None or by_source or stage._weighs_payloads

    def _gates_by_key(self, stage: Stage[P, Any], key: str, payload: Payload) -> str | None:
        gates = []
        if stage.source is not None:
            instance = stage.source.instance(key)
            gates.append(Gate(instance, stage.tokens))
            gates += [Gate(weight_gate(name, instance), weight) for name, weight in stage._weights_of(payload)]
        if self.key_concurrency is not None:
            gates.append(Gate(f"{KEY}{written_kind(self.kind)}/{codec.digest128(key.encode()).hex()}"))
        if self.concurrency is not None:
            gates.append(Gate(PIPELINE + written_kind(self.kind)))
        gates += [Gate(*gate) for gate in stage.costs.gates]
        return written_gates(gates)

    def _counted_in(self, payload: Payload) -> tuple[Counted, ...]:
        """The budgets that count a task with this payload when it is made."""
        if not self._counting:
            return ()
        key = payload_key(payload)
        return tuple(
            Counted(rule, None if stage.source is None else stage.source.instance(key))
            for stage, rule in self._counting
        )

    @property
    def _is_plain(self) -> bool:
        """Whether its tasks begin without being asked anything: no gates to pass, counted nowhere, and unique in their
        lineage alone."""
        first = self.stages[0] if self.stages else None
        return (
            not self._counting
            and self.unique != "everywhere"
            and self.concurrency is None
            and self.key_concurrency is None
            and (first is None or (first.source is None and not first.costs.is_governed))
        )

    @property
    def _is_uniform(self) -> bool:
        """Whether all its tasks begin in the same way: payloads have no say in what they pass, or may cost."""
        first = self.stages[0] if self.stages else None
        return not self._counting and (first is None or (not self._asks_keys(first) and not first.costs.varies))

    def _limits_of(self, gate: str) -> GateLimits:
        """What the gates of this pipeline itself let through."""
        return GateLimits(concurrency=self.key_concurrency if gate.startswith(KEY) else self.concurrency)

    @property
    def _queues(self) -> list[str]:
        """Every queue in which tasks of this kind can stand."""
        return sorted({self.queue, *(stage.queue for stage in self.stages)})

    @property
    def _fingerprint(self) -> str:
        """What stored data depends on: the version, and the names and results of the stages."""
        hashed = hashlib.blake2b(f"{self.kind}\x00{self.version}".encode(), digest_size=8)
        hashed.update(self._payload_shape)
        for stage in self.stages:
            hashed.update(stage._fingerprint)
        return hashed.hexdigest()

    @cached_property
    def _payload_shape(self) -> bytes:
        try:
            return msgspec.json.encode(msgspec.json.schema(self.payload), order="deterministic")
        except TypeError:  # a field of a type that is read and written but has no schema, such as object
            payload: Any = self.payload  # to type checkers it is no struct
            fields = msgspec.structs.fields(payload)
            return repr([(field.encode_name, field.type, field.required) for field in fields]).encode()

    def _check_stages(self) -> None:
        """Refuse work for a pipeline that has no stage."""
        if not self.stages:
            raise ConfigError(f"pipeline {self.kind!r} has no stages; add one with @pipeline.stage")

    def _stage_named(self, name: str | None) -> Stage[P, Any]:
        """The stage that a task stands at; None is the first."""
        if name is None:
            return self.stages[0]
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise SchemaMismatch(
            f"the task stands at stage {name!r}, which pipeline {self.kind!r} does not have: {self._names}"
        )

    def _stage_after(self, stage: Stage[P, Any]) -> Stage[P, Any] | None:
        """The next stage, if there is one."""
        return self._following[stage]

    def _read(self, payload: bytes, version: int) -> P:
        """The payload of a task, if it still fits the code."""
        if version > self.version:
            raise SchemaMismatch(
                f"the task was made for version {version} of {self.kind!r}, this code is version {self.version}"
            )
        try:
            return self._decode(payload)  # type: ignore[no-any-return]
        except codec.UNREADABLE as error:
            raise SchemaMismatch(
                f"the stored payload no longer fits {self.payload.__name__}: {codec.misfit(error)}"
            ) from error

    def _check_stored(self, parts: dict[tuple[str, str], bytes], current: Stage[P, Any]) -> None:
        """Raise if the stored results of a task do not fit the stages as they are now."""
        before = self.stages[: self.stages.index(current)]
        known = {stage.name for stage in self.stages}
        for name, part in parts:
            if part == RESULT_PART and name not in known:
                raise SchemaMismatch(
                    f"stage {name!r} has finished, but pipeline {self.kind!r} does not have it: {self._names}"
                )
        for stage in before:
            data = parts.get((stage.name, RESULT_PART))
            if data is None:
                raise SchemaMismatch(
                    f"stage {stage.name!r} stands before {current.name!r} now, but has no stored result"
                )
            try:
                stage._reader(data)
            except codec.UNREADABLE as error:
                raise SchemaMismatch(
                    f"the stored result of stage {stage.name!r} no longer fits: {codec.misfit(error)}"
                ) from error

    @property
    def _names(self) -> str:
        return ", ".join(stage.name for stage in self.stages)


def _policies(refused: Mapping[str, str]) -> tuple[tuple[Rule, str], ...]:
    rules = {rule.value for rule in Rule}
    if not isinstance(refused, Mapping):
        raise ConfigError(f"refused={shown(refused)}: it is given as in {{'limit': 'raise'}}")
    if refused.get(Rule.BUDGET) == "park":
        raise ConfigError("refused={'budget': 'park'}: a spent budget is raised, it is not passed with approval")
    for rule, policy in refused.items():
        if rule not in rules or policy not in ("refuse", "raise", "park"):
            allowed = f"a rule ({', '.join(sorted(rules))}) and 'refuse', 'raise' or 'park'"
            raise ConfigError(f"refused={{{shown(rule)}: {shown(policy)}}}: {allowed}")
    return tuple((Rule(rule), policy) for rule, policy in sorted(refused.items()))


def checked_limit(name: str, value: Any) -> None:
    """How many may run at once, or None."""
    checked_whole(name, value, 1, MOST_AT_ONCE, none="for no limit")


def checked_queue(queue: str) -> str:
    """The name of a queue."""
    is_name = isinstance(queue, str) and 0 < len(queue) <= 100 and queue.isprintable()
    if not is_name or queue.startswith("!") or {*":@"} & {*queue}:
        raise ConfigError(f"{shown(queue)} is no name for a queue; take a short printable one without a colon or an @")
    return queue
