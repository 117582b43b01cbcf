"""Outside services: what they allow, how healthy they are, and the arithmetic of both.

A bucket of tokens is one number, the time at which it will be full again: taking a token moves it on by what one
token takes to come back. Nothing is counted down between two looks, and no clock has to tick. A breaker opens after so
many failures in a row; when its pause is over one probe decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from onceward.errors import ConfigError
from onceward.model import codec
from onceward.model.arguments import UNSET, checked_function, checked_value, checked_whole, shown
from onceward.model.times import NEVER, Duration, milliseconds

MOST_PER_SECOND = 100_000
MOST_AT_ONCE = 1_000_000
A_STEP_BACK_MS = 1_000
"""By how much the clock is behind that was set back; those of two machines differ by less."""
LOOK_AGAIN_MS = 1_000
"""When a gate is looked at again that only waits for a task to leave it: a task that leaves in good order says so."""
LONGEST_INSTANCE = 200

_RATE = re.compile(r"\s*(\d+)\s*/\s*([a-z]+)\s*", re.I)
_UNITS_MS = {
    "s": 1_000, "sec": 1_000, "second": 1_000, "m": 60_000, "min": 60_000, "minute": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "d": 86_400_000, "day": 86_400_000,
}  # fmt: skip
_WEIGHT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")
_SOURCE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")


@dataclass(frozen=True, slots=True)
class Rate:
    """So many in a time; as what one of them takes, in microseconds, rounded so that never more than that come."""

    count: int
    per_ms: int

    @property
    def interval_us(self) -> int:
        """How long one token takes to come back."""
        return -(-self.per_ms * 1_000 // self.count)

    @property
    def usual_burst(self) -> int:
        """What may come at once by default: what comes in a second, and at least one."""
        return max(1, self.count * 1_000 // self.per_ms)


def rate_of(text: str) -> Rate:
    """`"30/min"` as a rate."""
    found = _RATE.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise ConfigError(f"a rate of {shown(text)}: it reads like '30/min', '5/s' or '1000/day'")
    count, unit = int(found[1]), found[2].lower()
    if unit not in _UNITS_MS:
        raise ConfigError(f"a rate of {text!r}: there is no {unit!r}; the units are s, min, hour and day")
    if count == 0:
        raise ConfigError(f"a rate of {text!r} lets nothing through; to stop a source pause it or disable it")
    rate = Rate(count, _UNITS_MS[unit])
    if count * 1_000 > MOST_PER_SECOND * rate.per_ms:
        raise ConfigError(f"a rate of {text!r} is more than {MOST_PER_SECOND:,} a second; leave it out for no limit")
    return rate


class BreakerRule(msgspec.Struct, frozen=True, gc=False):
    """A breaker as the engine knows it."""

    failures: int
    pause_ms: int
    disable_after: int | None
    are_failures_given: bool = True
    is_pause_given: bool = True


class UsualBreaker(NamedTuple):
    """What holds where a `Breaker` does not say it: the settings `breaker_failures` and `breaker_pause`."""

    failures: int = 5
    pause: Duration = "5m"


USUAL_BREAKER = UsualBreaker()


@lru_cache(maxsize=1_024)
def rule_in_force(rule: BreakerRule, usual: UsualBreaker) -> BreakerRule:
    """A breaker with what the settings say where its program says nothing."""
    failures = rule.failures if rule.are_failures_given else usual.failures
    pause_ms = rule.pause_ms if rule.is_pause_given else milliseconds(usual.pause)
    return BreakerRule(failures, pause_ms, rule.disable_after)


@dataclass(frozen=True, slots=True)
class Breaker:
    """When a source is left alone: after so many failures in a row, for a while; then one probe decides.

    With `disable_after` it is switched off after so many in a row, until an operator switches it on again. What is not
    given is as the settings `breaker_failures` and `breaker_pause` say: 5 failures, 5 minutes.
    """

    failures: int = UNSET
    pause: Duration = UNSET
    disable_after: int | None = None
    rule: BreakerRule = field(init=False, repr=False)

    def __post_init__(self) -> None:
        are_failures_given, is_pause_given = self.failures is not UNSET, self.pause is not UNSET
        if not are_failures_given:
            object.__setattr__(self, "failures", USUAL_BREAKER.failures)
        if not is_pause_given:
            object.__setattr__(self, "pause", USUAL_BREAKER.pause)
        _checked_count("failures", self.failures)
        if self.disable_after is not None:
            _checked_count("disable_after", self.disable_after)
            if are_failures_given and self.disable_after < self.failures:
                raise ConfigError(
                    f"disable_after={self.disable_after} comes before failures={self.failures}: it would never pause"
                )
        pause_ms = milliseconds(self.pause)
        if pause_ms < 1:
            raise ConfigError(f"a breaker with pause={self.pause!r} never pauses; to have none say breaker=None")
        rule = BreakerRule(self.failures, pause_ms, self.disable_after, are_failures_given, is_pause_given)
        object.__setattr__(self, "rule", rule)


def _checked_count(name: str, value: object) -> None:
    checked_whole(name, value, 1, MOST_AT_ONCE)


class AsConfigured(Enum):
    """What a source does not say itself: the settings do."""

    AS_CONFIGURED = "as set"


AS_CONFIGURED: Final = AsConfigured.AS_CONFIGURED


@dataclass(frozen=True, slots=True)
class Source:
    """An outside service that stages depend on, with its limits. Its state is shared by all workers of a database.

    `per` makes one of it for each of what it returns for the key of a task, a host say; each has the limits for itself.
    `weights` are rates of other things than calls, `{"tokens": "200000/min"}`: a stage says how many of each it needs.
    `timeout` and `retries` are those of one outside call made with `ctx.call`, `cache` is how long its answers are kept
    by `ctx.cached` (None: not at all). Where nothing is given, the settings `call_timeout`, `call_retries` and
    `cache_ttl` say it.
    """

    name: str
    per: Callable[[str], str] | None = field(default=None, kw_only=True)
    rate: str | None = field(default=None, kw_only=True)
    burst: int | None = field(default=None, kw_only=True)
    concurrency: int | None = field(default=None, kw_only=True)
    timeout: Duration | None = field(default=None, kw_only=True)
    retries: int | None = field(default=None, kw_only=True)
    weights: Mapping[str, str] | None = field(default=None, kw_only=True, hash=False)
    breaker: Breaker | None = field(default=Breaker(), kw_only=True)
    cache: Duration | AsConfigured | None = field(default=AS_CONFIGURED, kw_only=True)
    gate: GateLimits = field(init=False, repr=False)
    weight_gates: Mapping[str, GateLimits] = field(init=False, repr=False, hash=False)
    timeout_ms: int | None = field(init=False, repr=False)
    cache_ms: int | AsConfigured | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _SOURCE_NAME.fullmatch(self.name):
            raise ConfigError(f"{shown(self.name)} is no name for a source; take letters, digits, dots, dashes")
        if self.per is not None:
            checked_function(f"source {self.name!r}: per", self.per, "the key of a task")
        if self.breaker is not None:
            checked_value(f"source {self.name!r}: breaker", self.breaker, Breaker, "Breaker(failures=5)")
        rate = None if self.rate is None else rate_of(self.rate)
        if self.burst is not None:
            _checked_count("burst", self.burst)
            if rate is None:
                raise ConfigError(f"source {self.name!r}: burst={self.burst} says nothing without a rate")
        if self.concurrency is not None:
            _checked_count("concurrency", self.concurrency)
        checked_whole(f"source {self.name!r}: retries", self.retries, 0, 100, none="as the setting says")
        timeout_ms = None if self.timeout is None else milliseconds(self.timeout)
        if timeout_ms is not None and timeout_ms < 1:
            raise ConfigError(f"source {self.name!r}: a timeout of {self.timeout!r} leaves no time")
        burst = self.burst if self.burst is not None else 1 if rate is None else rate.usual_burst
        interval_us = None if rate is None else rate.interval_us
        rule = None if self.breaker is None else self.breaker.rule
        object.__setattr__(self, "gate", GateLimits(interval_us, burst, self.concurrency, rule))
        object.__setattr__(self, "weight_gates", _weight_gates(self.name, self.weights))
        object.__setattr__(self, "timeout_ms", timeout_ms)
        cache = self.cache
        object.__setattr__(self, "cache_ms", cache if cache is None or cache is AS_CONFIGURED else milliseconds(cache))
        if self.cache_ms == 0:
            raise ConfigError(f"source {self.name!r}: cache={self.cache!r} keeps nothing; for no cache say cache=None")

    def instance(self, key: str) -> str:
        """The name of the gate that work with this key has to pass."""
        if self.per is None:
            return self.name
        which = self.per(key)
        if not isinstance(which, str) or not which:
            raise ConfigError(f"source {self.name!r}: per(…) returned {which!r} for {key[:100]!r}; it is a name")
        written = quote(which, safe=":.-_[]")
        if len(written) > LONGEST_INSTANCE:
            written = codec.digest128(which.encode()).hex()
        return f"{self.name}/{written}"

    def call_limits(self, usual: CallLimits) -> CallLimits:
        """How long one outside call may take and how often it is repeated, with what the settings say."""
        return CallLimits(
            usual.timeout_ms if self.timeout_ms is None else self.timeout_ms,
            usual.retries if self.retries is None else self.retries,
        )

    def same_limits(self, other: Source) -> bool:
        """Whether two declarations of one source say the same."""
        return (self.gate, self.weight_gates, self.timeout_ms, self.retries, self.cache_ms) == (
            other.gate, other.weight_gates, other.timeout_ms, other.retries, other.cache_ms
        )  # fmt: skip


def _weight_gates(source: str, weights: object) -> dict[str, GateLimits]:
    """What a source allows of each weight."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        raise ConfigError(f"source {source!r}: weights={shown(weights)}; they are given as {{'tokens': '200000/min'}}")
    gates = {}
    for name, text in weights.items():
        if not isinstance(name, str) or not _WEIGHT_NAME.fullmatch(name):
            raise ConfigError(f"source {source!r}: {shown(name)} is no name for a weight; take letters and _")
        rate = rate_of(text)
        gates[name] = GateLimits(rate.interval_us, rate.usual_burst)
    return gates


class GateLimits(msgspec.Struct, frozen=True, gc=False):
    """What a gate lets through."""

    interval_us: int | None = None
    """How long a token takes to come back; None without a limit on the rate."""
    burst: int = 1
    concurrency: int | None = None
    breaker: BreakerRule | None = None

    @property
    def has_slots(self) -> bool:
        """Whether it counts who is inside."""
        return self.concurrency is not None


class GateState(msgspec.Struct, frozen=True, gc=False):
    """A gate as it stands: its bucket, and its breaker."""

    tat: int = 0
    """When its bucket is full again, in microseconds."""
    enabled: bool = True
    streak: int = 0
    paused_until: int = 0
    is_half_open: bool = False
    """Whether it is open or was until a moment ago: when its pause is over, a probe decides."""
    opened: int = 0
    """How often its breaker has opened."""
    taken_at: int = 0
    """When the last token was taken."""

    @classmethod
    def stored(
        cls, tat: int, enabled: int, streak: int, paused_until: int, is_half_open: int, opened: int, taken_at: int
    ) -> GateState:
        """A gate as it is kept in the database."""
        return cls(tat, bool(enabled), streak, paused_until, bool(is_half_open), opened, taken_at)

    def as_of(self, now: int) -> GateState:
        """The same gate. If the clock was set back since its last token was taken, its times move with it: as if
        nothing had passed since. The caller has to write that down, or nothing ever would."""
        behind = self.taken_at - now
        if behind < A_STEP_BACK_MS:
            return self
        return msgspec.structs.replace(
            self,
            tat=self.tat - behind * 1_000,
            paused_until=max(0, self.paused_until - behind),
            taken_at=now,
        )

    def with_tat(self, tat: int) -> GateState:
        """The same gate with its bucket as it is now."""
        return GateState(
            tat, self.enabled, self.streak, self.paused_until, self.is_half_open, self.opened, self.taken_at
        )

    def is_probing(self, now: int) -> bool:
        """Whether one may pass to see how things stand, and no more than one."""
        return self.is_half_open and self.paused_until <= now


class CallLimits(NamedTuple):
    """How long one outside call may take, and how often it is repeated."""

    timeout_ms: int
    retries: int

    @property
    def longest_ms(self) -> int:
        """How long it may take with all its repetitions."""
        return self.timeout_ms * (self.retries + 1)


class NotYet(Exception):
    """A gate lets no task pass now; it may at a time. If it is full, that is as soon as a task leaves."""

    def __init__(self, gate: str, again_at: int, *, is_full: bool = False) -> None:
        super().__init__(f"{gate} lets no task pass now")
        self.gate = gate
        self.again_at = again_at
        self.is_full = is_full


class Allowance(msgspec.Struct, frozen=True, gc=False):
    """How many may pass now, and when it is worth looking again for one more."""

    count: int
    again_at: int
    is_full: bool = False
    """Whether that is only to see if a task has left meanwhile."""


def after_taking(limits: GateLimits, tat: int, tokens: int, now: int) -> int:
    """When the bucket is full again after so many tokens were taken."""
    if limits.interval_us is None:
        return tat
    return max(tat, now * 1_000) + tokens * limits.interval_us


def tokens_there(limits: GateLimits, tat: int, now: int) -> int | None:
    """How many tokens the bucket holds; None if there is no limit on the rate."""
    if limits.interval_us is None:
        return None
    missing = -(-max(0, tat - now * 1_000) // limits.interval_us)
    return max(0, limits.burst - missing)


def allowance(limits: GateLimits, state: GateState, inside: int, probes: int, tokens: int, now: int) -> Allowance:
    """How many that take so many tokens each may pass a gate in which some are inside already."""
    if not state.enabled:
        return Allowance(0, NEVER)
    if state.paused_until > now:
        return Allowance(0, state.paused_until)
    count, again_at, is_full = MOST_AT_ONCE, now, False
    if limits.interval_us is not None:
        interval_us, burst = limits.interval_us, limits.burst
        need = min(tokens, burst)  # a stage that wants more than the bucket holds waits for a full one
        there = burst - -(-max(0, state.tat - now * 1_000) // interval_us)
        count = max(0, there // need)
        again_at = -(-(state.tat - (burst - min(burst, need * (count + 1))) * interval_us) // 1_000)
    if limits.concurrency is not None and (free := limits.concurrency - inside) < count:
        count, again_at, is_full = free, now + LOOK_AGAIN_MS, True
    if state.is_probing(now) and (free := 1 - probes) < count:
        count, again_at, is_full = free, now + LOOK_AGAIN_MS, True
    return Allowance(max(0, count), again_at, is_full)


def after_outcomes(breaker: BreakerRule | None, state: GateState, outcomes: Iterable[bool], now: int) -> GateState:
    """A gate after calls through it have succeeded or failed, in their order."""
    enabled, streak, paused_until = state.enabled, state.streak, state.paused_until
    is_half_open, opened = state.is_half_open, state.opened
    for succeeded in outcomes:
        if succeeded:
            streak = 0
            if paused_until <= now:
                is_half_open = False
            continue
        streak += 1
        if breaker is None:
            continue
        if paused_until <= now and (is_half_open or streak >= breaker.failures):
            paused_until, is_half_open, opened = now + breaker.pause_ms, True, opened + 1
        if breaker.disable_after is not None and streak >= breaker.disable_after:
            enabled = False
    return GateState(state.tat, enabled, streak, paused_until, is_half_open, opened, state.taken_at)
