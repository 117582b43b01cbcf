"""What one worker remembers of the lines it takes from, and how it finds what it has stepped over.

On PostgreSQL a claim starts after the last place seen in a line, because a snapshot held by somebody else keeps the
dead rows before it alive. What committed late is found by a sweep that starts where all transactions are known to be
over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from onceward.model.budget import BudgetRule
from onceward.model.pause import NO_PAUSES, Pauses
from onceward.model.source import A_STEP_BACK_MS, GateLimits, GateState
from onceward.model.task import HIGHEST_PRIORITY, LOWEST_PRIORITY, NEVER, band_of
from onceward.store.op import Many, Op, Query

BANDS = range(band_of(HIGHEST_PRIORITY), band_of(LOWEST_PRIORITY) + 1)
SWEEP_EVERY_MS = 1_000
MARK_EVERY_MS = 100
MOST_MARKS = 16
"""How many moments a reader remembers while a transaction of others stays open."""
REMEMBERED_MS = 3_600_000
"""How long a place in a governed line is remembered, and a mark there stands for its worker. The marks of a line are
deleted only after much longer, so that no reader begins behind new places."""
MARKS_OF_LINES_KEPT_MS = 24 * REMEMBERED_MS
PAUSES_EVERY_MS = 200
"""How often a worker asks whether an operator has paused something, as long as nothing is paused."""
MOST_GOVERNED = 100
"""In how many governed lines a worker remembers places; there may be one for every host of the world."""

Place = tuple[int, int]
"""A rank and a number: where a row stands in its line."""

ANY_NUMBER = 1 << 62
START: Place = (-1, -1)
Line = tuple[str, int]
"""A lane and a band."""

LimitsOf = Callable[[str], GateLimits]
"""What a gate lets through, by its name."""


class BusyLane(NamedTuple):
    """A governed line that gave all that was asked for, and the band that did."""

    line: str
    lane: str
    band: int
    states: dict[str, GateState]
    """Its gates as that claim has left them."""
    is_compared: bool
    """Whether the database compares these with what they are when it pops: then nobody has to ask first."""


class LineMark(NamedTuple):
    """The last two marks that a worker has made in a line, and when it made the last."""

    before: int
    last: int
    at: int


BudgetsOf = Callable[[str, str | None], Sequence[BudgetRule]]
"""The budgets from which a stage of a kind draws."""


def no_budgets(_kind: str, _stage: str | None) -> Sequence[BudgetRule]:
    """Nothing costs anything."""
    return ()


@dataclass(slots=True)
class _Mark:
    after: int
    places: dict[Line, Place]


@dataclass(slots=True)
class LineMemory:
    """What one worker remembers of the lines it takes from."""

    lanes: tuple[str, ...]
    limits_of: LimitsOf | None = None
    """What gates let through; None if nothing in these lines is governed."""
    sweeps: bool = True
    """Whether the database keeps dead rows in the way, and rows may be committed out of order: PostgreSQL."""
    seen: dict[Line, Place] = field(default_factory=dict)
    """The last place seen in a line."""
    marked: dict[Line, LineMark] = field(default_factory=dict)
    """The ranks that were marked in a line, for those who stand in it later."""
    unmarked: dict[Line, int] = field(default_factory=dict)
    """The ranks up to which was claimed at once, to be marked with the next transaction."""
    shared: dict[Line, int] = field(default_factory=dict)
    """When something was last taken from a line in which ranks are shares."""
    gives_way: bool = False
    """Whether such lines stand back this time, when the heads of all lines are compared."""
    highest: dict[Line, Place] = field(default_factory=dict)
    """The last place ever taken from a line."""
    floor: dict[Line, Place] = field(default_factory=dict)
    """Where a sweep begins: nothing is, or will be, behind it."""
    next_floor: dict[Line, Place] = field(default_factory=dict)
    busy_line: Line | None = None
    """A line that gave all that was asked for: it is taken from again for a moment without comparing the others."""
    busy_until: int = 0
    busy_lane: BusyLane | None = None
    """Likewise, a governed one."""
    gates_busy_until: int = 0
    healthy_gates: set[str] = field(default_factory=set)
    """Gates that the claim of this transaction tells on the way that all is well."""
    latest: int = 0
    """What time it was at the last look."""
    stood_at: int = 0
    """When the last of those who were taken by this claim had stood in line: they were due then. If the clock was set
    back since, they still are."""
    threaded: frozenset[str] = frozenset()
    """The lanes whose tasks need a thread as soon as they begin, where the worker has only some."""
    threads: int = ANY_NUMBER
    """How many of those this claim may still take."""
    wants_thread: bool = False
    """Whether it has left some of them where they stand."""
    popped_from: list[Line] = field(default_factory=list)
    """The lines from which this claim has popped."""
    due_seen: int = -1
    next_due_at: int | None = None
    """When the next one in the waiting room becomes due, at the last look."""
    pauses: Pauses = NO_PAUSES
    """What an operator has paused, at the last look."""
    pauses_read_at: int = -PAUSES_EVERY_MS
    swept_at: int = -SWEEP_EVERY_MS
    marked_at: int = 0
    marks: list[_Mark] = field(default_factory=list)
    governed: dict[Line, int] = field(default_factory=dict)
    """The governed lines in which places are remembered, and when it has taken from each."""
    budgets_of: BudgetsOf = no_budgets
    limits_of_old: LimitsOf | None = None
    """What gates let through if somebody stands in a governed line after all: the code had gates, and has none now."""

    def due_by(self, now: int) -> int:
        """By when those were due who were taken by this claim, if some clock was ahead of ours."""
        return max(now, self.stood_at)

    def copy(self) -> LineMemory:
        """A memory of its own, for a transaction that may not commit."""
        return replace(
            self,
            seen=dict(self.seen),
            highest=dict(self.highest),
            floor=dict(self.floor),
            marked=dict(self.marked),
            shared=dict(self.shared),
            next_floor=dict(self.next_floor),
            marks=list(self.marks),
            governed=dict(self.governed),
            healthy_gates=set(),
            popped_from=[],
        )

    @property
    def open_lanes(self) -> tuple[str, ...]:
        """The lanes that nobody has paused."""
        return self.pauses.open_lines(self.lanes)

    @property
    def takes_suspects(self) -> bool:
        """Whether it looks at lines of suspects, who stand there whatever their gates. Nobody else leases a suspect."""
        return any(lane[0] == "!" for lane in self.lanes)

    def busy_governed(self, now: int) -> BusyLane | None:
        """The governed line that is taken from again without comparing the others, if it is time for that."""
        return self.busy_lane if now < self.gates_busy_until else None

    def reports_with_claim(self, gate: str, now: int) -> bool:
        """Whether its next claim tells a gate on the way that all is well: one that it passes again, and was well."""
        busy = self.busy_governed(now)
        state = None if busy is None else busy.states.get(gate)
        return state is not None and state.is_well

    def start(self, line: Line) -> Place:
        """Where the next look at a line begins: after the last place seen, but no further than the mark that everybody
        who stands in line by now knows of."""
        seen = self.seen.get(line, START)
        if seen[0] <= 0:
            return seen
        mark = self.marked.get(line)
        return START if mark is None else min(seen, (mark.before, -1))

    def since(self, line: Line, at: int) -> int:
        """Since when the first of a line stands there, where that is compared with other lines.

        A huge lineage or batch would come before all who come later, wherever they stand, until its last task has run.
        So every other time a line of shares counts from when it was last taken from: whoever waits goes first.
        """
        return max(at, self.shared.get(line, at)) if self.gives_way else at

    def took_shares(self, line: Line, now: int) -> None:
        """Remember when it has taken from a line of shares, of which there may be very many."""
        if line not in self.shared and len(self.shared) >= MOST_GOVERNED:
            self.shared.clear()
        self.shared[line] = now

    def took(self, line: Line, last: Place) -> None:
        """Remember how far it has taken from a line."""
        self.seen[line] = last
        self.highest[line] = max(self.highest.get(line, START), last)

    def took_governed(self, line: Line, last: Place, now: int) -> None:
        """Remember how far it has taken from a governed line, of which there may be very many: then it begins anew."""
        if line not in self.governed and len(self.governed) >= MOST_GOVERNED:
            self._forget(self.governed.keys())
        self.governed[line] = now
        if self.sweeps:
            self.took(line, last)

    def forget_old(self, now: int) -> None:
        """Forget the governed lines that it has not taken from for long: their marks may be deleted."""
        if old := {line for line, at in self.governed.items() if now - at >= REMEMBERED_MS}:
            self._forget(old)

    def _forget(self, lines: Set[Line]) -> None:
        for mark in self.marks:
            mark.places = {line: place for line, place in mark.places.items() if line not in lines}
        for remembered in (self.seen, self.marked, self.highest, self.floor, self.next_floor, self.governed):
            for line in remembered.keys() & lines:
                del remembered[line]

    def rewind(self, lines: Iterable[Line]) -> None:
        """Look at some lines next from where nothing can be behind."""
        for line in lines:
            if line in self.seen:
                self.seen[line] = self.floor.get(line, START)

    def proven(self) -> dict[Line, Place]:
        """How far behind nobody comes any more who begins from now on."""
        places: dict[Line, Place] = {}
        for line, place in self.highest.items():
            if place[0] <= 0:
                places[line] = place
            elif line in self.marked:
                places[line] = (self.marked[line].before, -1)
        return places

    def lines(self) -> list[Line]:
        """Every line this worker looks at."""
        return [(lane, band) for lane in self.open_lanes for band in BANDS]


def mark(memory: LineMemory, line: Line, rank: int, now: int, *, renews: bool = False) -> Op[None]:
    """Note how far the claims have come in a line, now and then: nobody who comes later stands further ahead.

    A line whose marks may be deleted when they are old needs a new one now and then: it is one rank further.
    """
    memory.took_shares(line, now)
    made = memory.marked.get(line)
    if renews and (made is None or now - made.at >= REMEMBERED_MS):
        rank = 1 + (rank if made is None else max(rank, made.last))
    if made is None or (rank > made.last and now - made.at >= MARK_EVERY_MS):
        memory.marked[line] = LineMark(-1 if made is None else made.last, rank, now)
        yield Many("insert_marks", [(*line, rank, now)])


def mark_claimed(memory: LineMemory, now: int) -> Op[None]:
    """Mark how far the claims have come that were a transaction of their own."""
    unmarked, memory.unmarked = memory.unmarked, {}
    for line, rank in unmarked.items():
        yield from mark(memory, line, rank, now)


def forget_lines(now: int) -> Op[None]:
    """Delete the marks of governed lines in which no task stands and from which nothing was taken for a day."""
    yield Query("forget_lines", {"before": now - MARKS_OF_LINES_KEPT_MS, "governed": "%@%"})


def is_time_to_sweep(memory: LineMemory, now: int) -> bool:
    """Whether the next claim looks behind the places seen, whatever stands before them."""
    return memory.sweeps and now - memory.swept_at >= SWEEP_EVERY_MS


def sweep_if_time(memory: LineMemory, now: int) -> Op[None]:
    """Now and then look again behind the places seen, for what committed late; and learn how far back to look."""
    if memory.sweeps and now - memory.marked_at >= MARK_EVERY_MS:
        memory.marked_at = now
        [(after, oldest)] = yield Query("snapshot")
        memory.marks.append(_Mark(after, memory.proven()))
        if len(memory.marks) > MOST_MARKS:
            del memory.marks[1::2]  # each proves what it proves without the others
        if is_time_to_sweep(memory, now):
            memory.swept_at = now
            memory.forget_old(now)
            _start_over(memory, oldest)


def must_follow_clock(memory: LineMemory, now: int) -> bool:
    """Whether turns of governed lines may be far away because the clock was set back: since the last look, or before
    the first."""
    return memory.limits_of is not None and (not memory.latest or memory.latest - now >= A_STEP_BACK_MS)


def follow_clock(memory: LineMemory, now: int) -> Op[None]:
    """If the clock was set back, forget what was to hold until some time, which is far away now; and have the governed
    lines looked at, whose turns are. Who looks for the first time cannot know, and has them looked at too."""
    must_wake = must_follow_clock(memory, now)
    behind, memory.latest, memory.stood_at = memory.latest - now, now, 0
    memory.popped_from.clear()
    if must_wake:
        yield Query("wake_lines", {"lines": list(memory.lanes), "now": now, "never": NEVER})
    if behind <= 0:
        return
    memory.busy_until = memory.gates_busy_until = memory.marked_at = 0
    memory.swept_at, memory.pauses_read_at, memory.due_seen = -SWEEP_EVERY_MS, -PAUSES_EVERY_MS, -1
    memory.marked = {line: made._replace(at=0) for line, made in memory.marked.items()}


def _start_over(memory: LineMemory, oldest_open: int) -> None:
    """Begin the next look at the floor, after raising the floor to where the last sweep has proved there is nothing.

    A row behind a mark was numbered by a transaction that had begun before the mark was made. When all those are over,
    one look from the old floor sees everything behind the mark, and nothing new can come there. The floor is raised
    one sweep later, and only where that look has got past the mark. (A row that somebody had locked and let go again
    can still be behind it: `stragglers` looks for those, seldom and on another connection.)
    """
    for line, place in memory.next_floor.items():
        if memory.seen.get(line, START) >= place:
            memory.floor[line] = place
    over = [mark for mark in memory.marks if mark.after <= oldest_open]
    if over:
        memory.next_floor = over[-1].places
        memory.marks = memory.marks[len(over) :]
    memory.seen = dict(memory.floor)
    memory.due_seen = -1
