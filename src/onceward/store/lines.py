"""Standing in line: where ready work waits, and how it is popped in order.

Between lines the heads are compared by age; each level of priority counts as five minutes of age, so that high goes
first and low is never starved. On PostgreSQL a claim starts after the last place seen in a line, because a snapshot
held by somebody else keeps the dead rows before it alive; what committed late is found by a sweep that starts where
all transactions are known to be over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from onceward.model.budget import BudgetRule
from onceward.model.pause import NO_PAUSES, Pauses
from onceward.model.status import Event, Status
from onceward.model.task import BAND_BONUS_MS, HIGHEST_PRIORITY, LOWEST_PRIORITY, NEVER, band_of, gates_in
from onceward.store.gates import BusyLane, LimitsOf, append_turns, next_turn_at
from onceward.store.log import Entry, log
from onceward.store.op import Many, Op, Query
from onceward.store.pauses import read_pauses

BANDS = range(band_of(HIGHEST_PRIORITY), band_of(LOWEST_PRIORITY) + 1)
SWEEP_EVERY_MS = 1_000
MARK_EVERY_MS = 100
COMPARE_EVERY_MS = 20
PAUSES_EVERY_MS = 200
"""How often a worker asks whether an operator has paused something, as long as nothing is paused."""
DUE_BATCH = 500
ANY_RANK = 1 << 62

Place = tuple[int, int]
"""A rank and a number: where a row stands in its line."""

START: Place = (-1, -1)
Line = tuple[str, int]
"""A lane and a band."""

Head = tuple[str, int, int, int, int]
"""The first in a line: lane, band, rank, number, and since when it stands there."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A task that goes into a line, now or at its due time."""

    task: int
    lane: str
    band: int
    rank: int
    due_at: int


def stand(standings: Iterable[Standing], now: int) -> Op[None]:
    """Put tasks in line: those that are due now, the others for later."""
    ready: dict[tuple[str, int], list[Standing]] = {}
    later = []
    for one in standings:
        if one.due_at <= now:
            ready.setdefault((one.lane, one.band), []).append(one)
        else:
            later.append((one.due_at, one.task, one.lane, one.band, one.rank))
    for (lane, band), some in ready.items():
        place = {"lane": lane, "band": band, "at": now, "tasks": [one.task for one in some]}
        ranks = [one.rank for one in some]
        if ranks.count(ranks[0]) == len(ranks):
            yield Query("stand_in_line", {**place, "rank": ranks[0]})
        else:
            yield Query("stand_apart", {**place, "ranks": ranks})
    if governed := {(lane, gates) for lane, _ in ready if (gates := gates_in(lane)) is not None}:
        yield from append_turns(governed, now)
    if later:
        yield Many("wait_until_due", later)


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
class Reader:
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
    due_seen: int = -1
    next_due_at: int | None = None
    """When the next one in the waiting room becomes due, at the last look."""
    pauses: Pauses = NO_PAUSES
    """What an operator has paused, at the last look."""
    pauses_read_at: int = -PAUSES_EVERY_MS
    swept_at: int = -SWEEP_EVERY_MS
    marked_at: int = 0
    marks: list[_Mark] = field(default_factory=list)
    budgets_of: BudgetsOf = no_budgets

    def copy(self) -> Reader:
        """A memory of its own, for a transaction that may not commit."""
        return replace(
            self,
            seen=dict(self.seen),
            highest=dict(self.highest),
            floor=dict(self.floor),
            marked=dict(self.marked),
            next_floor=dict(self.next_floor),
            marks=list(self.marks),
        )

    @property
    def open_lanes(self) -> tuple[str, ...]:
        """The lanes that nobody has paused."""
        return self.pauses.open_lines(self.lanes)

    def start(self, line: Line) -> Place:
        """Where the next look at a line begins: after the last place seen, but no further than the mark that everybody
        who stands in line by now knows of."""
        seen = self.seen.get(line, START)
        if seen[0] <= 0:
            return seen
        mark = self.marked.get(line)
        return START if mark is None else min(seen, (mark.before, -1))

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


def heed_pauses(reader: Reader, now: int) -> Op[None]:
    """Learn what an operator has paused: now and then, and with every look as long as something is."""
    if reader.pauses or not 0 <= now - reader.pauses_read_at < PAUSES_EVERY_MS:
        reader.pauses_read_at = now
        pauses = yield from read_pauses()
        if pauses != reader.pauses:
            reader.pauses, reader.busy_line, reader.busy_lane = pauses, None, None


def make_due(reader: Reader, now: int) -> Op[int]:
    """Put into line what has become due; returns how many."""
    moved = yield Query("pop_due", {"now": now, "after": reader.due_seen, "count": DUE_BATCH})
    if not moved:
        return 0
    if len(moved) < DUE_BATCH:
        reader.due_seen = now
    ids = sorted(row[0] for row in moved)
    woken = yield Query("wake_due", {"ids": ids, "now": now})
    yield from log(
        Entry(task, run, fence, Event.WOKEN, Status.PENDING, stage, None, now, "its time has come")
        for task, run, fence, stage in woken
    )
    in_order = sorted(moved, key=lambda row: (row[4], row[0]))
    yield from stand((Standing(task, lane, band, rank, now) for task, lane, band, rank, _ in in_order), now)
    return len(moved)


@dataclass(frozen=True, slots=True)
class Sight:
    """What one look at the lines and the waiting room has found."""

    heads: list[Head]
    next_due_at: int | None
    next_turn_at: int | None = None
    """When a governed line is to be looked at."""

    def is_due(self, now: int) -> bool:
        """Whether somebody in the waiting room has become due."""
        return self.next_due_at is not None and self.next_due_at <= now

    def has_work(self, now: int) -> bool:
        """Whether anybody could perhaps be taken now."""
        return bool(self.heads) or self.is_due(now) or (self.next_turn_at is not None and self.next_turn_at <= now)

    @property
    def next_at(self) -> int | None:
        """When it is worth looking again."""
        return min((at for at in (self.next_due_at, self.next_turn_at) if at is not None), default=None)

    @property
    def oldest(self) -> int:
        """Since when the oldest stands in line, as old as its priority makes it."""
        return min((at + band * BAND_BONUS_MS for _, band, _, _, at in self.heads), default=NEVER)


def look(reader: Reader, *, turns: bool = True) -> Op[Sight]:
    """Look who stands first in each line, and when the next one in the waiting room becomes due, or a turn comes."""
    lines = reader.lines()
    places = [reader.start(line) for line in lines]
    rows = yield Query(
        "look",
        {
            "lanes": list(reader.open_lanes),
            "bands": list(BANDS),
            "line_lanes": [lane for lane, _ in lines],
            "line_bands": [band for _, band in lines],
            "ranks": [rank for rank, _ in places],
            "seqs": [seq for _, seq in places],
            "due_after": reader.due_seen,
        },
    )
    heads = [(lane, band, rank, seq, at) for lane, band, rank, seq, at in rows if lane is not None]
    [next_due_at] = [at for lane, *_, at in rows if lane is None]
    if len(heads) < len(lines):
        for line in set(lines) - {(lane, band) for lane, band, *_ in heads}:
            # Nobody stands there: the dead rows up to the highest place need not be stepped over again.
            reader.seen[line] = reader.highest.get(line, START)
    next_turn = None if reader.limits_of is None or not turns else (yield from next_turn_at(reader.open_lanes))
    sight = Sight(heads, next_due_at, next_turn)
    reader.next_due_at = sight.next_at
    return sight


def look_and_make_due(reader: Reader, now: int, *, turns: bool = True) -> Op[Sight]:
    """Look at the lines after whoever has become due was put into them."""
    sight = yield from look(reader, turns=turns)
    if sight.is_due(now):
        yield from make_due(reader, now)
        sight = yield from look(reader, turns=turns)
    return sight


def look_for_turns(reader: Reader) -> Op[None]:
    """Learn when a governed line is to be looked at next, after a claim has."""
    turn_at = yield from next_turn_at(reader.open_lanes)
    reader.next_due_at = min((at for at in (reader.next_due_at, turn_at) if at is not None), default=None)


def is_time_to_sweep(reader: Reader, now: int) -> bool:
    """Whether the next claim looks behind the places seen, whatever stands before them."""
    return reader.sweeps and now - reader.swept_at >= SWEEP_EVERY_MS


def line_told(notification: str) -> Line | None:
    """The line that a notification speaks of, if it does."""
    band, _, lane = notification.partition(" ")
    return (lane, int(band)) if lane and band.isdecimal() else None


def pop_from(reader: Reader, line: Line, count: int, now: int) -> Op[list[int]]:
    """Take up to `count` tasks out of one line, in which somebody is known to stand."""
    return (yield from _pop_line(reader, line, count, ANY_RANK, now))


def pop(reader: Reader, count: int, now: int, sight: Sight | None = None) -> Op[list[int]]:
    """Take up to `count` tasks out of the lines, oldest head first.

    With a sight of this moment's lines only those in sight are taken from; what came after it is for the next claim.
    """
    yield from _sweep_if_time(reader, now)
    if reader.busy_line is not None and now < reader.busy_until:
        taken = yield from _pop_line(reader, reader.busy_line, count, ANY_RANK, now)
        if len(taken) == count:
            return taken
        count -= len(taken)
    else:
        taken = []
    reader.busy_line = None
    if sight is None or sight.is_due(now):
        sight = yield from look_and_make_due(reader, now)
    for lane, band, *_ in sorted(sight.heads, key=lambda head: head[4] + head[1] * BAND_BONUS_MS):
        if count == 0:
            break
        more = yield from _pop_line(reader, (lane, band), count, ANY_RANK, now)
        if len(more) == count:
            reader.busy_line, reader.busy_until = (lane, band), now + COMPARE_EVERY_MS
        count -= len(more)
        taken += more
    return taken


def pop_suspects(reader: Reader) -> Op[list[int]]:
    """Take suspects that may run together: as many as their company allows, which is the rank they stand at."""
    heads = (yield from look(reader)).heads
    if not heads:
        return []
    company = min(head[2] for head in heads)
    taken: list[int] = []
    for lane, band, rank, *_ in heads:
        if rank == company and len(taken) < company:
            taken += yield from _pop_line(reader, (lane, band), company - len(taken), company)
    return taken


def _pop_line(reader: Reader, line: Line, count: int, rank_max: int, marks_at: int | None = None) -> Op[list[int]]:
    """Take the first of a line. With a time it is a line in which ranks are shares, and is marked."""
    lane, band = line
    rank, seq = reader.start(line)
    popped = yield Query(
        "pop", {"lane": lane, "band": band, "rank": rank, "seq": seq, "rank_max": rank_max, "count": count}
    )
    in_order = sorted((rank, seq, task) for task, rank, seq in popped)
    if in_order:
        reader.seen[line] = last = in_order[-1][:2]
        reader.highest[line] = max(reader.highest.get(line, START), last)
        if marks_at is not None and last[0] > 0:
            yield from _mark(reader, line, last[0], marks_at)
    return [task for _, _, task in in_order]


def _mark(reader: Reader, line: Line, rank: int, now: int) -> Op[None]:
    """Note how far the claims have come in a line, now and then: nobody who comes later stands further ahead."""
    mark = reader.marked.get(line)
    if mark is None or (rank > mark.last and now - mark.at >= MARK_EVERY_MS):
        reader.marked[line] = LineMark(-1 if mark is None else mark.last, rank, now)
        yield Many("insert_marks", [(*line, rank, now)])


def _sweep_if_time(reader: Reader, now: int) -> Op[None]:
    """Now and then look again behind the places seen, for what committed late; and learn how far back to look."""
    if reader.sweeps and now - reader.marked_at >= MARK_EVERY_MS:
        reader.marked_at = now
        [(after, oldest)] = yield Query("snapshot")
        reader.marks.append(_Mark(after, reader.proven()))
        if is_time_to_sweep(reader, now):
            reader.swept_at = now
            _start_over(reader, oldest)
    if now < reader.due_seen:  # the clock was set back
        reader.due_seen = -1


def _start_over(reader: Reader, oldest_open: int) -> None:
    """Begin the next look at the floor, after raising the floor to where the last sweep has proved there is nothing.

    A row behind a mark was numbered by a transaction that had begun before the mark was made. When all those are over,
    one look from the old floor sees everything behind the mark, and nothing new can come there. The floor is raised
    one sweep later, and only where that look has got past the mark. (A row that somebody had locked and let go again
    can still be behind it: `stragglers` looks for those, seldom and on another connection.)
    """
    for line, place in reader.next_floor.items():
        if reader.seen.get(line, START) >= place:
            reader.floor[line] = place
    over = [mark for mark in reader.marks if mark.after <= oldest_open]
    if over:
        reader.next_floor = over[-1].places
        reader.marks = reader.marks[len(over) :]
    reader.seen = dict(reader.floor)
    reader.due_seen = -1


def stragglers(reader: Reader) -> Op[bool]:
    """Whether anything stands behind the floors of a reader; if so, its next sweep begins at the very start."""
    for (lane, band), (rank, seq) in list(reader.floor.items()):
        rows = yield Query("behind", {"lane": lane, "band": band, "rank": rank, "seq": seq})
        if rows:
            reader.floor = {}
            reader.next_floor = {}
            return True
    return False
