"""What one worker remembers of its lines, and how it finds rows that it has stepped over.

On PostgreSQL a claim starts after the last place seen in a line (R13): a snapshot held by another transaction keeps the
dead rows before it alive. A sweep finds rows that committed late; it starts where all transactions are known to have
ended (decision 5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from onceward.model.budget import BudgetRule
from onceward.model.pause import NO_PAUSES, Pauses
from onceward.model.source import A_STEP_BACK_MS, GateLimits
from onceward.model.task import HIGHEST_PRIORITY, LOWEST_PRIORITY, NEVER, band_of
from onceward.store.op import Many, Op, Query

BANDS = range(band_of(HIGHEST_PRIORITY), band_of(LOWEST_PRIORITY) + 1)
SWEEP_EVERY_MS = 1_000
MARK_EVERY_MS = 100
MOST_SNAPSHOTS = 16
"""How many snapshots a worker remembers while another transaction stays open."""
REMEMBERED_MS = 3_600_000
"""How long a worker remembers a place in a governed line, and relies on its mark there. Marks are deleted only after
much longer, so that no claim begins behind new places."""
MARKS_OF_LINES_KEPT_MS = 24 * REMEMBERED_MS
PAUSES_EVERY_MS = 200
"""How often a worker reads the pauses while nothing is paused."""
MOST_GOVERNED = 100
"""In how many governed lines a worker remembers places; there may be a line for every host."""

Place = tuple[int, int]
"""A rank and a number: where a row stands in its line."""

ANY_NUMBER = 1 << 62
START: Place = (-1, -1)
Line = tuple[str, int]
"""A lane and a band."""

LimitsOf = Callable[[str], GateLimits]
"""The limits of a gate, by its name."""


class LineMark(NamedTuple):
    """The ranks of a worker's last two marks in a line, and when it made the last."""

    before: int
    last: int
    at: int


BudgetsOf = Callable[[str, str | None], Sequence[BudgetRule]]
"""The budgets from which a stage of a kind draws."""


def no_budgets(_kind: str, _stage: str | None) -> Sequence[BudgetRule]:
    """No stage draws from a budget."""
    return ()


@dataclass(slots=True)
class _Snapshot:
    """Places behind which only transactions numbered below `after` can still put rows."""

    after: int
    places: dict[Line, Place]


@dataclass(slots=True)
class Places:
    """How far one worker has come in each of its lines: what it has seen, marked, and proved to be empty."""

    is_ordered: bool
    """Whether dead rows stay in lines, so that a look begins behind them: on PostgreSQL."""
    seen: dict[Line, Place] = field(default_factory=dict)
    """The last place seen in each line."""
    marked: dict[Line, LineMark] = field(default_factory=dict)
    """The marks made in each line, behind which later tasks stand."""
    unmarked: dict[Line, int] = field(default_factory=dict)
    """The ranks reached by claims of one statement, to be marked by the next transaction."""
    shared: dict[Line, int] = field(default_factory=dict)
    """When a claim last took from each line in which ranks are shares."""
    gives_way: bool = False
    """Whether such lines give way in this comparison of heads."""
    highest: dict[Line, Place] = field(default_factory=dict)
    """The last place ever taken from each line."""
    floor: dict[Line, Place] = field(default_factory=dict)
    """Where a sweep begins: no row is, or will be, behind it."""
    next_floor: dict[Line, Place] = field(default_factory=dict)
    swept_at: int = -SWEEP_EVERY_MS
    snapshot_at: int = 0
    snapshots: list[_Snapshot] = field(default_factory=list)
    governed: dict[Line, int] = field(default_factory=dict)
    """The governed lines in which places are remembered, and when each was last taken from."""

    def copy(self) -> Places:
        """A copy for a transaction that may not commit."""
        return replace(
            self,
            seen=dict(self.seen),
            highest=dict(self.highest),
            floor=dict(self.floor),
            marked=dict(self.marked),
            shared=dict(self.shared),
            next_floor=dict(self.next_floor),
            snapshots=list(self.snapshots),
            governed=dict(self.governed),
        )

    def start(self, line: Line) -> Place:
        """Where the next look at a line begins: after the last place seen, but behind the mark before last.

        A task that is put in line now has read that mark.
        """
        seen = self.seen.get(line, START)
        if seen[0] <= 0:
            return seen
        mark = self.marked.get(line)
        return START if mark is None else min(seen, (mark.before, -1))

    def since(self, line: Line, at: int) -> int:
        """Since when the head of a line counts as waiting, in a comparison with other lines.

        A huge lineage or batch would come before all later tasks of other lines until its last task has run. So in
        every other comparison a line of shares counts from when it was last taken from (decision 29).
        """
        return max(at, self.shared.get(line, at)) if self.gives_way else at

    def took_shares(self, line: Line, now: int) -> None:
        """Remember when a claim took from a line of shares; there may be very many such lines."""
        if line not in self.shared and len(self.shared) >= MOST_GOVERNED:
            self.shared.clear()
        self.shared[line] = now

    def took(self, line: Line, last: Place) -> None:
        """Remember how far a claim has taken from a line."""
        self.seen[line] = last
        self.highest[line] = max(self.highest.get(line, START), last)

    def took_governed(self, line: Line, last: Place, now: int) -> None:
        """Remember how far a claim has taken from a governed line; beyond 100 lines forget all others."""
        if line not in self.governed and len(self.governed) >= MOST_GOVERNED:
            self._forget(self.governed.keys())
        self.governed[line] = now
        if self.is_ordered:
            self.took(line, last)

    def forget_old(self, now: int) -> None:
        """Forget governed lines not taken from for an hour: their marks may be deleted."""
        if old := {line for line, at in self.governed.items() if now - at >= REMEMBERED_MS}:
            self._forget(old)

    def _forget(self, lines: Set[Line]) -> None:
        for snapshot in self.snapshots:
            snapshot.places = {line: place for line, place in snapshot.places.items() if line not in lines}
        for remembered in (self.seen, self.marked, self.highest, self.floor, self.next_floor, self.governed):
            for line in remembered.keys() & lines:
                del remembered[line]

    def rewind(self, lines: Iterable[Line]) -> None:
        """Begin the next look at some lines at their floors."""
        for line in lines:
            if line in self.seen:
                self.seen[line] = self.floor.get(line, START)

    def proven(self) -> dict[Line, Place]:
        """The place in each line behind which no transaction that begins from now on puts a row."""
        places: dict[Line, Place] = {}
        for line, place in self.highest.items():
            if place[0] <= 0:
                places[line] = place
            elif line in self.marked:
                places[line] = (self.marked[line].before, -1)
        return places


@dataclass(slots=True)
class ClaimProgress:
    """What the present claim has come to so far."""

    threads: int = ANY_NUMBER
    """How many tasks that need a thread it may still take."""
    wants_thread: bool = False
    """Whether it left some in line for want of a thread."""
    stood_at: int = 0
    """When its last task came into line; it was due then, whatever the clock says now."""
    popped_from: list[Line] = field(default_factory=list)
    """The lines from which it has popped."""


@dataclass(slots=True)
class LineMemory:
    """What one worker remembers of its lines."""

    lanes: tuple[str, ...]
    limits_of: LimitsOf | None = None
    """The limits of gates; None if no line is governed."""
    sweeps: bool = True
    """Whether dead rows stay in lines and rows may commit out of order: on PostgreSQL."""
    threaded: frozenset[str] = frozenset()
    """The lanes whose tasks need one of the worker's few threads as soon as they begin."""
    budgets_of: BudgetsOf = no_budgets
    limits_of_old: LimitsOf | None = None
    """The limits for tasks left in governed lines by code that has no gates any more."""
    places: Places = field(init=False)
    claim: ClaimProgress = field(default_factory=ClaimProgress)
    busy_line: Line | None = None
    """A line that filled the last claim: for a moment it is popped from without comparing the others."""
    busy_until: int = 0
    latest: int = 0
    """The time of the last look."""
    due_seen: int = -1
    next_due_at: int | None = None
    """When the next task or turn comes, as of the last look."""
    pauses: Pauses = NO_PAUSES
    """The pauses, as of the last look."""
    pauses_read_at: int = -PAUSES_EVERY_MS

    def __post_init__(self) -> None:
        self.places = Places(self.sweeps)

    def due_by(self, now: int) -> int:
        """By when the tasks of this claim were due, also by a clock ahead of this one."""
        return max(now, self.claim.stood_at)

    def copy(self) -> LineMemory:
        """A copy for a transaction that may not commit."""
        copied = replace(self, claim=ClaimProgress())
        copied.places = self.places.copy()
        return copied

    @property
    def open_lanes(self) -> tuple[str, ...]:
        """The lanes that are not paused."""
        return self.pauses.open_lines(self.lanes) if self.pauses.scopes else self.lanes

    @property
    def takes_suspects(self) -> bool:
        """Whether these lines hold suspects, which only this claim leases, whatever their gates."""
        return any(lane[0] == "!" for lane in self.lanes)

    def lines(self) -> list[Line]:
        """Every line that this worker looks at: each open lane in each band."""
        return [(lane, band) for lane in self.open_lanes for band in BANDS]


def mark(memory: LineMemory, line: Line, rank: int, now: int, *, renews: bool = False) -> Op[None]:
    """Insert a mark where claims are in a line, every 100 ms at most; later tasks stand behind it.

    With `renews` an old mark is replaced every hour, one rank further, before it can be deleted.
    """
    memory.places.took_shares(line, now)
    made = memory.places.marked.get(line)
    if renews and (made is None or now - made.at >= REMEMBERED_MS):
        rank = 1 + (rank if made is None else max(rank, made.last))
    if made is None or (rank > made.last and now - made.at >= MARK_EVERY_MS):
        memory.places.marked[line] = LineMark(-1 if made is None else made.last, rank, now)
        yield Many("insert_marks", [(*line, rank, now)])


def mark_claimed(memory: LineMemory, now: int) -> Op[None]:
    """Insert the marks that claims of one statement have left to do."""
    unmarked, memory.places.unmarked = memory.places.unmarked, {}
    for line, rank in unmarked.items():
        yield from mark(memory, line, rank, now)


def forget_lines(now: int) -> Op[None]:
    """Delete the marks of governed lines that are empty and were not taken from for a day."""
    yield Query("forget_lines", {"before": now - MARKS_OF_LINES_KEPT_MS, "governed": "%@%"})


def is_time_to_sweep(memory: LineMemory, now: int) -> bool:
    """Whether the next claim must sweep behind the places seen."""
    return memory.sweeps and now - memory.places.swept_at >= SWEEP_EVERY_MS


def sweep_if_time(memory: LineMemory, now: int) -> Op[None]:
    """Take a snapshot every 100 ms, and every second begin a sweep for rows that committed late."""
    if memory.sweeps and now - memory.places.snapshot_at >= MARK_EVERY_MS:
        memory.places.snapshot_at = now
        [(after, oldest)] = yield Query("snapshot")
        memory.places.snapshots.append(_Snapshot(after, memory.places.proven()))
        if len(memory.places.snapshots) > MOST_SNAPSHOTS:
            del memory.places.snapshots[1::2]  # each snapshot proves its places without the others
        if is_time_to_sweep(memory, now):
            memory.places.swept_at = now
            memory.places.forget_old(now)
            _start_over(memory, oldest)


def must_follow_clock(memory: LineMemory, now: int) -> bool:
    """Whether the clock may have been set back since the last look or before the first."""
    return memory.limits_of is not None and (not memory.latest or memory.latest - now >= A_STEP_BACK_MS)


def follow_clock(memory: LineMemory, now: int) -> Op[None]:
    """After the clock was set back, forget all remembered times and set the turns of these lines to now.

    A worker that looks for the first time cannot know, and sets them to now as well.
    """
    must_wake = must_follow_clock(memory, now)
    behind, memory.latest, memory.claim.stood_at = memory.latest - now, now, 0
    memory.claim.popped_from.clear()
    if must_wake:
        yield Query("wake_lines", {"lines": list(memory.lanes), "now": now, "never": NEVER})
    if behind <= 0:
        return
    memory.busy_until = memory.places.snapshot_at = 0
    memory.places.swept_at, memory.pauses_read_at, memory.due_seen = -SWEEP_EVERY_MS, -PAUSES_EVERY_MS, -1
    memory.places.marked = {line: made._replace(at=0) for line, made in memory.places.marked.items()}


def _start_over(memory: LineMemory, oldest_open: int) -> None:
    """Begin a sweep at the floors, after raising each floor as far as the last sweep has proved empty.

    A row behind a snapshot's places was numbered by a transaction that had begun before the snapshot. When all those
    have ended, one look from the old floor sees every row behind the places, and no new one can come there. The floor
    is raised one sweep later, and only where that look has passed the places. (A row that another transaction had
    locked and unlocked can still be behind it: `look_for_stragglers` finds it, seldom and on another connection.)
    """
    for line, place in memory.places.next_floor.items():
        if memory.places.seen.get(line, START) >= place:
            memory.places.floor[line] = place
    over = [snapshot for snapshot in memory.places.snapshots if snapshot.after <= oldest_open]
    if over:
        memory.places.next_floor = over[-1].places
        memory.places.snapshots = memory.places.snapshots[len(over) :]
    memory.places.seen = dict(memory.places.floor)
    memory.due_seen = -1
