"""What operators do to keep the outside and the work in step: see sources, enable and disable them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from onceward.client.awaited import awaited
from onceward.client.namespace import Namespace
from onceward.errors import SourceNotFound
from onceward.model import arguments
from onceward.model.gates import source_of
from onceward.model.source import GateLimits, tokens_there
from onceward.model.times import moment
from onceward.store.governance import sources
from onceward.store.governance.sources import GateFacts
from onceward.store.op import Op
from onceward.store.operations import history_samples


class SourceState(StrEnum):
    """Whether a source lets work pass."""

    OPEN = "open"
    PAUSED = "paused"
    """Until a time: it has failed too often in a row, or has asked to be left alone."""
    HALF_OPEN = "half-open"
    """Its pause is over, and one probe decides."""
    DISABLED = "disabled"
    """Until an operator enables it."""
    HELD = "paused by an operator"


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A source, or one instance of it, at one moment."""

    name: str
    """As the engine names it: `web`, or `web/example.com` where there is one for each of something."""
    state: SourceState
    enabled: bool
    streak: int
    """How many calls in a row have failed."""
    calls: int
    """How many tokens were taken so far."""
    failures: int
    opened: int
    """How often its breaker has opened."""
    last_success_at: datetime | None
    last_failure_at: datetime | None
    last_error: str | None
    paused_until: datetime | None
    why: str | None
    """Why it is closed."""
    tokens: int | None
    """How many calls could be made now; None without a limit, or without the code that knows it."""
    burst: int | None
    inside: int
    """How many places are taken, of those it has."""
    concurrency: int | None
    hits: int
    misses: int
    waiting: int
    """How many tasks stand in line for it."""
    waiting_since: datetime | None
    is_known: bool
    """Whether the code of this app has it."""

    @property
    def source(self) -> str:
        """The source that it belongs to."""
        return source_of(self.name)

    @property
    def instance(self) -> str | None:
        """Which one of its source it is, if there are several."""
        return self.name.partition("/")[2] or None

    @property
    def hit_rate(self) -> float | None:
        """What part of the answers came from the cache; None if it was never asked."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None

    @property
    def is_healthy(self) -> bool:
        """Whether it is open, and its last call has not failed."""
        return self.state is SourceState.OPEN and not self.streak


@dataclass(frozen=True, slots=True)
class SourcePoint:
    """A source at one moment of the last day, as a look has found it."""

    at: datetime
    state: SourceState
    calls: int
    """How many tokens were taken so far."""
    failures: int


_STOOD = (SourceState.OPEN, SourceState.HALF_OPEN, SourceState.PAUSED, SourceState.DISABLED)


class Sources(Namespace):
    """`app.sources`: the outside services that stages depend on, their rates and their health."""

    def list(self) -> builtins.list[SourceStatus]:
        """How all sources stand, by name: each instance that was ever used, and those of the code that were not."""
        known = [one.name for one in self._client._registry.sources.values() if one.per is None]
        now = self._client._store.clock.now()
        found = self._client._ask(lambda: sources.read_sources(None, known))
        return [self._source_status(one, now) for one in found]

    alist = awaited(list)

    def get(self, name: str) -> builtins.list[SourceStatus]:
        """How a source stands: one for each of its instances, or the instance that is named."""
        now = self._client._store.clock.now()
        return [self._source_status(one, now) for one in self._client._ask(lambda: self._found(name))]

    aget = awaited(get)

    def history(self) -> dict[str, builtins.list[SourcePoint]]:
        """How sources have stood in the last day, by name, oldest first: one point for every look.

        Noted are the 60 that are shut or were used last.
        """
        since = self._client._store.clock.now() - history_samples.DAY_MS
        found = self._client._ask(lambda: history_samples.source_samples(since))
        return {
            name: [SourcePoint(moment(one.at), _STOOD[one.stood], one.calls, one.failures) for one in points]
            for name, points in found.items()
        }

    ahistory = awaited(history)

    def _rate_of(self, name: str) -> str | None:
        """The rate of a source as the code of this app says it, like 30/min; None without a limit on it."""
        declared = self._client._registry.sources.get(source_of(name))
        return None if declared is None else declared.rate

    def enable(self, name: str) -> builtins.list[str]:
        """Open a source, whatever it has suffered: its streak and its pause are forgotten. Of one with instances all
        of them; returns their names."""
        return self._switch(name, lambda gates, now: sources.enable(gates, name, now))

    aenable = awaited(enable)

    def disable(self, name: str) -> builtins.list[str]:
        """Let nothing pass a source until it is enabled. Of one with instances all that there are now; to stop those
        to come as well, pause it. Returns their names."""
        return self._switch(name, lambda gates, _: sources.disable(gates))

    adisable = awaited(disable)

    def _switch(self, name: str, switch: Callable[[builtins.list[str], int], Op[None]]) -> builtins.list[str]:
        now = self._client._store.clock.now()

        def switching() -> Op[builtins.list[str]]:
            gates = [one.row.name for one in (yield from self._found(name))]
            yield from switch(gates, now)
            return gates

        return self._client._transact(switching)

    def _found(self, name: str) -> Op[builtins.list[GateFacts]]:
        arguments.text_of(name, "name of a source")
        declared = self._client._registry.sources.get(source_of(name))
        fits = declared is not None and (declared.per is not None) == ("/" in name)
        found = yield from sources.read_sources(name, [name] if fits else [])
        if not found:
            known = self._client._registry.sources
            raise SourceNotFound(name, is_unused=name in known, known=[*known])
        return found

    def _source_status(self, facts: GateFacts, now: int) -> SourceStatus:
        row, state = facts.row, facts.row.state.as_of(now)
        is_known = source_of(row.name) in self._client._registry.sources
        limits = self._client._registry.limits_of(row.name) if is_known else GateLimits()
        has_rate = limits.interval_us is not None
        return SourceStatus(
            row.name, _state(facts, now), state.enabled, row.streak, row.calls, row.failures, row.opened,
            _moment(row.last_success_at), _moment(row.last_failure_at), row.last_error,
            moment(state.paused_until) if state.paused_until > now else None,
            row.why, tokens_there(limits, state.tat, now), limits.burst if has_rate else None,
            facts.inside, limits.concurrency, row.hits, row.misses, facts.waiting, _moment(facts.waiting_since),
            is_known,
        )  # fmt: skip


def _state(facts: GateFacts, now: int) -> SourceState:
    state = facts.row.state
    if not state.enabled:
        return SourceState.DISABLED
    if facts.paused_by is not None:
        return SourceState.HELD
    if state.paused_until > now:
        return SourceState.PAUSED
    return SourceState.HALF_OPEN if state.is_half_open else SourceState.OPEN


def _moment(at: int | None) -> datetime | None:
    return None if at is None else moment(at)
