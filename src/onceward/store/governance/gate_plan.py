"""The plan of one claim for its governed lines: how many tasks may pass, and what gates become.

Nothing is read or written here: `gate_claim` reads what a plan begins with, and writes its outcome (decision 26).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onceward.model.gates import BUDGET, Gate
from onceward.model.source import Allowance, GateLimits, GateState, after_taking, allowance
from onceward.model.task import BAND_BONUS_MS, NEVER
from onceward.store.lines.memory import LineMemory, Place
from onceward.store.op import Row


class Popped(NamedTuple):
    """Tasks popped from a line, in order; the place of the last, and the latest time one of them came."""

    tasks: list[int]
    last: Place
    at: int


class BandHead(NamedTuple):
    """A band of a line that is not empty, and its first task."""

    since: int
    """Since when its first task stands there, with its bonus by priority."""
    band: int
    standing: int
    """How many tasks stand there, counted no further than the claim needs."""
    first: Popped | None = None
    """The first task, where no other claim can take it meanwhile (SQLite)."""


NO_HEAD = BandHead(NEVER, -1, 0)


@dataclass(slots=True)
class GovernedLine:
    """A governed line in the plan of a claim."""

    name: str
    line: str
    gates: Sequence[Gate]
    turns: set[int] = field(default_factory=set)
    due_turn: int = 0
    """One of its turns that has come."""
    count: int = 0
    """How many tasks may pass."""
    again_at: int = NEVER
    waits_for: str = ""
    """The gate that lets no more tasks pass."""
    head: BandHead = NO_HEAD
    has_others: bool = False
    """Whether tasks are left, in this band or another."""
    is_next: bool = False
    """Whether only the worker had no room for it: then it goes first next time."""
    popped: list[int] = field(default_factory=list)
    is_whole: bool = True
    """Whether the look began where no row can be behind."""


class Passage(NamedTuple):
    """Tasks that were popped from a governed line, and the gates they pass."""

    gates: Sequence[Gate]
    tasks: list[int]


@dataclass(slots=True)
class Leasing:
    """A claim in the making: its token, and what the statement that pops has already leased."""

    worker: int
    token: bytes
    rows: list[Row] = field(default_factory=list)
    tried: list[int] = field(default_factory=list)
    """The tasks that the statement has tried to lease."""
    passed: dict[int, str] = field(default_factory=dict)
    """The gates of the line that each governed task was popped from; a task must have just these."""


@dataclass(slots=True)
class GatePlan:
    """The plan of one claim: the governed lines that can be served now, oldest first, and their gates."""

    memory: LineMemory
    now: int
    lanes: list[GovernedLine]
    states: dict[str, GateState]
    inside: dict[str, int] = field(default_factory=dict)
    probes: dict[str, int] = field(default_factory=dict)
    has_all: bool = False
    """Whether every line with a due turn was looked at."""
    most: int = 0
    """How many tasks there was room for at first; no line was counted further."""
    taken: dict[str, int] = field(default_factory=dict)
    """How many tokens were taken from each gate and are not written yet."""
    passed: dict[str, int] = field(default_factory=dict)
    held: frozenset[str] = frozenset()
    """The gates that are paused."""
    held_back: int = 0
    """How many tasks could have passed if the worker had had room for them."""
    is_locked: bool = True
    """Whether this transaction holds the locks of the gates; else it may write nothing about them."""
    turn_stays: bool = False
    """Whether a due turn was left in place, for the next claim."""

    limits: dict[str, GateLimits] = field(default_factory=dict)
    """The limits of the gates."""

    def __post_init__(self) -> None:
        assert self.memory.limits_of is not None
        self.limits = {name: self.memory.limits_of(name) for name in self.states}

    def counts(self, gate: str) -> bool:
        """Whether the tasks inside a gate must be counted."""
        return self.limits[gate].has_slots or self.states[gate].is_probing(self.now)

    def order(self, heads: dict[str, list[BandHead]]) -> None:
        """Compute how many tasks of each line may pass, and sort the lines, oldest head first."""
        for lane in self.lanes:
            self.allow(lane)
            here = heads.get(lane.name)
            if here is not None:
                lane.head = min(here)
                lane.has_others = len(here) > 1
        self.lanes.sort(key=lambda lane: lane.head.since)

    def allow(self, lane: GovernedLine) -> None:
        """Compute how many tasks may pass all gates of a line now, or when the next may."""
        allowed = [(self._allowance(gate), gate.name) for gate in lane.gates]
        lane.count = min([one.count for one, _ in allowed])
        lane.again_at, lane.waits_for = max([(one.again_at, name) for one, name in allowed if one.count == lane.count])

    def allow_again(self, lane: GovernedLine) -> None:
        """Compute it again if tasks of other lines have passed one of its gates since."""
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
        """Take tokens from the gates of a line for this many tasks; give them back if negative."""
        for gate in lane.gates:
            name, state = gate.name, self.states[gate.name]
            tokens = many * gate.tokens
            if tokens:
                self.states[name] = state.with_tat(after_taking(self.limits[name], state.tat, tokens, self.now))
            self.taken[name] = self.taken.get(name, 0) + tokens
            self.passed[name] = self.passed.get(name, 0) + many

    def put_back(self, passages: Sequence[Passage], tasks: Collection[int]) -> list[Passage]:
        """Give back the tokens of tasks that have not passed after all; returns the passages without them."""
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
    """Since when a task stands in line, with the bonus of its band."""
    return at + band * BAND_BONUS_MS


def has_budget(gates: Sequence[Gate]) -> bool:
    """Whether tasks that pass these gates draw from a budget."""
    return any(gate.name[0] == BUDGET for gate in gates)
