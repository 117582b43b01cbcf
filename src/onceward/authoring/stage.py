"""One checkpointed step of a pipeline."""

from __future__ import annotations

import hashlib
import inspect
import re
import typing
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Generic, Literal, TypeVar

import msgspec

from onceward.errors import ConfigError, PayloadError
from onceward.model import codec
from onceward.model.arguments import checked_flag, checked_whole, shown
from onceward.model.budget import StageCosts
from onceward.model.gates import MOST_CALLS, rounded_up
from onceward.model.outcome import Verdict
from onceward.model.payload import Payload
from onceward.model.retry import Retry
from onceward.model.source import MOST_AT_ONCE, Source
from onceward.model.times import Duration, milliseconds

P_contra = TypeVar("P_contra", bound=Payload, contravariant=True)
R_co = TypeVar("R_co", covariant=True)

Calls = int | Callable[[Any], int]
"""How many outside calls a stage makes at most: a number, or a function of the payload."""
MOST_CALLS_WITHOUT_SOURCE = 1_000_000
NOTHING = b"null"
"""The stored form of a stage that returned nothing."""
AS_CONFIGURED: Duration = "stage_timeout"
"""The timeout of a stage that declares none: what the setting of this name says."""
LAST = "!"
"""What the name of a function that runs at expiry begins with, so that no stage can be called that."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class Isolation:
    """A process for each run of a stage, with limits on what it may take: memory, time on a processor, the size of any
    file that it writes, and how many it may open. What is above a limit is an error of the stage.

    With `runs` above 1 a process is kept warm and serves so many runs, one at a time: none of them waits for an
    interpreter to start and for the app to be imported. It is replaced after them, after a fault, and when it holds
    more than half of its memory. The runs share what the process has in memory; give code that you do not trust one.
    """

    memory_mb: int | None = None
    cpu: Duration | None = None
    file_mb: int | None = None
    open_files: int | None = None
    runs: int = 1
    cpu_s: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("memory_mb", "file_mb", "open_files"):
            value = getattr(self, name)
            checked_whole(name, value, 1, MOST_AT_ONCE, none="for no limit")
        checked_whole("runs", self.runs, 1, MOST_AT_ONCE)
        cpu_ms = None if self.cpu is None else milliseconds(self.cpu)
        if cpu_ms is not None and cpu_ms < 1:
            raise ConfigError(f"Isolation(cpu={self.cpu!r}) leaves no time")
        object.__setattr__(self, "cpu_s", None if cpu_ms is None else -(-cpu_ms // 1_000))


def checked_stage_function(function: Any) -> None:
    """Refuse as a stage what cannot be called with a context alone, or yields where it should return."""
    name = getattr(function, "__name__", None)
    is_function = callable(function) and not isinstance(function, type) and isinstance(name, str)
    fits = has_code = is_function and hasattr(inspect.unwrap(function), "__globals__")
    if fits:
        try:
            inspect.signature(function, follow_wrapped=False).bind(None)
        except TypeError:
            fits = False
        except ValueError:  # a wrapper that was not written in Python does not say what it takes
            pass
    if not fits:
        what = f"{name}{inspect.signature(function)}" if has_code else shown(function)
        raise ConfigError(f"{what} is no stage: it is a function with one argument, as in def step(ctx)")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(
            f"stage {name!r} is no function with one result: it yields; return a value, and keep what it has done on "
            "the way with ctx.checkpoint or ctx.once"
        )


Isolate = Literal["process"] | Isolation | None
Weight = int | Callable[[Any], int]
MOST_WEIGHT = 1_000_000_000


def checked_weights(stage: str, source: Source | None, weights: Any) -> dict[str, Weight]:
    """How much a stage needs of each weight of its source; all of them are named."""
    if not (weights is None or isinstance(weights, Mapping)):
        raise ConfigError(f"stage {stage!r}: weights={shown(weights)}; they are given as {{'tokens': 4000}}")
    given, wanted = dict(weights or {}), {} if source is None else source.weight_gates
    if given.keys() != wanted.keys():
        has = ", ".join(wanted) or "none"
        raise ConfigError(f"stage {stage!r}: weights={list(given)}; its source has: {has}, and the stage names each")
    for name, weight in given.items():
        if not callable(weight):
            checked_whole(f"stage {stage!r}: what it needs of {name!r}", weight, 1, MOST_WEIGHT)
    return given


class Stage(Generic[P_contra, R_co]):
    """A stage as the engine knows it: its name, its function, its limits, and the type that it returns.

    Its name is stored with every checkpoint, so renaming the function is a change of the pipeline.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        kind: str,
        timeout: Duration | None,
        queue: str,
        isolate: Isolate,
        join: bool = False,
        source: Source | None = None,
        calls: Calls | None = None,
        retry: Retry | None = None,
        budget: Any = None,
        estimate: Any = None,
        holds: Any = None,
        weights: Any = None,
    ) -> None:
        checked_stage_function(function)
        checked_flag("join", join)
        self.name = function.__name__
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"{self.name!r} is no name for a stage; take a function with a plain name")
        self.function = function
        self.kind = kind
        self.queue = queue
        self.joins = join
        self.source = source
        self.calls = calls = (0 if source is None else 1) if calls is None else calls
        self.retry = retry or Retry()
        self.is_async = inspect.iscoroutinefunction(function)
        self.declares_timeout = timeout != AS_CONFIGURED
        self.timeout_ms = milliseconds(timeout) if self.declares_timeout and timeout is not None else None
        if self.timeout_ms == 0:
            raise ConfigError(f"stage {self.name!r}: a timeout of 0 leaves no time; use timeout=None for no limit")
        self.isolation = Isolation() if isolate == "process" else isolate
        if not (self.isolation is None or isinstance(self.isolation, Isolation)):
            raise ConfigError(
                f"stage {self.name!r}: isolate={shown(isolate)}; it is 'process', an Isolation or nothing"
            )
        if source is not None and not isinstance(source, Source):
            raise ConfigError(f"stage {self.name!r}: source={shown(source)}; it is a Source")
        least, most = (0, MOST_CALLS_WITHOUT_SOURCE) if source is None else (1, MOST_CALLS)
        if not callable(calls) and (type(calls) is not int or not least <= calls <= most):
            raise ConfigError(
                f"stage {self.name!r}: calls={shown(calls)}: it is a whole number from {least} to {most:,}, "
                f"or a function of the payload"
            )
        self.tokens = 1 if callable(calls) else max(1, calls)
        """How many calls are paid for when the stage is claimed; those beyond are paid for one by one."""
        self.costs = StageCosts(self.name, budget, estimate, self.tokens, has_source=source is not None, holds=holds)
        self.weights = checked_weights(self.name, source, weights)
        """How many of each weight of its source it needs: a number, or a function of the payload."""
        self._returns_nothing = False
        self.__doc__ = function.__doc__
        self.__name__ = self.name
        self.__module__ = function.__module__

    @property
    def _weighs_payloads(self) -> bool:
        """Whether how much it needs of its source depends on the payload."""
        return any(callable(weight) for weight in self.weights.values())

    def _weights_of(self, payload: Any) -> list[tuple[str, int]]:
        """How many of each weight it needs for a task with this payload; what a function says, rounded up a little."""
        found = []
        for name, weight in self.weights.items():
            said = weight(payload) if callable(weight) else weight
            what = f"stage {self.name!r}: what it needs of {name!r}"
            checked_whole(what, said, 1, MOST_WEIGHT)
            found.append((name, rounded_up(said) if callable(weight) else said))
        return found

    def _most_calls(self, payload: Any) -> int:
        """How many outside calls one run of the stage may make, for a task with this payload."""
        if not callable(self.calls):
            return self.calls
        found = self.calls(payload)
        if type(found) is not int or not 0 <= found <= MOST_CALLS_WITHOUT_SOURCE:
            raise ConfigError(
                f"stage {self.name!r}: calls(…) returned {shown(found)}: it is a whole number from 0 to "
                f"{MOST_CALLS_WITHOUT_SOURCE:,}"
            )
        return found

    def _most_retries(self, usual: int) -> int:
        """How often one of its calls may be repeated, whatever source it is of."""
        own = None if self.source is None else self.source.retries
        return usual if own is None else max(usual, own)

    def _limit_ms(self, otherwise_ms: int) -> int | None:
        """How long an attempt may take; None if that does not matter."""
        return self.timeout_ms if self.declares_timeout else otherwise_ms

    def __call__(self, ctx: Any) -> Any:
        """Call the function itself, as a test may."""
        return self.function(ctx)

    def __repr__(self) -> str:
        return f"<stage {self.kind}.{self.name}>"

    @property
    def _returns(self) -> Any:
        """The type that the stage is annotated to return; anything if it is not annotated."""
        function = inspect.unwrap(self.function)
        annotations = function.__annotations__
        if "return" not in annotations:
            return Any
        # Only this one is read: the class of its payload may stand where the module cannot see it, in a test say.
        alone = SimpleNamespace(__annotations__={"return": annotations["return"]})
        try:
            return typing.get_type_hints(alone, function.__globals__)["return"]
        except Exception as error:
            raise ConfigError(f"stage {self.name!r}: what it returns cannot be read: {error}") from error

    def _stored(self, value: Any) -> bytes:
        """The stored form of what the stage returned, checked to read back as what it is annotated to return."""
        if value is None and self._returns_nothing:
            return NOTHING
        what = f"the result of stage {self.name!r}"
        try:
            data = codec.encoded(value, what)
        except PayloadError:
            self._check_returned(value)
            raise
        try:
            self._reader(data)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{what} does not fit its annotation: {error}") from error
        return data

    def _check_returned(self, value: Any) -> None:
        """Refuse as a result what the stage was meant to raise, or to wait for."""
        name = type(value).__name__
        if isinstance(value, Verdict):
            raise ConfigError(f"stage {self.name!r} returned {name}(…), which is a verdict; write: raise {name}(…)")
        if isinstance(value, Awaitable | AsyncIterator | Iterator):
            if inspect.iscoroutine(value):
                value.close()
            raise ConfigError(
                f"stage {self.name!r} returned a {name}, which ran nothing and cannot be stored; it is an `async def` "
                "that awaits, or a `def` that returns a value"
            )

    @cached_property
    def _reader(self) -> Callable[[bytes], Any]:
        """The function that reads a stored result; `msgspec.ValidationError` where it does not fit."""
        returns = self._returns
        self._returns_nothing = returns is type(None) or returns is None or returns is Any
        try:
            return codec.decoder(type(None) if returns is None else returns)
        except TypeError as error:
            raise ConfigError(f"stage {self.name!r} returns {returns!r}, which cannot be stored: {error}") from error

    @cached_property
    def _fingerprint(self) -> bytes:
        """What of the stage its stored results depend on: its name and the shape of its result."""
        try:
            shape = msgspec.json.encode(msgspec.json.schema(self._returns), order="deterministic")
        except (TypeError, ConfigError):
            shape = repr(self._returns).encode()
        return hashlib.blake2b(self.name.encode() + b"\x00" + shape, digest_size=8).digest()
