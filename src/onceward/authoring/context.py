"""What a stage may read, and how it says what it wants written.

A stage decides; the engine writes. Effects (`write`) are kept until the stage ends and then committed with its result
under the fence, or dropped with it. `checkpoint`, `once` and `progress` reach the database while the stage runs.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Sequence, Set
from contextvars import copy_context
from datetime import datetime
from functools import partial, wraps
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from onceward.authoring.caching import Answers
from onceward.authoring.calls import Calls
from onceward.authoring.checkpoints import Checkpoints
from onceward.authoring.spending import pen
from onceward.authoring.stage import Stage
from onceward.authoring.stage_view import Outcome, Spawned, TaskInfo, as_outcome, read_stored
from onceward.authoring.worker_port import Desk
from onceward.errors import ConfigError
from onceward.model import arguments as asked
from onceward.model import codec
from onceward.model.batch import name_taken
from onceward.model.connection import Connection
from onceward.model.decide import safe_text
from onceward.model.enqueue_options import NO_OPTIONS, EnqueueOptions
from onceward.model.gates import SourceReport
from onceward.model.lineage import Alias, Ancestor, Limits, Refused, Spawn, StageBatch
from onceward.model.payload import Payload, identity, payload_key
from onceward.model.source import Source
from onceward.model.sql_text import Sql
from onceward.model.status import Status
from onceward.model.task import (
    CURSOR_PART,
    NO_EFFECTS,
    RESULT_PART,
    SIZE_PART,
    WAIT_PREFIX,
    Effects,
    Keep,
    Lease,
    Report,
    Write,
)
from onceward.model.times import Duration, moment
from onceward.support.logs import bound_logger

P = TypeVar("P", bound=Payload)
R = TypeVar("R")
T = TypeVar("T")
A = ParamSpec("A")

_NONE_ASKED_FOR: frozenset[bytes] = frozenset()
_ASKED_FOR = Spawned()


class Context(Checkpoints, Generic[P]):
    """The context of one run of one stage."""

    # Most stages ask for nothing of this: it stands here, and costs them nothing.
    _writes: Sequence[Write] = ()
    _sizes: dict[str, int] | None = None
    _spawns: Sequence[Spawn] = ()
    _asked_for: Set[bytes] = _NONE_ASKED_FOR
    _known: Set[bytes] | None = None
    _aliases: tuple[Alias, ...] = ()
    _known_as: tuple[Ancestor, ...] = ()
    _batches: tuple[StageBatch, ...] = ()
    _reports: tuple[SourceReport, ...] = ()

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

    def __repr__(self) -> str:
        return f"<context of task {self._lease.task}, stage {self._stage.name}>"

    # What a stage may read

    def result(self, stage: Stage[Any, R]) -> R:
        """What an earlier stage of this task returned."""
        try:
            data = self._parts.get((stage.name, RESULT_PART))
        except AttributeError:
            raise ConfigError(
                f"ctx.result({asked.shown(stage)}): it takes the stage, as in ctx.result(price)"
            ) from None
        if data is None:
            raise ConfigError(
                f"stage {stage.name!r} has not finished before {self._stage.name!r}, it has no result yet"
            )
        value: R = stage._reader(data)
        return value

    @property
    def task(self) -> TaskInfo:
        """The task that this stage runs for."""
        lease = self._lease
        return TaskInfo(
            lease.task, lease.kind, lease.run, self._stage.name, lease.failures + 1, lease.deferrals, lease.lineage,
            lease.parent, lease.depth, moment(lease.created_at), moment(lease.started_at), lease.fence,
            lease.token.hex(),
        )  # fmt: skip

    @property
    def scheduled_at(self) -> datetime | None:
        """The time of its schedule for which the task was enqueued; None if it has come by another way."""
        at = self._lease.scheduled_at
        return None if at is None else moment(at)

    @property
    def is_fresh(self) -> bool:
        """Whether this run of the task has stored nothing yet: no finished stage, no cursor, no part."""
        return all(part == SIZE_PART or part.startswith(WAIT_PREFIX) for _, part in self._parts)

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
        return None if data is None else read_stored(data, Any, "the cursor")

    def cursor_as(self, expected: type[T]) -> T | None:
        """The cursor, read as a type."""
        data = self._parts.get((self._stage.name, CURSOR_PART))
        return None if data is None else read_stored(data, expected, f"the cursor of stage {self._stage.name!r}")

    @overload
    def signal(self, name: str) -> Any: ...
    @overload
    def signal(self, name: str, type: type[T]) -> T | None: ...
    def signal(self, name: str, type: Any = Any) -> Any:
        """The value of a signal that has come before this attempt began; None if it has not."""
        data = self._signals.get(name)
        return None if data is None else read_stored(data, type, f"the signal {name!r}")

    def timed_out(self, name: str) -> bool:
        """Whether the time of `raise Waiting(until=name, after=…)` in this stage ran out without the signal."""
        return name not in self._signals and (self._stage.name, WAIT_PREFIX + name) in self._parts

    def setting(self, name: str) -> Any:
        """The value of a setting that is in force now: of the application's own, or of the engine's."""
        return self._desk.setting(name)

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

    # Its children

    def spawn(
        self,
        payload: Payload,
        *,
        after: Duration | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        limits: Limits | None = None,
    ) -> Spawned:
        """Ask for a child. It comes to be when this stage commits, if the rules of its lineage allow it.

        Nothing is asked of the database: the answer is falsy only for what is known already (depth, an ancestor, the
        stop list, the number of children). What became of it in the end is for later stages, in `ctx.outcome(payload)`.
        """
        is_plain = after is None and at is None and priority is None and limits is None
        child = self._child(payload, NO_OPTIONS if is_plain else EnqueueOptions(after, at, priority, limits))
        refused = self._refused_at_once(child)
        self._ask_for(child, counts=refused is None)
        return _ASKED_FOR if refused is None else Spawned(refused.rule, refused.reason, refused.existing)

    @property
    def children(self) -> list[Outcome]:
        """What has become of the children that earlier stages have asked for, and of the tasks they were linked to."""
        return [as_outcome(child) for child in self._lease.family.children if child.is_listed]

    def outcome(self, payload: Payload) -> Outcome:
        """What has become of a child that an earlier stage has asked for; also of one that was refused."""
        wanted = identity(payload.__kind__, payload_key(payload))
        found = [child for child in self._lease.family.children if child.identity == wanted]
        if not found:
            raise ConfigError(f"no earlier stage of task {self._lease.task} has asked for this {payload.__kind__}")
        return as_outcome(min(found, key=lambda child: child.rule is not None))

    def alias(self, key: str) -> None:
        """Have this task also known under another key of its kind, such as the URL after all redirects.

        With the commit of this stage that key counts like its own: for `unique`, for `fresh_for`, and for cycles, of
        the children of this very stage too.
        """
        alias = Alias(identity(self._lease.kind, codec.checked_name(key, "a key", longest=None)), key)
        with pen:
            self._refuse_if_ended()
            self._aliases += (alias,)
            self._known_as += (alias.of(self._lease.task),)

    def wrap(self, function: Callable[A, T]) -> Callable[A, T]:
        """The same function, for a thread or an executor of yours: what it enqueues is a spawn of this stage."""
        mine = copy_context()

        @wraps(function)
        def carried(*arguments: A.args, **named: A.kwargs) -> T:
            return mine.copy().run(function, *arguments, **named)

        return carried

    # Outside services

    def call(self, source: Source, function: Callable[[], T]) -> T:
        """The value of `function()`, an outside call, within the time limit and with the retries of a source.

        Its breaker hears of each try, and each takes a token of its rate. Where the source is closed, or has no token
        for a while, the stage is put off until it has, and costs no attempt: keep what is done before with `ctx.once`.
        """
        return self._made_calls().call(source, function)

    async def acall(self, source: Source, function: Callable[[], Awaitable[T]]) -> T:
        """`call` for a function that is awaited."""
        return await self._made_calls().acall(source, function)

    def cached(self, source: Source, key: Any, function: Callable[[], T], type: Any = Any) -> T:
        """The answer of a source for a key: the one in the cache, or the value of `function()`, made as `call` does.

        The cache is shared by all workers, and of those who want the same answer at the same time one asks for it. The
        others wait; where that takes long, their stage is put off and costs no attempt.
        """
        return Answers(self._lease, self._made_calls(), self._desk).cached(source, key, function, type)

    async def acached(self, source: Source, key: Any, function: Callable[[], Awaitable[T]], type: Any = Any) -> T:
        """`cached` for a function that is awaited."""
        return await Answers(self._lease, self._made_calls(), self._desk).acached(source, key, function, type)

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
        if isinstance(function, Sql):
            function.checked(*arguments)  # type: ignore[arg-type]
        with pen:
            self._refuse_if_ended()
            if not isinstance(self._writes, list):
                self._writes = list(self._writes)
            self._writes.append((function, arguments))

    def progress(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """Show how far this stage has come, and start its time limit anew."""
        self._refuse_if_ended()
        come, whole = asked.count_of(done, "done"), None if total is None else asked.count_of(total, "total")
        if note is not None and not isinstance(note, str):
            raise ConfigError(f"note={asked.shown(note)}: it is a text, or None")
        self._desk.report(self._lease, Report(self._stage.name, come, whole, safe_text(note) if note else note))

    def measure(self, **sizes: int) -> None:
        """Say how large the work of this stage is: `ctx.measure(words=1322)`. `stats` groups its durations by that."""
        self._refuse_if_ended()
        self._sizes = {**(self._sizes or {}), **{name: asked.count_of(size, name) for name, size in sizes.items()}}

    def _made_calls(self) -> Calls:
        self._refuse_if_ended()
        if self._calls is None:
            self._calls = Calls(self._lease, self._stage, self.payload, self._desk)
        return self._calls

    # For batches that it opens

    def _child(self, payload: Payload, options: EnqueueOptions = NO_OPTIONS) -> Spawn:
        self._refuse_if_ended()
        return self._desk.spawner.child(self._lease, payload, options)

    def _open_batch(self, batch: StageBatch, asked: Sequence[Spawn]) -> None:
        """Have a batch opened with these children when this stage commits; only what follows it counts as a child."""
        with pen:
            self._refuse_if_ended()
            if any(one.name == batch.name for one in self._batches):
                raise ConfigError(name_taken(batch.name))
            self._batches += (batch,)
            for child in asked:
                self._ask_for(child, counts=child.follows is not None)

    def _refused_at_once(self, child: Spawn, *, counts: bool = True) -> Refused | None:
        """What is known already of a child, after all that were asked for; one of a batch does not count."""
        asked_before = len(self._asked_for) - (child.identity in self._asked_for)
        needs_room = counts and not self._has_already(child)
        return self._desk.spawner.refused_at_once(
            self._lease, self.payload, child, asked_before if needs_room else None, self._known_as
        )

    def _has_already(self, child: Spawn) -> bool:
        """Whether this is a child that the task had when its attempt began: asked for again, it is the same one."""
        known = self._known
        if known is None:
            family = self._lease.family.children
            known = {one.identity for one in family if one.is_own and one.status != Status.CANCELLED}
            self._known = known
        return bool(known) and child.identity in known and child.sort.unique != "no"

    def _ask_for(self, child: Spawn, *, counts: bool) -> None:
        """Have a child asked for. It counts as one more unless it is refused already, or there already."""
        with pen:
            self._refuse_if_ended()
            spawns, asked_for = self._spawns, self._asked_for
            if type(spawns) is not list:
                self._spawns = spawns = list(spawns)
            if type(asked_for) is not set:
                self._asked_for = asked_for = set(asked_for)
            spawns.append(child)
            if counts and not self._has_already(child):
                asked_for.add(child.identity)

    # For the worker

    def _end(self) -> Effects:
        """Take no more effects, because the stage has ended; returns those that were taken."""
        with pen:
            self._has_ended = True
            effects = self._effects()
            if self._calls is None and not (self._reports or self._charges or self._settlements or self._used):
                return effects
            reports = self._reports if self._calls is None else self._calls.reports()
            reports += self._weighed()
            bill = self._bill()
            return effects if bill is None and not reports else effects._replace(reports=reports, bill=bill)

    def _adopt(self, effects: Effects) -> None:
        """Take over what the stage wanted written in a process of its own."""
        self._reports = effects.reports
        self._take_back(effects)

    def _take_back(self, effects: Effects) -> None:
        """Nothing of this was committed: it stands again before what the stage has asked for since. Money above all."""
        with pen:
            self._writes = [*effects.writes, *self._writes]
            if effects.sizes is not None:
                self._sizes = {**codec.decoder(dict[str, int])(effects.sizes), **(self._sizes or {})}
            self._take_back_bill(effects.bill)
            if effects.spawns is not None:
                self._spawns = [*effects.spawns.asked, *self._spawns]
                mine = [child for child in self._spawns if child.batch is None and not self._has_already(child)]
                self._asked_for = {child.identity for child in mine}
                self._aliases = effects.spawns.aliases + self._aliases
                self._batches = effects.spawns.batches + self._batches

    def _effects(self) -> Effects:
        if not (self._writes or self._spawns or self._aliases or self._batches or self._sizes):
            return NO_EFFECTS
        spawns = None
        if self._spawns or self._aliases or self._batches:
            spawns = self._desk.spawner.together(self.payload, tuple(self._spawns), self._aliases, self._batches)
        sizes = codec.encoded(self._sizes, "the sizes of a stage") if self._sizes else None
        return Effects(tuple(self._writes), spawns, sizes=sizes)

    def _checkpoint(self, cursor: Any) -> tuple[Keep, Effects]:
        move = self._part(CURSOR_PART, cursor, f"the cursor of stage {self._stage.name!r}")
        with pen:
            effects = self._effects()
            if (bill := self._bill()) is not None:
                effects = effects._replace(bill=bill)
                self._charges = dict.fromkeys(self._charges, 0)
                self._settlements = ()
            self._writes, self._spawns, self._aliases, self._batches, self._asked_for = (), (), (), (), _NONE_ASKED_FOR
        return move, effects
