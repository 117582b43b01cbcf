"""Standing in line: where ready work waits, and how it is popped in order.

Between lines the heads are compared by age; each level of priority counts as five minutes of age, so that high goes
first and low is never starved. Every other time what a lineage or batch has in line stands back behind the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec

from onceward.model.status import Event, Status
from onceward.model.task import BAND_BONUS_MS, NEVER, gates_in
from onceward.store.history import Entry, log
from onceward.store.lines.memory import BANDS, PAUSES_EVERY_MS, START, Line, LineMemory, mark
from onceward.store.lines.pause_scopes import read_pauses
from onceward.store.lines.turns import append_turns, next_turn_at
from onceward.store.op import Many, Op, Query

COMPARE_EVERY_MS = 20
FEWEST_LOOKED_AT, MOST_LOOKED_AT = 100, 10_000
"""How many places of a line one look for dead ones covers: the first one, and all looks of a claim together."""
DUE_BATCH = 500
ANY_RANK = 1 << 62

LineHead = tuple[str, int, int, int, int]
"""The first in a line: lane, band, rank, number, and since when it stands there."""


class Placement(msgspec.Struct, frozen=True, gc=False):
    """A task that goes into a line, now or at its due time."""

    task: int
    lane: str
    band: int
    rank: int
    due_at: int


def put_in_line(placements: Iterable[Placement], now: int) -> Op[None]:
    """Put tasks in line: those that are due now, the others for later."""
    ready: dict[Line, list[tuple[int, int]]] = {}
    later = []
    for one in placements:
        if one.due_at <= now:
            ready.setdefault((one.lane, one.band), []).append((one.rank, one.task))
        else:
            later.append((one.due_at, one.task, one.lane, one.band, one.rank))
    yield from put_ranked_in_line(ready, now)
    if later:
        yield Many("wait_until_due", later)


def put_ranked_in_line(ready: Mapping[Line, list[tuple[int, int]]], now: int) -> Op[None]:
    """Put tasks that are due in their lines, each at its rank; those of one rank in the order given."""
    for (lane, band), places in ready.items():
        ranks, tasks = [rank for rank, _ in places], [task for _, task in places]
        place = {"lane": lane, "band": band, "at": now, "tasks": tasks}
        if ranks.count(ranks[0]) == len(ranks):
            yield Query("stand_in_line", {**place, "rank": ranks[0]})
        else:
            apart = {**place, "ranks": ranks, "apart": dict(zip(tasks, ranks, strict=True))}
            ends = yield Query("end_of_line", {"lane": lane, "band": band, "ranks": sorted(set(ranks))})
            for rank, seq in ends:
                apart |= {"rank": rank, "seq": seq}
            yield Query("stand_apart", apart)
    if governed := {(lane, gates) for lane, _ in ready if (gates := gates_in(lane)) is not None}:
        yield from append_turns(governed, now)


def refresh_pauses(memory: LineMemory, now: int) -> Op[None]:
    """Learn what an operator has paused: now and then, and with every look as long as something is. And whether
    somebody stands behind gates of which the code knows nothing any more."""
    if memory.pauses or not 0 <= now - memory.pauses_read_at < PAUSES_EVERY_MS:
        memory.pauses_read_at = now
        pauses = yield from read_pauses()
        if pauses != memory.pauses:
            memory.pauses, memory.busy_line, memory.busy_lane = pauses, None, None
        if memory.limits_of is None and memory.limits_of_old is not None:
            [(turn_at,)] = yield Query("next_turn", {"lines": list(memory.lanes)})
            memory.limits_of = None if turn_at is None else memory.limits_of_old


def move_due_into_line(memory: LineMemory, now: int) -> Op[int]:
    """Put into line what has become due; returns how many."""
    moved = yield Query("pop_due", {"now": now, "after": memory.due_seen, "count": DUE_BATCH})
    if not moved:
        return 0
    if len(moved) < DUE_BATCH:
        memory.due_seen = now
    ids = sorted(row[0] for row in moved)
    woken = yield Query("wake_due", {"ids": ids, "now": now})
    yield from log(
        Entry(task, run, fence, Event.WOKEN, Status.PENDING, stage, None, now, "its time has come")
        for task, run, fence, stage in woken
    )
    in_order = sorted(moved, key=lambda row: (row[4], row[0]))
    yield from put_in_line((Placement(task, lane, band, rank, now) for task, lane, band, rank, _ in in_order), now)
    return len(moved)


@dataclass(frozen=True, slots=True)
class LineView:
    """What one look at the lines and the waiting room has found."""

    heads: list[LineHead]
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

    def in_order(self, memory: LineMemory) -> list[tuple[int, Line]]:
        """The lines in which somebody stands, the oldest head first: since when, as old as its priority makes it."""
        heads = [
            (memory.since((lane, band), at) + band * BAND_BONUS_MS, (lane, band)) for lane, band, *_, at in self.heads
        ]
        return sorted(heads, key=lambda head: head[0])

    def without_threads(self, memory: LineMemory) -> LineView:
        """The same without the lines whose tasks need a thread."""
        return replace(self, heads=[head for head in self.heads if head[0] not in memory.threaded])

    def oldest(self, memory: LineMemory) -> int:
        """Since when the oldest stands in line, as old as its priority makes it."""
        return min((since for since, _ in self.in_order(memory)), default=NEVER)


def look(memory: LineMemory, *, turns: bool = True) -> Op[LineView]:
    """Look who stands first in each line, and when the next one in the waiting room becomes due, or a turn comes."""
    lines = memory.lines()
    places = [memory.start(line) for line in lines]
    rows = yield Query(
        "look",
        {
            "lanes": list(memory.open_lanes),
            "bands": list(BANDS),
            "line_lanes": [lane for lane, _ in lines],
            "line_bands": [band for _, band in lines],
            "ranks": [rank for rank, _ in places],
            "seqs": [seq for _, seq in places],
            "due_after": memory.due_seen,
        },
    )
    heads = [(lane, band, rank, seq, at) for lane, band, rank, seq, at in rows if lane is not None]
    [next_due_at] = [at for lane, *_, at in rows if lane is None]
    if len(heads) < len(lines):
        for line in set(lines) - {(lane, band) for lane, band, *_ in heads}:
            # Nobody stands there: the dead rows up to the highest place need not be stepped over again.
            memory.seen[line] = memory.highest.get(line, START)
    next_turn = None if memory.limits_of is None or not turns else (yield from next_turn_at(memory.open_lanes))
    view = LineView(heads, next_due_at, next_turn)
    memory.next_due_at = view.next_at
    return view


def look_with_due(memory: LineMemory, now: int, *, turns: bool = True) -> Op[LineView]:
    """Look at the lines after whoever has become due was put into them."""
    view = yield from look(memory, turns=turns)
    if view.is_due(now):
        yield from move_due_into_line(memory, now)
        view = yield from look(memory, turns=turns)
    return view


def look_for_turns(memory: LineMemory) -> Op[None]:
    """Learn when a governed line is to be looked at next, after a claim has."""
    turn_at = yield from next_turn_at(memory.open_lanes)
    memory.next_due_at = min((at for at in (memory.next_due_at, turn_at) if at is not None), default=None)


def notified_line(notification: str) -> Line | None:
    """The line that a notification speaks of, if it does."""
    band, _, lane = notification.partition(" ")
    return (lane, int(band)) if lane and band.isdecimal() else None


def pop_from(memory: LineMemory, line: Line, count: int, now: int) -> Op[list[int]]:
    """Take up to `count` tasks out of one line, in which some are known to stand."""
    return (yield from _pop_line(memory, line, count, ANY_RANK, now))


def pop(memory: LineMemory, count: int, now: int, view: LineView | None = None) -> Op[list[int]]:
    """Take up to `count` tasks out of the lines, oldest head first.

    With a sight of this moment's lines only those in sight are taken from; what came after it is for the next claim.
    """
    if memory.busy_line is not None and now < memory.busy_until:
        taken = yield from _pop_line(memory, memory.busy_line, count, ANY_RANK, now)
        if len(taken) == count or (taken and memory.wants_thread):
            return taken
        count -= len(taken)
    else:
        taken = []
    memory.busy_line = None
    if view is None or view.is_due(now):
        view = yield from look_with_due(memory, now)
    if memory.limits_of is None:  # else the claim has, with the governed lines
        memory.gives_way = not memory.gives_way
    for _, line in view.in_order(memory):
        if count == 0:
            break
        more = yield from _pop_line(memory, line, count, ANY_RANK, now)
        if len(more) == count or (more and memory.wants_thread):
            memory.busy_line, memory.busy_until = line, now + COMPARE_EVERY_MS
        count -= len(more)
        taken += more
    return taken


def pop_suspects(memory: LineMemory) -> Op[list[int]]:
    """Take suspects that may run together: as many as their company allows, which is the rank they stand at."""
    heads = (yield from look(memory)).heads
    if not heads:
        return []
    company = min(head[2] for head in heads)
    taken: list[int] = []
    for lane, band, rank, *_ in heads:
        if rank == company and len(taken) < company:
            taken += yield from _pop_line(memory, (lane, band), company - len(taken), company)
    return taken


def _pop_line(memory: LineMemory, line: Line, count: int, rank_max: int, marks_at: int | None = None) -> Op[list[int]]:
    """Take the first of a line, as far as there are threads for them. With a time it is a line in which ranks are
    shares, and is marked."""
    lane, band = line
    asked, needs_threads = count, lane in memory.threaded
    if needs_threads:
        count = min(count, memory.threads)
        if count <= 0:
            memory.wants_thread = True
            return []
    rank, seq = memory.start(line)
    popped = yield Query(
        "pop", {"lane": lane, "band": band, "rank": rank, "seq": seq, "rank_max": rank_max, "count": count}
    )
    in_order = sorted([(rank, seq, task) for task, rank, seq, _ in popped])
    if in_order:
        last = in_order[-1][:2]
        yield Query("popped", {"lane": lane, "band": band, "rank": last[0], "seq": last[1]})
        memory.took(line, last)
        memory.popped_from.append(line)
        memory.stood_at = max(memory.stood_at, max([row[3] for row in popped]))
        if marks_at is not None and last[0] > 0:
            yield from mark(memory, line, last[0], marks_at)
    if needs_threads:
        memory.threads -= len(in_order)
        memory.wants_thread = memory.wants_thread or len(in_order) == count < asked
    return [task for _, _, task in in_order]


def drop_dead(memory: LineMemory) -> Op[None]:
    """Delete the dead places at the front of the lines from which this claim has popped: those of tasks that have
    ended or are paused. As long as all places of a look are dead, the next look is four times as long."""
    left = MOST_LOOKED_AT
    for line in dict.fromkeys(memory.popped_from):
        many = FEWEST_LOOKED_AT
        while left > 0:
            many = min(many, left)
            rank, seq = memory.start(line)
            place = {"lane": line[0], "band": line[1], "rank": rank, "seq": seq, "count": many}
            dropped = yield Query("drop_dead", place)
            left -= many
            if sum([row[0] for row in dropped]) < many:
                break
            many *= 4


def look_for_stragglers(memory: LineMemory, now: int) -> Op[bool]:
    """Whether anything stands behind the floors of a reader; if so, its next sweep begins at the very start. A governed
    line was perhaps taken for empty, and has no turn any more."""
    behind = []
    for (lane, band), (rank, seq) in list(memory.floor.items()):
        if (yield Query("behind", {"lane": lane, "band": band, "rank": rank, "seq": seq})):
            behind.append(lane)
    if not behind:
        return False
    memory.floor = {}
    memory.next_floor = {}
    yield from append_turns(((lane, gates) for lane in behind if (gates := gates_in(lane)) is not None), now)
    return True
