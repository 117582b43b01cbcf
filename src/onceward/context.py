"""What a stage may read, and how it says what it wants written.

A stage decides; the engine writes. Effects (`write`) are kept until the stage ends and then committed with its result
under the fence, or dropped with it. `checkpoint`, `once` and `progress` reach the database while the stage runs.
"""

from __future__ import annotations

import hashlib
import inspect
import uuid
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

import msgspec

from onceward.errors import ConfigError, LeaseLost, NotInThisVersion, StageEnded
from onceward.logs import bound_logger
from onceward.model import codec
from onceward.model.connection import Connection
from onceward.model.decide import readable
from onceward.model.outcome import SchemaMismatch
from onceward.model.payload import Payload
from onceward.model.task import CURSOR_PART, ONCE_PREFIX, RESULT_PART, Keep, Lease, Move, Part, Report, Write
from onceward.model.times import moment
from onceward.stage import Stage

P = TypeVar("P", bound=Payload)
R = TypeVar("R")
T = TypeVar("T")
A = ParamSpec("A")

current: ContextVar[Context[Any] | None] = ContextVar("onceward_context", default=None)
"""The context of the stage that this code runs in."""

_LATER = {
    "spawn": "ctx.spawn", "children": "ctx.children", "outcome": "ctx.outcome", "alias": "ctx.alias",
    "wrap": "ctx.wrap", "charge": "ctx.charge", "cached": "ctx.cached", "acached": "ctx.acached", "call": "ctx.call",
    "acall": "ctx.acall", "setting": "ctx.setting",
}  # fmt: skip


class Desk(Protocol):
    """What a context asks of the worker that runs it."""

    def keep(self, lease: Lease, move: Move, writes: tuple[Write, ...]) -> bool:
        """Commit something while the stage goes on, and wait for it; False if the lease was lost."""

    async def akeep(self, lease: Lease, move: Move, writes: tuple[Write, ...]) -> bool:
        """`keep`, awaited."""

    def report(self, lease: Lease, move: Report) -> None:
        """Show progress, some time soon."""

    def is_held(self, lease: Lease) -> bool:
        """Whether the lease is held, as far as is known here."""

    def read(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Run a function on a read-only snapshot."""

    async def aread(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """`read`, awaited."""


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """The task that a stage runs for."""

    id: int
    kind: str
    run: int
    stage: str
    attempt: int
    """The how-manieth try of this stage this is, from 1."""
    deferrals: int
    lineage: uuid.UUID
    parent: int | None
    depth: int
    created_at: datetime
    started_at: datetime


class Context(Generic[P]):
    """The context of one run of one stage."""

    __slots__ = ("_desk", "_has_ended", "_lease", "_parts", "_signals", "_stage", "_writes", "payload")

    def __init__(
        self,
        payload: P,
        lease: Lease,
        stage: Stage[P, Any],
        parts: dict[tuple[str, str], bytes],
        signals: dict[str, bytes],
        desk: Desk,
    ) -> None:
        self.payload = payload
        self._lease = lease
        self._stage = stage
        self._parts = parts
        self._signals = signals
        self._desk = desk
        self._writes: list[Write] = []
        self._has_ended = False

    def __repr__(self) -> str:
        return f"<context of task {self._lease.task}, stage {self._stage.name}>"

    # What a stage may read

    def result(self, stage: Stage[Any, R]) -> R:
        """What an earlier stage of this task returned."""
        data = self._parts.get((stage.name, RESULT_PART))
        if data is None:
            raise ConfigError(
                f"stage {stage.name!r} has not finished before {self._stage.name!r}, it has no result yet"
            )
        value: R = stage.reader(data)
        return value

    @property
    def task(self) -> TaskInfo:
        """The task that this stage runs for."""
        lease = self._lease
        return TaskInfo(
            lease.task, lease.kind, lease.run, self._stage.name, lease.failures + 1, lease.deferrals, lease.lineage,
            lease.parent, lease.depth, moment(lease.created_at), moment(lease.started_at),
        )  # fmt: skip

    @property
    def is_fresh(self) -> bool:
        """Whether this run of the task has stored nothing yet: no finished stage, no cursor, no part."""
        return not self._parts

    @property
    def idempotency_key(self) -> str:
        """A key for calls to the outside: the same for every attempt of this stage of this run of the task."""
        lease = self._lease
        text = f"{lease.lineage}/{lease.task}/{lease.run}/{self._stage.name}"
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def cursor(self) -> Any:
        """What `checkpoint` stored last in this stage; None if nothing."""
        data = self._parts.get((self._stage.name, CURSOR_PART))
        return None if data is None else codec.decoder(Any)(data)

    def cursor_as(self, expected: type[T]) -> T | None:
        """The cursor, read as a type."""
        data = self._parts.get((self._stage.name, CURSOR_PART))
        return None if data is None else _read(data, expected, f"the cursor of stage {self._stage.name!r}")

    @overload
    def signal(self, name: str) -> Any: ...
    @overload
    def signal(self, name: str, type: type[T]) -> T | None: ...
    def signal(self, name: str, type: Any = Any) -> Any:
        """The value of a signal that has come before this attempt began; None if it has not."""
        data = self._signals.get(name)
        return None if data is None else _read(data, type, f"the signal {name!r}")

    def alive(self) -> bool:
        """Whether this attempt still holds its task. A long stage that sees False should stop; it can write nothing."""
        return not self._has_ended and self._desk.is_held(self._lease)

    def read(self, function: Callable[Concatenate[Connection, A], T], *arguments: A.args, **named: A.kwargs) -> T:
        """Run `function(connection, *arguments)` on a read-only snapshot of the database."""
        value: T = self._desk.read(partial(function, **named), arguments)
        return value

    async def aread(
        self, function: Callable[Concatenate[Connection, A], T], *arguments: A.args, **named: A.kwargs
    ) -> T:
        """`read`, awaited."""
        value: T = await self._desk.aread(partial(function, **named), arguments)
        return value

    @property
    def log(self) -> Any:
        """A structured logger that knows task, kind, stage and lineage."""
        lease = self._lease
        return bound_logger("onceward").bind(
            task=lease.task, kind=lease.kind, stage=self._stage.name, lineage=str(lease.lineage)
        )

    # What a stage may want written

    def write(
        self, function: Callable[Concatenate[Connection, A], None], *arguments: A.args, **named: A.kwargs
    ) -> None:
        """Have `function(connection, *arguments)` run in the transaction that commits this stage.

        It may run more than once, and only the last time counts: SQL only, no side effects, nothing returned.
        """
        self._refuse_if_ended()
        if inspect.iscoroutinefunction(function):
            raise ConfigError("ctx.write takes a plain function: it runs inside the commit, where nothing is awaited")
        if named:
            raise ConfigError("ctx.write passes on plain arguments only, without names")
        self._writes.append((function, arguments))

    def checkpoint(self, cursor: Any) -> None:
        """Commit a cursor and all effects so far. After this returns they are durable, also if the stage fails."""
        move, writes = self._checkpoint(cursor)
        self._kept(self._desk.keep(self._lease, move, writes), move)

    async def acheckpoint(self, cursor: Any) -> None:
        """`checkpoint`, awaited."""
        move, writes = self._checkpoint(cursor)
        self._kept(await self._desk.akeep(self._lease, move, writes), move)

    def once(self, name: str, function: Callable[[], T], type: Any = Any) -> T:
        """The value of `function()`, which is stored at once and never asked for again in this run of the task."""
        found, value = self._once(name, type)
        if found:
            return value  # type: ignore[no-any-return]
        self._refuse_if_ended()
        move = self._once_part(name, function(), type)
        self._kept(self._desk.keep(self._lease, move, ()), move)
        return self._once(name, type)[1]  # type: ignore[no-any-return]

    async def aonce(self, name: str, function: Callable[[], Awaitable[T]], type: Any = Any) -> T:
        """`once` for a function that is awaited."""
        found, value = self._once(name, type)
        if found:
            return value  # type: ignore[no-any-return]
        self._refuse_if_ended()
        move = self._once_part(name, await function(), type)
        self._kept(await self._desk.akeep(self._lease, move, ()), move)
        return self._once(name, type)[1]  # type: ignore[no-any-return]

    def progress(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """Show how far this stage has come, and start its time limit anew."""
        self._refuse_if_ended()
        told = None if note is None else readable(note)
        self._desk.report(self._lease, Report(self._stage.name, int(done), total, told))

    # For the worker

    def end(self) -> tuple[Write, ...]:
        """The stage has ended: no more effects are taken. Returns those that were."""
        self._has_ended = True
        return tuple(self._writes)

    def _checkpoint(self, cursor: Any) -> tuple[Keep, tuple[Write, ...]]:
        move = self._part(CURSOR_PART, cursor, f"the cursor of stage {self._stage.name!r}")
        writes, self._writes = tuple(self._writes), []
        return move, writes

    def _part(self, part: str, value: Any, what: str) -> Keep:
        self._refuse_if_ended()
        return Keep(self._stage.name, (Part(self._stage.name, part, codec.encoded(value, what)),))

    def _once_part(self, name: str, value: Any, expected: Any) -> Keep:
        """The part to store: checked now to be what was asked for, because stored it would stay wrong for ever."""
        move = self._part(ONCE_PREFIX + name, value, f"the part {name!r}")
        try:
            codec.decoder(expected)(move.parts[0].value)
        except msgspec.ValidationError as error:
            raise ConfigError(f"the part {name!r} is not of the type that was asked for: {error}") from error
        return move

    def _once(self, name: str, expected: Any) -> tuple[bool, Any]:
        data = self._parts.get((self._stage.name, ONCE_PREFIX + codec.checked_name(name, "a part")))
        return (False, None) if data is None else (True, _read(data, expected, f"the part {name!r}"))

    def _kept(self, accepted: bool, move: Keep) -> None:
        if not accepted:
            raise LeaseLost(f"task {self._lease.task} belongs to another attempt now; nothing was kept")
        for part in move.parts:
            self._parts[part.stage, part.part] = part.value

    def _refuse_if_ended(self) -> None:
        if self._has_ended:
            raise StageEnded(
                f"stage {self._stage.name!r} of task {self._lease.task} has ended; it takes no more effects"
            )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in _LATER:
                raise NotInThisVersion(_LATER[name])
            raise AttributeError(f"a context has no {name!r}")


def _read(data: bytes, expected: Any, what: str) -> Any:
    try:
        return codec.decoder(expected)(data)
    except msgspec.ValidationError as error:
        raise SchemaMismatch(f"{what} is stored in a form that no longer fits the code: {error}") from error
