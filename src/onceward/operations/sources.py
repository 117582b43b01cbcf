"""What operators do to keep the outside and the work in step: see sources, switch them, pause and resume, approve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from onceward.errors import ConfigError, SourceNotFound
from onceward.model import arguments as asked
from onceward.model.gates import source_of
from onceward.model.pause import scope_of
from onceward.model.source import GateLimits, tokens_there
from onceward.model.times import moment
from onceward.operations.settings import checked_author
from onceward.operations.tasks import Operating
from onceward.store.governance import sources
from onceward.store.governance.sources import GateFacts
from onceward.store.lines import pause_scopes as pauses
from onceward.store.op import Op


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
        """What part of the answers came from the cache; None if nobody has asked."""
        asked = self.hits + self.misses
        return self.hits / asked if asked else None

    @property
    def is_healthy(self) -> bool:
        """Whether it is open, and its last call has not failed."""
        return self.state is SourceState.OPEN and not self.streak


@dataclass(frozen=True, slots=True)
class Pause:
    """Something that an operator has paused."""

    scope: str
    """`everything`, `queue:slow`, `pipeline:listing`, `source:web` or `source:web/example.com`."""
    at: datetime
    author: str


class Governing(Operating):
    """An app, for those who look after what it depends on."""

    # Sources

    def sources(self) -> list[SourceStatus]:
        """How all sources stand, by name: each instance that was ever used, and those of the code that were not."""
        known = [one.name for one in self.registry.sources.values() if one.per is None]
        now = self._store.clock.now()
        found = self._ask(lambda: sources.read_sources(None, known))
        return [self._source_status(one, now) for one in found]

    def source(self, name: str) -> list[SourceStatus]:
        """How a source stands: one for each of its instances, or the instance that is named."""
        now = self._store.clock.now()
        return [self._source_status(one, now) for one in self._ask(lambda: self._found(name))]

    def enable_source(self, name: str) -> list[str]:
        """Open a source, whatever it has suffered: its streak and its pause are forgotten. Of one with instances all
        of them; returns their names."""
        return self._switch(name, lambda gates, now: sources.enable(gates, name, now))

    def disable_source(self, name: str) -> list[str]:
        """Let nothing pass a source until it is enabled. Of one with instances all that there are now; to stop those
        to come as well, pause it. Returns their names."""
        return self._switch(name, lambda gates, _: sources.disable(gates))

    def _switch(self, name: str, switch: Callable[[list[str], int], Op[None]]) -> list[str]:
        now = self._store.clock.now()

        def switching() -> Op[list[str]]:
            gates = [one.row.name for one in (yield from self._found(name))]
            yield from switch(gates, now)
            return gates

        return self._transact(switching)

    def _found(self, name: str) -> Op[list[GateFacts]]:
        asked.text_of(name, "name of a source")
        declared = self.registry.sources.get(source_of(name))
        fits = declared is not None and (declared.per is not None) == ("/" in name)
        found = yield from sources.read_sources(name, [name] if fits else [])
        if not found:
            known = self.registry.sources
            raise SourceNotFound(name, is_unused=name in known, known=list(known))
        return found

    def _source_status(self, facts: GateFacts, now: int) -> SourceStatus:
        row, state = facts.row, facts.row.state.as_of(now)
        is_known = source_of(row.name) in self.registry.sources
        limits = self.registry.limits_of(row.name) if is_known else GateLimits()
        has_rate = limits.interval_us is not None
        return SourceStatus(
            row.name, _state(facts, now), state.enabled, row.streak, row.calls, row.failures, row.opened,
            _moment(row.last_success_at), _moment(row.last_failure_at), row.last_error,
            moment(state.paused_until) if state.paused_until > now else None,
            row.why, tokens_there(limits, state.tat, now), limits.burst if has_rate else None,
            facts.inside, limits.concurrency, row.hits, row.misses, facts.waiting, _moment(facts.waiting_since),
            is_known,
        )  # fmt: skip

    # Pauses

    def pause(
        self,
        *,
        pipeline: str | None = None,
        source: str | None = None,
        queue: str | None = None,
        author: str | None = None,
    ) -> str:
        """Let nothing of a pipeline, a source or a queue begin before it is resumed; of nothing said, nothing at all.

        Workers heed it within about a second. Stages that run end in good order; what stands in line keeps its place.
        `source="web"` means all instances of it, `source="web/example.com"` one. Returns what is paused, as a scope.
        """
        scope = scope_of(pipeline=pipeline, source=source, queue=queue)
        self._check_names(pipeline, source, queue)
        by, now = checked_author(author), self._store.clock.now()
        self._transact(lambda: pauses.pause(scope, by, now))
        return scope

    def resume(self, *, pipeline: str | None = None, source: str | None = None, queue: str | None = None) -> str:
        """Let what was paused under the same name go on. Another pause may still hold some of it."""
        scope = scope_of(pipeline=pipeline, source=source, queue=queue)
        now = self._store.clock.now()
        self._transact(lambda: pauses.resume(scope, now))
        return scope

    def pauses(self) -> list[Pause]:
        """What is paused, since when and by whom. Lineages are paused one by one, and say so themselves."""
        return [Pause(row.scope, moment(row.at), row.author) for row in self._ask(pauses.list_pauses)]

    def _check_names(self, pipeline: str | None, source: str | None, queue: str | None) -> None:
        """A name that the code of this app does not have is a typing error; without code there is nothing to ask. A
        source that is only used by `ctx.call` is known from its first use on."""
        if not self.registry.kinds:
            return
        named = None if source is None else source_of(source)
        for what, name, known in (
            ("pipeline", pipeline, self.registry.kinds),
            ("source", named, sorted(self.registry.sources)),
            ("queue", queue, self.registry.queues),
        ):
            if name is not None and name not in known:
                if name == named and self._ask(lambda: sources.read_sources(named, [])):
                    continue
                raise ConfigError(f"there is no {what} {name!r}; this app has: {', '.join(known) or 'none'}")

    def approve(self, task_id: int) -> None:
        """Let a task go on that waits for an operator's approval: the signal "approved"."""
        self.signal(task_id, "approved")


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
