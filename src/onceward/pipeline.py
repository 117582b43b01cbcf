"""The definition of a kind of task: a typed payload and the stages it goes through, in order."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, Literal, Protocol, TypeVar, overload

import msgspec

from onceward.context import Context
from onceward.errors import ConfigError, NotInThisVersion
from onceward.model.lineage import PARKABLE, Rule
from onceward.model.outcome import SchemaMismatch
from onceward.model.payload import Payload, read_payload
from onceward.model.retry import Retry
from onceward.model.task import HIGHEST_PRIORITY, LOWEST_PRIORITY, RESULT_PART
from onceward.model.times import Duration, milliseconds
from onceward.stage import Isolate, Stage

P = TypeVar("P", bound=Payload)
R = TypeVar("R")

DEFAULT_QUEUE = "default"
STAGE_TIMEOUT: Duration = "30m"


class _StageMaker(Protocol[P]):
    @overload
    def __call__(self, function: Callable[[Context[P]], Coroutine[Any, Any, R]], /) -> Stage[P, R]: ...
    @overload
    def __call__(self, function: Callable[[Context[P]], R], /) -> Stage[P, R]: ...


class Pipeline(Generic[P]):
    """The stages for one kind of payload.

    `priority` from -2 to 2, higher first; `queue` names the line its tasks stand in; `version` is a number of yours:
    a task made by newer code waits for it, and a task parked because stored data did not fit is tried again under it.

    `unique` says where its work must not be twice: in one `"lineage"` (active or ended), `"everywhere"` (a late comer
    is linked to the task that is there; with `fresh_for` also to one that succeeded not long ago), or `"no"`. `cycle`
    says what must not come back among the ancestors: an `"identity"` (kind and key), or a `"key"` of any kind.
    `refused={"limit": "raise"}` makes a refusal by that rule an error of the spawning stage; `{"depth": "park"}` makes
    the child all the same, to wait until an operator approves of it.
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
        refused: Mapping[str, Literal["refuse", "raise", "park"]] | None = None,
    ) -> None:
        if not (isinstance(payload, type) and issubclass(payload, Payload) and payload is not Payload):
            raise ConfigError(f"Pipeline takes a class of payloads, not {payload!r}")
        for option, given in (("Pipeline(deadline=…)", deadline), ("Pipeline(concurrency=…)", concurrency)):
            if given is not None:
                raise NotInThisVersion(option)
        if unique not in ("lineage", "everywhere", "no"):
            raise ConfigError(f"unique={unique!r}: it is 'lineage', 'everywhere' or 'no'")
        if cycle not in ("identity", "key"):
            raise ConfigError(f"cycle={cycle!r}: it is 'identity' or 'key'")
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
        self.fresh_for_ms = None if fresh_for is None else milliseconds(fresh_for)
        self.refusals = _policies(refused or {})
        self.stages: list[Stage[P, Any]] = []
        self._following: dict[Stage[P, Any], Stage[P, Any] | None] = {}

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
        timeout: Duration | None = STAGE_TIMEOUT,
        queue: str | None = None,
        isolate: Isolate = None,
        source: Any = None,
        calls: int | None = None,
        budget: Any = None,
        estimate: Any = None,
        join: bool = False,
    ) -> _StageMaker[P]: ...
    def stage(
        self,
        function: Callable[..., Any] | None = None,
        *,
        timeout: Duration | None = STAGE_TIMEOUT,
        queue: str | None = None,
        isolate: Isolate = None,
        source: Any = None,
        calls: int | None = None,
        budget: Any = None,
        estimate: Any = None,
        join: bool = False,
    ) -> Any:
        """Add the next stage: `@pipeline.stage` or `@pipeline.stage(timeout="30s")` above a function.

        A plain function runs in a thread, an `async def` on the event loop, and with `isolate="process"` in a process
        of its own that is thrown away afterwards. With `join=True` it starts when every child that the stages before it
        have asked for has ended; it holds no slot meanwhile.
        """
        for option, given in (("source", source), ("calls", calls), ("budget", budget), ("estimate", estimate)):
            if given is not None:
                raise NotInThisVersion(f"@stage({option}=…)")

        def add(function: Callable[..., Any]) -> Stage[P, Any]:
            stage: Stage[P, Any] = Stage(
                function,
                kind=self.kind,
                timeout=timeout,
                queue=self.queue if queue is None else checked_queue(queue),
                isolate=isolate,
                join=join,
            )
            if any(known.name == stage.name for known in self.stages):
                raise ConfigError(
                    f"pipeline {self.kind!r} already has a stage {stage.name!r}; names are stored, keep them apart"
                )
            if self.stages:
                self._following[self.stages[-1]] = stage
            self._following[stage] = None
            self.stages.append(stage)
            return stage

        return add if function is None else add(function)

    # What the engine asks

    @property
    def queues(self) -> list[str]:
        """Every queue in which tasks of this kind can stand."""
        return sorted({self.queue, *(stage.queue for stage in self.stages)})

    @property
    def fingerprint(self) -> str:
        """What stored data depends on: the version, and the names and results of the stages."""
        hashed = hashlib.blake2b(f"{self.kind}\x00{self.version}".encode(), digest_size=8)
        hashed.update(msgspec.json.encode(msgspec.json.schema(self.payload), order="deterministic"))
        for stage in self.stages:
            hashed.update(stage.fingerprint)
        return hashed.hexdigest()

    def stage_named(self, name: str | None) -> Stage[P, Any]:
        """The stage that a task stands at; None is the first."""
        if name is None:
            return self.stages[0]
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise SchemaMismatch(
            f"the task stands at stage {name!r}, which pipeline {self.kind!r} does not have: {self._names}"
        )

    def stage_after(self, stage: Stage[P, Any]) -> Stage[P, Any] | None:
        """The next stage, if there is one."""
        return self._following[stage]

    def read(self, payload: bytes, version: int) -> P:
        """The payload of a task, if it still fits the code."""
        if version > self.version:
            raise SchemaMismatch(
                f"the task was made for version {version} of {self.kind!r}, this code is version {self.version}"
            )
        try:
            return read_payload(self.payload, payload)  # type: ignore[return-value]
        except msgspec.ValidationError as error:
            raise SchemaMismatch(f"the stored payload no longer fits {self.payload.__name__}: {error}") from error

    def check_stored(self, parts: dict[tuple[str, str], bytes], current: Stage[P, Any]) -> None:
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
                stage.reader(data)
            except msgspec.ValidationError as error:
                raise SchemaMismatch(f"the stored result of stage {stage.name!r} no longer fits: {error}") from error

    @property
    def _names(self) -> str:
        return ", ".join(stage.name for stage in self.stages)


def _policies(refused: Mapping[str, str]) -> tuple[tuple[Rule, str], ...]:
    rules = {rule.value for rule in Rule}
    for rule, policy in refused.items():
        if rule not in rules or policy not in ("refuse", "raise", "park"):
            raise ConfigError(
                f"refused={{{rule!r}: {policy!r}}}: a rule ({', '.join(sorted(rules))}) and 'refuse', 'raise' or 'park'"
            )
        if policy == "park" and Rule(rule) not in PARKABLE:
            raise ConfigError(
                f"refused={{{rule!r}: 'park'}}: an operator can approve of what is too deep or on the stop list; "
                "the other rules are about work or room that is taken"
            )
    return tuple((Rule(rule), policy) for rule, policy in sorted(refused.items()))


def checked_priority(priority: int) -> int:
    """A priority, from -2 to 2."""
    if not isinstance(priority, int) or not LOWEST_PRIORITY <= priority <= HIGHEST_PRIORITY:
        raise ConfigError(f"priority {priority!r}: it is a whole number from {LOWEST_PRIORITY} to {HIGHEST_PRIORITY}")
    return priority


def checked_queue(queue: str) -> str:
    """The name of a queue."""
    if not queue or len(queue) > 100 or not queue.isprintable() or queue.startswith("!") or ":" in queue:
        raise ConfigError(f"{queue!r} is no name for a queue; take a short printable one without a colon")
    return queue
