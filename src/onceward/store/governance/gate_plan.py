"""What a claim knows of the governed lines while it looks at them: how many may pass, and what follows if they do.

Nothing is asked or written here. `gates` reads what this begins with, and writes down what it has come to.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onceward.model.gates import BUDGET, Gate
from onceward.model.source import Allowance, GateLimits, GateState, after_taking, allowance
from onceward.model.task import BAND_BONUS_MS, NEVER
from onceward.store.lines.memory import BusyLane, LineMemory, Place
from onceward.store.op import Row


class Popped(NamedTuple):
    """Who was popped from a line, in order; how far that goes, and when the last of them had come."""

    tasks: list[int]
    last: Place
    at: int


class BandHead(NamedTuple):
    """A band of a line in which somebody stands."""

    since: int
    """Since when the first one does, as old as its priority makes it."""
    band: int
    standing: int
    """How many stand there, as far as it matters."""
    first: Popped | None = None
    """What popping one would give, if nobody else can take it meanwhile."""


NO_HEAD = BandHead(NEVER, -1, 0)


@dataclass(slots=True)
class GovernedLine:
    """A governed line while a claim looks at it."""

    name: str
    line: str
    gates: Sequence[Gate]
    turns: set[int] = field(default_factory=set)
    due_turn: int = 0
    """One of its turns that has come."""
    count: int = 0
    """How many may pass."""
    again_at: int = NEVER
    waits_for: str = ""
    """The gate that lets no more pass."""
    head: BandHead = NO_HEAD
    has_others: bool = False
    """Whether somebody is left, in this band or another."""
    is_next: bool = False
    """Whether there was only no room for it: then it goes before the others next time."""
    popped: list[int] = field(default_factory=list)
    is_whole: bool = True
    """Whether it was looked at from where nothing can be behind."""


class Passage(NamedTuple):
    """Tasks that were popped from a governed line, and the gates they pass."""

    gates: Sequence[Gate]
    tasks: list[int]


@dataclass(slots=True)
class Leasing:
    """A claim that is being made: its token, and what the statement that pops has leased on the way."""

    worker: int
    token: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    rows: list[Row] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    """Those that it would have leased if they could be."""
    passed: dict[int, str] = field(default_factory=dict)
    """The gates of the lines from which governed ones were popped: only who has just these has passed them."""


@dataclass(slots=True)
class GatePlan:
    """What a claim knows of the governed lines: those that can be served now, oldest first."""

    memory: LineMemory
    now: int
    lanes: list[GovernedLine]
    states: dict[str, GateState]
    inside: dict[str, int] = field(default_factory=dict)
    probes: dict[str, int] = field(default_factory=dict)
    has_all: bool = False
    """Whether every line whose turn it is was looked at."""
    most: int = 0
    """How many there was room for at first; nobody has counted further in any line."""
    taken: dict[str, int] = field(default_factory=dict)
    """How many tokens were taken from each gate, and are not written down yet."""
    passed: dict[str, int] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    """The gates that an operator has paused."""
    held_back: int = 0
    """How many could have been taken if the worker had had room for them."""
    stored: dict[str, GateState] = field(default_factory=dict)
    """The gates as they are in the database, as far as we know."""
    is_locked: bool = True
    """Whether the gates are ours until the end of the transaction; else nothing may be written of them."""
    is_remembered: bool = False
    """Whether they are not locked, but known from the claim before."""
    is_stale: bool = False
    """Whether they turned out to have changed since; nothing was taken then."""
    compares: bool = False
    """Whether the database compares the gates with what we know of them when it pops."""
    turn_stays: bool = False
    """Whether it is still the turn of one of the lines."""

    limits: dict[str, GateLimits] = field(default_factory=dict)
    """What the gates let through."""

    def __post_init__(self) -> None:
        assert self.memory.limits_of is not None
        self.stored = dict(self.states)
        self.limits = {name: self.memory.limits_of(name) for name in self.states}

    def counts(self, gate: str) -> bool:
        """Whether it matters who is inside a gate."""
        return self.limits[gate].has_slots or self.states[gate].is_probing(self.now)

    def busy_lane(self, count: int) -> BusyLane | None:
        """The line that has given so many by itself, if one has."""
        for lane in self.lanes:
            if count and len(lane.popped) == count:
                states = {gate.name: self.states[gate.name] for gate in lane.gates}
                return BusyLane(lane.line, lane.name, lane.head.band, states, self.compares)
        return None

    def order(self, heads: dict[str, list[BandHead]]) -> None:
        """Who stands first in each line, and how many may pass; whoever stands there for longest comes first."""
        for lane in self.lanes:
            self.allow(lane)
            here = heads.get(lane.name)
            if here is not None:
                lane.head = min(here)
                lane.has_others = len(here) > 1
        self.lanes.sort(key=lambda lane: lane.head.since)

    def allow(self, lane: GovernedLine) -> None:
        """How many may pass all gates of a line now, with what was taken from them since."""
        allowed = [(self._allowance(gate), gate.name) for gate in lane.gates]
        lane.count = min([one.count for one, _ in allowed])
        lane.again_at, lane.waits_for = max([(one.again_at, name) for one, name in allowed if one.count == lane.count])

    def allow_again(self, lane: GovernedLine) -> None:
        """The same, where others may have passed one of its gates since it was looked at."""
        if any(gate.name in self.passed for gate in lane.gates):
            self.allow(lane)

    def _allowance(self, gate: Gate) -> Allowance:
        name = gate.name
        if name in self.held:
            return Allowance(0, NEVER)
        state, passed = self.states[name], self.passed.get(name, 0)
        probes = self.probes.get(name, 0) + (passed if state.is_probing(self.now) else 0)
        inside = self.inside.get(name, 0) + passed
        return allowance(self.limits[name], state, inside, probes, gate.tokens, self.now)

    def take(self, lane: GovernedLine, many: int) -> None:
        """So many pass the gates of a line; below zero, so many have not passed them after all."""
        for gate in lane.gates:
            name, state = gate.name, self.states[gate.name]
            tokens = many * gate.tokens
            if tokens:
                self.states[name] = state.with_tat(after_taking(self.limits[name], state.tat, tokens, self.now))
            self.taken[name] = self.taken.get(name, 0) + tokens
            self.passed[name] = self.passed.get(name, 0) + many

    def put_back(self, passages: Sequence[Passage], tasks: Collection[int]) -> list[Passage]:
        """Some have not passed after all: what they had taken is there again. Returns who has."""
        left = []
        for passage in passages:
            gone = len([task for task in passage.tasks if task in tasks])
            for name, tokens in passage.gates if gone else ():
                state, interval_us = self.states[name], self.limits[name].interval_us or 0
                self.states[name] = state.with_tat(state.tat - gone * tokens * interval_us)
                self.taken[name] = self.taken.get(name, 0) - gone * tokens
                self.passed[name] -= gone
            left.append(Passage(passage.gates, [task for task in passage.tasks if task not in tasks]))
        return left


def aged(at: int, band: int) -> int:
    """Since when somebody stands in line, as old as the priority of the band makes it."""
    return at + band * BAND_BONUS_MS


def has_budget(gates: Sequence[Gate]) -> bool:
    """Whether something is to be set aside for those who pass these."""
    return any(gate.name[0] == BUDGET for gate in gates)
