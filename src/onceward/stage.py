"""One checkpointed step of a pipeline."""

from __future__ import annotations

import hashlib
import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Generic, Literal, TypeVar

import msgspec

from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.budget import StageCosts
from onceward.model.gates import MOST_CALLS
from onceward.model.payload import Payload
from onceward.model.retry import Retry
from onceward.model.source import Source
from onceward.model.times import Duration, milliseconds

P_contra = TypeVar("P_contra", bound=Payload, contravariant=True)
R_co = TypeVar("R_co", covariant=True)

NOTHING = b"null"
"""The stored form of a stage that returned nothing."""
AS_SET: Duration = "stage_timeout"
"""The timeout of a stage that declares none: what the setting of this name says."""
LAST = "!"
"""What the name of a function that runs at expiry begins with, so that no stage can be called that."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True)
class Isolation:
    """A disposable process for each run of a stage, with limits on what it may take: memory, time on a processor, the
    size of any file that it writes, and how many it may open. What is above a limit is an error of the stage."""

    memory_mb: int | None = None
    cpu: Duration | None = None
    file_mb: int | None = None
    open_files: int | None = None
    cpu_s: int | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("memory_mb", "file_mb", "open_files"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise ConfigError(f"Isolation({name}={value!r}): it is a whole number from 1, or None for no limit")
        cpu_ms = None if self.cpu is None else milliseconds(self.cpu)
        if cpu_ms is not None and cpu_ms < 1:
            raise ConfigError(f"Isolation(cpu={self.cpu!r}) leaves no time")
        object.__setattr__(self, "cpu_s", None if cpu_ms is None else -(-cpu_ms // 1_000))


Isolate = Literal["process"] | Isolation | None


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
        calls: int = 1,
        retry: Retry | None = None,
        budget: Any = None,
        estimate: Any = None,
    ) -> None:
        self.name = function.__name__
        if not _NAME.fullmatch(self.name):
            raise ConfigError(f"{self.name!r} is no name for a stage; take a function with a plain name")
        self.function = function
        self.kind = kind
        self.queue = queue
        self.joins = join
        self.source = source
        self.calls = calls
        self.retry = retry or Retry()
        self.is_async = inspect.iscoroutinefunction(function)
        self.declares_timeout = timeout != AS_SET
        self.timeout_ms = milliseconds(timeout) if self.declares_timeout and timeout is not None else None
        if self.timeout_ms == 0:
            raise ConfigError(f"stage {self.name!r}: a timeout of 0 leaves no time; use timeout=None for no limit")
        self.isolation = Isolation() if isolate == "process" else isolate
        if not (self.isolation is None or isinstance(self.isolation, Isolation)):
            raise ConfigError(f"stage {self.name!r}: isolate={isolate!r}; it is 'process', an Isolation or nothing")
        if source is not None and not isinstance(source, Source):
            raise ConfigError(f"stage {self.name!r}: source={source!r}; it is a Source")
        if not isinstance(calls, int) or isinstance(calls, bool) or not 1 <= calls <= MOST_CALLS:
            raise ConfigError(f"stage {self.name!r}: calls={calls!r}: it is a whole number from 1 to {MOST_CALLS:,}")
        self.costs = StageCosts(self.name, budget, estimate, calls, has_source=source is not None)
        self._reader: Callable[[bytes], Any] | None = None
        self._returns_nothing = False
        self.__doc__ = function.__doc__
        self.__name__ = self.name
        self.__module__ = function.__module__

    def limit_ms(self, otherwise_ms: int) -> int | None:
        """How long an attempt may take; None if that does not matter."""
        return self.timeout_ms if self.declares_timeout else otherwise_ms

    def __call__(self, ctx: Any) -> Any:
        """Call the function itself, as a test may."""
        return self.function(ctx)

    def __repr__(self) -> str:
        return f"<stage {self.kind}.{self.name}>"

    @property
    def returns(self) -> Any:
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

    def stored(self, value: Any) -> bytes:
        """The stored form of what the stage returned, checked to read back as what it is annotated to return."""
        if value is None and self._returns_nothing:
            return NOTHING
        what = f"the result of stage {self.name!r}"
        data = codec.encoded(value, what)
        try:
            self.reader(data)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{what} does not fit its annotation: {error}") from error
        return data

    @property
    def reader(self) -> Callable[[bytes], Any]:
        """The function that reads a stored result; `msgspec.ValidationError` where it does not fit."""
        if self._reader is None:
            returns = self.returns
            self._returns_nothing = returns is type(None) or returns is None or returns is Any
            try:
                self._reader = codec.decoder(type(None) if returns is None else returns)
            except TypeError as error:
                raise ConfigError(
                    f"stage {self.name!r} returns {returns!r}, which cannot be stored: {error}"
                ) from error
        return self._reader

    @cached_property
    def fingerprint(self) -> bytes:
        """What of the stage its stored results depend on: its name and the shape of its result."""
        try:
            shape = msgspec.json.encode(msgspec.json.schema(self.returns), order="deterministic")
        except (TypeError, ConfigError):
            shape = repr(self.returns).encode()
        return hashlib.blake2b(self.name.encode() + b"\x00" + shape, digest_size=8).digest()
