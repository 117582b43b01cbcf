"""One stage, called with a context of values."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Generic, TypeVar

from onceward.authoring.calls import Closed
from onceward.authoring.context import Context
from onceward.authoring.current_stage import current
from onceward.authoring.stage import Stage
from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.budget import Bill, read_amount
from onceward.model.cache import Cached
from onceward.model.enqueue_options import NO_OPTIONS, EnqueueOptions
from onceward.model.lineage import Sort, Spawn
from onceward.model.payload import Payload, identity, payload_key, stored_payload
from onceward.model.task import (
    CURSOR_PART,
    ONCE_PREFIX,
    RESULT_PART,
    WAIT_PREFIX,
    Effects,
    Fill,
    Filled,
    Hold,
    Keep,
    Lease,
    Move,
    Report,
    Take,
    Write,
)
from onceward.model.times import SystemClock, instant, uuid7
from onceward.settings.config import ENGINE, Config
from onceward.testing.clock import START

P = TypeVar("P", bound=Payload)
R = TypeVar("R")


@dataclass(slots=True)
class StageRun(Generic[R]):
    """What a stage returned, and what it wanted written."""

    result: R
    writes: list[Write] = field(default_factory=list)
    cursors: list[Any] = field(default_factory=list)
    parts: dict[str, Any] = field(default_factory=dict)
    progress: list[Report] = field(default_factory=list)
    spawned: list[Payload] = field(default_factory=list)
    charges: dict[str, Decimal] = field(default_factory=dict)
    """What it has charged, by the names of budgets."""


def run_stage(
    stage: Stage[P, R],
    payload: P,
    *,
    results: Mapping[Stage[Any, Any], Any] | None = None,
    cursor: Any = None,
    parts: Mapping[str, Any] | None = None,
    signals: Mapping[str, Any] | None = None,
    timed_out: Iterable[str] = (),
    settings: Mapping[str, Any] | None = None,
    failures: int = 0,
    scheduled_at: datetime | None = None,
    read_from: Any = None,
) -> StageRun[R]:
    """Call a stage with the results of earlier ones given as values. A verdict it raises comes through as raised.

    `cursor` and `parts` are what an earlier attempt has stored, `timed_out` the signals whose wait ran out of time,
    `settings` is what `ctx.setting` answers besides the engine's own numbers, which are the usual ones,
    `scheduled_at` the time of its schedule, `read_from` the connection that `ctx.read` lends.
    """
    stored = {(one.name, RESULT_PART): one._stored(value) for one, value in (results or {}).items()}
    if cursor is not None:
        stored[stage.name, CURSOR_PART] = codec.encoded(cursor, "the cursor")
    for name, value in (parts or {}).items():
        stored[stage.name, ONCE_PREFIX + name] = codec.encoded(value, f"the part {name!r}")
    for name in timed_out:
        stored[stage.name, WAIT_PREFIX + name] = b"0"
    arrived = {name: codec.encoded(value, f"the signal {name!r}") for name, value in (signals or {}).items()}
    lease = Lease(
        1, 1, b"test", 1, 1, stage.kind, 1, stage.queue, 2, 0, stage.name, stored_payload(payload), failures, 0, 0, 0,
        len(arrived), 1, uuid7(START).bytes, None, 0, START, START,
        scheduled_at=None if scheduled_at is None else instant(scheduled_at),
    )  # fmt: skip
    desk = _ValueDesk(read_from, settings or {})
    context: Context[P] = Context(payload, lease, stage, stored, arrived, desk)
    token = current.set(context)
    try:
        returned = asyncio.run(stage.function(context)) if stage.is_async else stage.function(context)
    finally:
        current.reset(token)
    stage._stored(returned)
    effects = context._end()
    writes = [*desk.writes, *effects.writes]
    desk.take(effects.bill)
    charges = {name: read_amount(amount) for name, amount in desk.charges.items()}
    run: StageRun[R] = StageRun(
        returned, writes, desk.cursors, desk.parts, desk.progress, desk.spawner.spawned, charges
    )
    return run


class _ValueSpawner:
    """Lets every child be, and keeps its payload for the test to look at."""

    def __init__(self) -> None:
        self.spawned: list[Payload] = []

    def child(self, lease: Lease, payload: Payload, options: EnqueueOptions = NO_OPTIONS) -> Spawn:
        self.spawned.append(payload)
        key = payload_key(payload)
        data = stored_payload(payload)
        return Spawn(Sort(payload.__kind__, 1, "default", 2, "no"), key, identity(payload.__kind__, key), data)

    def refused_at_once(self, lease: Lease, payload: Payload, child: Spawn, *_known: object) -> None:
        return None

    def together(self, payload: Payload, *_asked: object) -> None:
        return None


class _ValueDesk:
    """Takes everything, keeps it for the test to look at."""

    def __init__(self, connection: Any, settings: Mapping[str, Any]) -> None:
        self._connection = connection
        self._settings = settings
        self.spawner = _ValueSpawner()
        self.closed = Closed()
        self.writes: list[Write] = []
        self.cursors: list[Any] = []
        self.parts: dict[str, Any] = {}
        self.answers: dict[tuple[str, bytes], Cached] = {}
        self.progress: list[Report] = []
        self.charges: dict[str, int] = {}

    def take(self, bill: Bill | None) -> None:
        """Add up what was charged."""
        for charge in () if bill is None else bill.charges:
            self.charges[charge.budget] = self.charges.get(charge.budget, 0) + charge.amount

    def keep(self, _lease: Lease, move: Move, effects: Effects) -> bool:
        if isinstance(move, Take | Hold | Fill):
            return True
        if isinstance(move, Filled):
            if move.value is not None:
                now = self.now()
                self.answers[move.source, move.hash] = Cached(move.value, now, now + move.keep_ms, now, False)
            return True
        assert isinstance(move, Keep)
        self.writes += effects.writes
        self.take(effects.bill)
        for part in move.parts:
            value = codec.decoder(Any)(part.value)
            if part.part == CURSOR_PART:
                self.cursors.append(value)
            else:
                self.parts[part.part.removeprefix(ONCE_PREFIX)] = value
        return True

    async def akeep(self, lease: Lease, move: Move, effects: Effects) -> bool:
        return self.keep(lease, move, effects)

    def now(self) -> int:
        return SystemClock().now()

    def sleep(self, ms: int) -> None:
        """No time passes."""

    async def asleep(self, ms: int) -> None:
        """No time passes."""

    def report(self, _lease: Lease, move: Report) -> None:
        self.progress.append(move)

    def is_held(self, _lease: Lease) -> bool:
        return True

    def setting(self, name: str) -> Any:
        if name not in self._settings and name in ENGINE:
            return getattr(Config(), name)
        if name not in self._settings:
            raise ConfigError(f"this stage asks for the setting {name!r}; give run_stage(settings={{{name!r}: …}})")
        return self._settings[name]

    def read(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        if self._connection is None:
            raise ConfigError("this stage reads from the database; give run_stage(read_from=connection)")
        return function(self._connection, *arguments)

    async def aread(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        return self.read(function, arguments)

    def look_up(self, source: str, hashed: bytes) -> Cached | None:
        return self.answers.get((source, hashed))

    async def alook_up(self, source: str, hashed: bytes) -> Cached | None:
        return self.look_up(source, hashed)
