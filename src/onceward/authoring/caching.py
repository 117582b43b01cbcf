"""Answers that are asked for once: the response cache, as a stage sees it.

An answer that is there is read, without a write and without a token. One that is not is asked for by one attempt of all
workers, like any outside call; other tasks wait for it a moment, and are then put off without having failed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from onceward.authoring.calls import LONGEST_WAIT_MS, Calls
from onceward.authoring.calls import Desk as CallDesk
from onceward.errors import ConfigError, LeaseLost, OncewardError
from onceward.model import codec
from onceward.model.cache import NOTED_EVERY_MS, AnswerTaken, Cached, hash_of
from onceward.model.outcome import Waiting
from onceward.model.source import AS_CONFIGURED, Source
from onceward.model.task import NO_EFFECTS, Fill, Filled, Lease
from onceward.model.times import milliseconds

T = TypeVar("T")

LOOK_EVERY_MS = 50
"""How often a stage that waits for an answer looks whether it has come."""
PUT_OFF_MS = 5_000
"""For how long a stage is put off whose answer another task has not got yet."""


class Desk(CallDesk, Protocol):
    """What the cache needs of the worker."""

    def setting(self, name: str) -> Any:
        """The value of a setting that is in force."""

    def look_up(self, source: str, hashed: bytes) -> Cached | None:
        """What the cache has for a key."""

    async def alook_up(self, source: str, hashed: bytes) -> Cached | None:
        """`look_up`, awaited."""


class _LookUp(NamedTuple):
    source: str
    hashed: bytes


class _Ask:
    """It is time to call the source."""


_ASK = _Ask()
Step = _LookUp | Fill | Filled | int | _Ask
"""What comes next: look, begin or end to ask, wait for so many milliseconds, call."""


class Answers:
    """The cached answers of one run of one stage."""

    def __init__(self, lease: Lease, calls: Calls, desk: Desk) -> None:
        self._lease = lease
        self._calls = calls
        self._desk = desk

    def cached(self, source: Source, key: Any, function: Callable[[], T], expected: Any) -> T:
        """The answer for a key, in a stage that runs in a thread."""
        steps = self._steps(source, key, expected)
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                value: T = end.value
                return value
            answer = error = None
            try:
                if isinstance(step, _LookUp):
                    answer = self._desk.look_up(*step)
                elif isinstance(step, int):
                    self._desk.sleep(step)
                elif isinstance(step, _Ask):
                    answer = self._calls.call(source, function)
                else:
                    answer = self._desk.keep(self._lease, step, NO_EFFECTS)
            except BaseException as trouble:  # also a verdict: other tasks must not wait for the answer for ever
                error = trouble

    async def acached(self, source: Source, key: Any, function: Callable[[], Awaitable[T]], expected: Any) -> T:
        """The answer for a key, in a stage that is awaited."""
        steps = self._steps(source, key, expected)
        answer: Any = None
        error: BaseException | None = None
        while True:
            try:
                step = steps.send(answer) if error is None else steps.throw(error)
            except StopIteration as end:
                value: T = end.value
                return value
            answer = error = None
            try:
                if isinstance(step, _LookUp):
                    answer = await self._desk.alook_up(*step)
                elif isinstance(step, int):
                    await self._desk.asleep(step)
                elif isinstance(step, _Ask):
                    answer = await self._calls.acall(source, function)
                else:
                    answer = await self._desk.akeep(self._lease, step, NO_EFFECTS)
            except GeneratorExit:  # the loop is closing: nothing is awaited any more
                raise
            except BaseException as trouble:  # as above
                error = trouble

    def _steps(self, source: Source, key: Any, expected: Any) -> Generator[Step, Any, Any]:
        if not isinstance(source, Source):
            raise ConfigError(f"ctx.cached takes a Source, not {source!r}")
        keep_ms = self._keep_ms(source)
        if keep_ms is None:
            return _checked(source, (yield _ASK), expected)[1]
        self._calls.hear_of(source)
        hashed = hash_of(key)
        unfit: int | None = None
        waits_until = self._desk.now() + LONGEST_WAIT_MS
        while True:
            found: Cached | None = yield _LookUp(source.name, hashed)
            now = self._desk.now()
            if found is not None and found.is_fresh(now):
                with suppress(*codec.UNREADABLE):  # stored by other code: as good as none
                    assert found.value is not None
                    value = codec.decoder(expected)(found.value)
                    self._calls.note_hit(source, hashed if now - found.used_at >= NOTED_EVERY_MS else None)
                    return value
                unfit = found.stored_at
            if found is None or not found.is_on_its_way(now):
                with suppress(AnswerTaken):
                    self._refuse_if_lost(
                        (yield Fill(source.name, hashed, self._calls.limits(source).longest_ms, unfit))
                    )
                    break
            if now >= waits_until:
                raise Waiting(after=PUT_OFF_MS / 1_000, reason=f"another task asks {source.name} for the same answer")
            yield LOOK_EVERY_MS
        self._calls.note_miss(source)
        nothing = Filled(source.name, hashed)
        try:
            data, value = _checked(source, (yield _ASK), expected)
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                with suppress(OncewardError):  # what has gone wrong with the call is what matters
                    yield nothing
            raise
        is_kept = len(data) <= min(codec.LARGEST_VALUE, self._desk.setting("cache_size"))
        self._refuse_if_lost((yield Filled(source.name, hashed, data, keep_ms) if is_kept else nothing))
        return value

    def _keep_ms(self, source: Source) -> int | None:
        """How long an answer is kept; None if it is not."""
        if source.cache_ms is None or not self._desk.setting("cache"):
            return None
        return milliseconds(self._desk.setting("cache_ttl")) if source.cache_ms is AS_CONFIGURED else source.cache_ms

    def _refuse_if_lost(self, accepted: bool) -> None:
        if not accepted:
            raise LeaseLost(f"task {self._lease.task} belongs to another attempt now; nothing was kept")


def _checked(source: Source, answer: Any, expected: Any) -> tuple[bytes, Any]:
    """An answer in its stored form, and read from it: who finds it in the cache gets the same."""
    data = codec.encoded(answer, f"the answer of {source.name}", largest=None)
    try:
        return data, codec.decoder(expected)(data)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the answer of {source.name} is not of the type that was asked for: {error}") from error
