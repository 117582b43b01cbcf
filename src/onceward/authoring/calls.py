"""One outside call: its time limit, its retries, and what its source is told of each try.

A call takes a token of its source first: of those that its stage was claimed with, then of the bucket. Where there is
none for a while, or the source is closed, the stage is put off until there is: nothing waits in a worker slot for long.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import threading
from collections.abc import Awaitable, Callable, Generator
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from onceward.authoring.stage import Stage
from onceward.errors import CallsExceeded, ConfigError
from onceward.model.budget import CALLS
from onceward.model.gates import BUDGET, SourceReport, read_gates
from onceward.model.outcome import Waiting
from onceward.model.payload import Payload, payload_key
from onceward.model.retry import error_text, is_transient, retry_after_ms
from onceward.model.source import CallLimits, NotYet, Source
from onceward.model.task import NO_EFFECTS, Effects, Lease, Move, Take
from onceward.model.times import NEVER, duration_text, milliseconds, moment

T = TypeVar("T")

LONGEST_WAIT_MS = 2_000
"""How long a call waits where it is, for a token or after an error. Beyond that its stage is put off."""
LONGEST_DEFERRAL_MS = 60_000
"""After how long a source that does not say when it opens is asked again."""
FRESH_MS = 50
"""How long a call relies on what its gate has said: a source that closes elsewhere is heeded after that time."""
BACKOFF_MS = 250
"""The longest wait before the first retry; it doubles with each."""


class CallTimeout(TimeoutError):
    """An outside call took longer than its source allows."""


class Closed:
    """The sources that have asked this process to be left alone, until the database knows.

    What is remembered here holds for two seconds at most: then every call has to ask the database, where an operator
    may have opened the source again.
    """

    def __init__(self) -> None:
        self._heard: dict[str, tuple[int, int]] = {}
        """By gate: when it was heard, and until when the source is closed."""

    def close(self, gate: str, pause_ms: int, now: int) -> None:
        """Begin no call for so long."""
        others = {one: heard for one, heard in self._heard.items() if self.until(one, now) is not None}
        self._heard = {**others, gate: (now, max(now + pause_ms, self.until(gate, now) or 0))}

    def until(self, gate: str, now: int) -> int | None:
        """Until when no call may begin; None if one may now, or the database has to be asked."""
        heard_at, until = self._heard.get(gate, (0, 0))
        return until if now < until and abs(now - heard_at) < LONGEST_WAIT_MS else None


class Desk(Protocol):
    """What a call needs of the worker."""

    closed: Closed

    def keep(self, lease: Lease, move: Move, effects: Effects) -> bool:
        """Commit something while the stage goes on, and wait for it."""

    async def akeep(self, lease: Lease, move: Move, effects: Effects) -> bool:
        """`keep`, awaited."""

    def now(self) -> int:
        """The time."""

    def setting(self, name: str) -> Any:
        """The value of a setting that is in force."""

    def sleep(self, ms: int) -> None:
        """Let time pass."""

    async def asleep(self, ms: int) -> None:
        """`sleep`, awaited."""


_counting = threading.Lock()
"""Held for a moment by a call that begins: a stage may make calls in threads of its own."""


class _Try:
    """It is time to make the call."""


_TRY = _Try()
Step = Take | int | _Try
"""What a call does next: take a token, wait for so many milliseconds, or be made."""


@dataclass(slots=True)
class _Heard:
    """What there is to tell of one gate."""

    source: Source
    outcomes: list[bool] = field(default_factory=list)
    error: str | None = None
    hits: int = 0
    misses: int = 0
    used: tuple[tuple[str, bytes], ...] = ()


class Calls:
    """The outside calls of one run of one stage."""

    def __init__(
        self,
        lease: Lease,
        stage: Stage[Any, Any],
        payload: Payload,
        desk: Desk,
    ) -> None:
        self._lease = lease
        self._stage = stage
        self._own = stage.source if lease.gates is not None else None
        self._left = stage.tokens if self._own is not None else 0
        self._allowed = stage._most_calls(payload)
        self._begun = 0
        self._key = payload_key(payload)
        self._retry = stage.retry
        self._desk = desk
        self._heard: dict[str, _Heard] = {}
        costs = stage.costs
        self._budgets = tuple(rule.name for rule in costs.drawn if rule.unit == CALLS)
        self._set_aside = costs.calls
        self.made = 0
        """How many calls were made; what has failed is one, too."""

    def call(self, source: Source, function: Callable[[], T]) -> T:
        """Make a call from a stage that runs in a thread."""
        steps = self._steps(source)
        step = next(steps)
        while True:
            if isinstance(step, Take):
                try:
                    self._desk.keep(self._lease, step, NO_EFFECTS)
                    step = next(steps)
                except NotYet as closed:
                    step = steps.send(closed)
            elif isinstance(step, int):
                self._desk.sleep(step)
                step = next(steps)
            else:
                try:
                    value = _within(source, self.limits(source).timeout_ms, partial(self._made, source, function))
                except Exception as error:
                    step = steps.send(error)
                else:
                    self._note(source, None)
                    return value

    async def acall(self, source: Source, function: Callable[[], Awaitable[T]]) -> T:
        """Make a call from a stage that is awaited."""
        steps = self._steps(source)
        step = next(steps)
        while True:
            if isinstance(step, Take):
                try:
                    await self._desk.akeep(self._lease, step, NO_EFFECTS)
                    step = next(steps)
                except NotYet as closed:
                    step = steps.send(closed)
            elif isinstance(step, int):
                await self._desk.asleep(step)
                step = next(steps)
            else:
                try:
                    value = await _awaited_within(
                        source, self.limits(source).timeout_ms, partial(self._amade, source, function)
                    )
                except Exception as error:
                    step = steps.send(error)
                else:
                    self._note(source, None)
                    return value

    def limits(self, source: Source) -> CallLimits:
        """How long a call may take, and how often it is repeated: no more often than the settings or the own source of
        the stage say, so that what a stage can come to is known beforehand."""
        setting = self._desk.setting
        usual = CallLimits(milliseconds(setting("call_timeout")), setting("call_retries"))
        found = source.call_limits(usual)
        return found._replace(retries=min(found.retries, self._stage._most_retries(usual.retries)))

    def reports(self) -> tuple[SourceReport, ...]:
        """What the sources are told when the stage ends; the tokens that its stage did not need go back."""
        return tuple(
            SourceReport(
                gate, tuple(heard.outcomes), heard.source.gate.breaker, None, heard.error, self._unused(gate),
                heard.hits, heard.misses, heard.used,
            )
            for gate, heard in self._heard.items()
        )  # fmt: skip

    def hear_of(self, source: Source) -> _Heard:
        """Answer for a source from here on: where it is not called, the tokens that were taken for that go back."""
        return self._heard.setdefault(source.instance(self._key), _Heard(source))

    def note_hit(self, source: Source, hashed: bytes | None) -> None:
        """The cache had an answer of a source; with its hash if it is to be noted that it is in use."""
        heard = self.hear_of(source)
        heard.hits += 1
        if hashed is not None:
            heard.used += ((source.name, hashed),)

    def note_miss(self, source: Source) -> None:
        """The cache had no answer of a source."""
        self.hear_of(source).misses += 1

    def _steps(self, source: Source) -> Generator[Step, Exception | None, None]:
        """Note what becomes of one call: why it could not pass, or what error came of it."""
        if not isinstance(source, Source):
            raise ConfigError(f"ctx.call takes a Source, not {source!r}")
        with _counting:
            may_begin = self._begun < self._allowed
            self._begun += may_begin
        if not may_begin:
            raise CallsExceeded(
                f"stage {self._stage.name!r} of {self._lease.kind} may make {self._allowed:,} outside calls in a run; "
                f"declare more with @pipeline.stage(calls=…)"
            )
        gate = source.instance(self._key)
        retries = self.limits(source).retries
        for tried in range(retries + 1):
            holds = self._left > 0 and self._own is source
            self._left -= holds
            while True:
                yield from self._pass(source, gate, holds=holds)
                self.made += 1
                error = yield _TRY
                assert error is not None, "a call that succeeds asks for nothing more"
                if not isinstance(error, NotYet):
                    break
                self.made -= 1
                holds = True
            self._note(source, error)
            asked_ms = retry_after_ms(error, self._desk.now())
            if asked_ms is not None:
                yield Take(gate, source.gate, tokens=0, pause_ms=asked_ms)
            if tried == retries or not is_transient(error, self._retry):
                raise error
            if asked_ms is None:
                yield round(random.uniform(0, min(LONGEST_WAIT_MS, BACKOFF_MS << tried)))
            elif asked_ms > LONGEST_WAIT_MS:
                raise error  # its source is left alone for that long, and so is the task

    def _pass(self, source: Source, gate: str, *, holds: bool) -> Generator[Step, Exception | None, None]:
        """Wait until one request may begin, with a token. One that is held already is of use only while its source is
        open: what was said of that when the stage was claimed holds for a moment alone."""
        open_at = self._lease.claimed_at
        waited_ms = 0
        while True:
            now = self._desk.now()
            closed: Exception | None = None
            if (until := self._desk.closed.until(gate, now)) is not None:
                closed = NotYet(gate, until)
            elif holds and abs(now - open_at) < FRESH_MS:
                return
            else:
                more = self._budgets if self.made >= self._set_aside and not holds else ()
                closed = yield Take(gate, source.gate, tokens=int(not holds), budgets=more)
            if closed is None:
                holds, open_at = True, self._desk.now()
                continue
            assert isinstance(closed, NotYet)
            short_ms = self._short_wait(closed, waited_ms)
            waited_ms += short_ms if closed.is_full else 0
            yield short_ms

    def _made(self, source: Source, function: Callable[[], T]) -> T:
        """Make one request, in the thread that was started for it, if its source has not closed meanwhile."""
        self._refuse_if_closed(source)
        try:
            return function()
        except Exception as error:
            self._heed(source, error)
            raise

    async def _amade(self, source: Source, function: Callable[[], Awaitable[T]]) -> T:
        self._refuse_if_closed(source)
        try:
            return await function()
        except Exception as error:
            self._heed(source, error)
            raise

    def _refuse_if_closed(self, source: Source) -> None:
        gate = source.instance(self._key)
        if (until := self._desk.closed.until(gate, self._desk.now())) is not None:
            raise NotYet(gate, until)

    def _heed(self, source: Source, error: Exception) -> None:
        """Have no other call of this process begin while its source wants to be left alone; the database hears next."""
        now = self._desk.now()
        if (asked_ms := retry_after_ms(error, now)) is not None:
            self._desk.closed.close(source.instance(self._key), asked_ms, now)

    def _short_wait(self, closed: NotYet, waited_ms: int) -> int:
        """How long to wait for a gate; where that is long, the stage is put off. So it is where others do not leave:
        they may wait for a place that this one holds."""
        wait_ms = max(1, closed.again_at - self._desk.now())
        if waited_ms + wait_ms <= LONGEST_WAIT_MS:
            return wait_ms
        if closed.is_full:  # by chance, so that those who wait for each other do not meet again
            wait_ms = round(random.uniform(wait_ms, wait_ms << min(self._lease.deferrals + 1, 6)))
        until = "" if closed.again_at >= NEVER or closed.is_full else f" before {moment(closed.again_at):%H:%M:%S}"
        name = closed.gate
        self._say_nothing_of_own()
        why = f"budget {name[1:]} is spent" if name.startswith(BUDGET) else f"source {name} lets no call pass{until}"
        raise Waiting(after=min(wait_ms, LONGEST_DEFERRAL_MS) / 1_000, reason=why)

    def _say_nothing_of_own(self) -> None:
        """A stage that is put off has not come to its end: its own source is told nothing, unless it was called.
        Whether that was done in another way is not known, so that no token goes back."""
        if self._own is not None and self._own.instance(self._key) not in self._heard:
            self._left = 0
            self.hear_of(self._own)

    def _note(self, source: Source, error: Exception | None) -> None:
        heard = self.hear_of(source)
        if error is None:
            heard.outcomes.append(True)
            return
        if is_transient(error, self._retry):
            heard.outcomes.append(False)
            heard.error = error_text(error)

    def _unused(self, gate: str) -> int:
        if self._own is None or not self._left or self._lease.gates is None:
            return 0
        left = min(self._left, max(0, self._stage.tokens - self._begun))  # a call of another source counts as well
        return left * (self._own.gate.interval_us or 0) if read_gates(self._lease.gates)[0].name == gate else 0


def _within(source: Source, timeout_ms: int, function: Callable[[], T]) -> T:
    """Call a function that blocks. One that does not come back in time is left alone: a thread cannot be stopped."""
    answer: concurrent.futures.Future[T] = concurrent.futures.Future()
    context = copy_context()

    def run() -> None:
        try:
            answer.set_result(context.run(function))
        except BaseException as error:  # also a verdict: it belongs to the stage
            answer.set_exception(error)

    threading.Thread(target=run, name=f"onceward call {source.name}", daemon=True).start()
    done, _ = concurrent.futures.wait([answer], timeout_ms / 1_000)
    if not done:
        raise _too_late(source, timeout_ms)
    return answer.result()


async def _awaited_within(source: Source, timeout_ms: int, function: Callable[[], Awaitable[T]]) -> T:
    limit = asyncio.timeout(timeout_ms / 1_000)
    try:
        async with limit:
            return await function()
    except TimeoutError as error:
        if limit.expired():
            raise _too_late(source, timeout_ms) from error
        raise


def _too_late(source: Source, timeout_ms: int) -> CallTimeout:
    return CallTimeout(f"{source.name} has not answered within {duration_text(timeout_ms)}")
