"""Putting tasks in line, looking at the heads of lines, and popping tasks in order.

A claim compares the heads of its lines by age; each level of priority counts as five minutes of age, so that high goes
first and low never starves. In every other comparison, lines in which ranks are shares give way to the others
(decision 29).
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
"""How many places of a line are searched for dead ones: by the first look, and by one claim."""
DUE_BATCH = 500
ANY_RANK = 1 << 62

LineHead = tuple[str, int, int, int, int]
"""The first place of a line: lane, band, rank, number, and since when its task stands there."""


class Placement(msgspec.Struct, frozen=True, gc=False):
    """A task and the place in line that it gets, now or when it is due."""

    task: int
    lane: str
    band: int
    rank: int
    due_at: int


def put_in_line(placements: Iterable[Placement], now: int) -> Op[None]:
    """Put tasks in line if they are due, else into the waiting room."""
    ready: dict[Line, list[tuple[int, int]]] = {}
    later = []
    for placement in placements:
        line, rank, task = (placement.lane, placement.band), placement.rank, placement.task
        if placement.due_at <= now:
            ready.setdefault(line, []).append((rank, task))
        else:
            later.append((placement.due_at, task, *line, rank))
    yield from put_ranked_in_line(ready, now)
    if later:
        yield Many("wait_until_due", later)


def put_ranked_in_line(ready: Mapping[Line, list[tuple[int, int]]], now: int) -> Op[None]:
    """Put due tasks in their lines, each at its rank; tasks of one rank keep their order."""
    for (lane, band), places in ready.items():
        ranks, tasks = [rank for rank, _ in places], [task for _, task in places]
        line = {"lane": lane, "band": band, "at": now, "tasks": tasks}
        if ranks.count(ranks[0]) == len(ranks):
            yield Query("put_in_line", {**line, "rank": ranks[0]})
        else:
            apart = {**line, "ranks": ranks, "apart": dict(zip(tasks, ranks, strict=True))}
            ends = yield Query("end_of_line", {"lane": lane, "band": band, "ranks": sorted(set(ranks))})
            for rank, seq in ends:
                apart |= {"rank": rank, "seq": seq}
            yield Query("put_apart_in_line", apart)
    if governed := {(lane, gates) for lane, _ in ready if (gates := gates_in(lane)) is not None}:
        yield from append_turns(governed, now)


def refresh_pauses(memory: LineMemory, now: int) -> Op[None]:
    """Read the pauses every 200 ms, and before every claim while anything is paused.

    A worker whose code has no gates also checks then whether tasks still stand in governed lines.
    """
    if memory.pauses.scopes or not 0 <= now - memory.pauses_read_at < PAUSES_EVERY_MS:
        memory.pauses_read_at = now
        pauses = yield from read_pauses()
        if pauses != memory.pauses:
            memory.pauses, memory.busy_line = pauses, None
        if memory.limits_of is None and memory.limits_of_old is not None:
            [(turn_at,)] = yield Query("next_turn", {"lines": list(memory.lanes)})
            memory.limits_of = None if turn_at is None else memory.limits_of_old


def move_due_into_line(memory: LineMemory, now: int) -> Op[int]:
    """Move tasks that have become due from the waiting room into their lines; returns how many."""
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
    in_order = sorted((due_at, task, lane, band, rank) for task, lane, band, rank, due_at in moved)
    yield from put_in_line((Placement(task, lane, band, rank, now) for _, task, lane, band, rank in in_order), now)
    return len(moved)


@dataclass(frozen=True, slots=True)
class LineView:
    """The heads of all lines and the next due times, as one look has read them."""

    heads: list[LineHead]
    next_due_at: int | None
    next_turn_at: int | None = None
    """When a claim is to look at a governed line."""

    def is_due(self, now: int) -> bool:
        """Whether a task in the waiting room has become due."""
        return self.next_due_at is not None and self.next_due_at <= now

    def has_work(self, now: int) -> bool:
        """Whether a claim may find a task now."""
        return bool(self.heads) or self.is_due(now) or (self.next_turn_at is not None and self.next_turn_at <= now)

    @property
    def next_at(self) -> int | None:
        """When to look again."""
        return min((at for at in (self.next_due_at, self.next_turn_at) if at is not None), default=None)

    def in_order(self, memory: LineMemory) -> list[tuple[int, Line]]:
        """The lines that are not empty, oldest head first, with the age of each head and its bonus by priority."""
        heads = [
            (memory.places.since((lane, band), at) + band * BAND_BONUS_MS, (lane, band))
            for lane, band, *_, at in self.heads
        ]
        return sorted(heads, key=lambda head: head[0])

    def without_threads(self, memory: LineMemory) -> LineView:
        """The same view without the lines whose tasks need a thread."""
        return replace(self, heads=[head for head in self.heads if head[0] not in memory.threaded])

    def oldest(self, memory: LineMemory) -> int:
        """Since when the oldest head stands in line, with its bonus by priority."""
        return min((since for since, _ in self.in_order(memory)), default=NEVER)


def look(memory: LineMemory, *, turns: bool = True) -> Op[LineView]:
    """Read the head of each line, the next due time in the waiting room and the next turn."""
    lines = memory.lines()
    places = [memory.places.start(line) for line in lines]
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
            # The line is empty: the dead rows up to the highest place need not be stepped over again.
            memory.places.seen[line] = memory.places.highest.get(line, START)
    next_turn = None if memory.limits_of is None or not turns else (yield from next_turn_at(memory.open_lanes))
    view = LineView(heads, next_due_at, next_turn)
    memory.next_due_at = view.next_at
    return view


def look_with_due(memory: LineMemory, now: int, *, turns: bool = True) -> Op[LineView]:
    """Look at the lines; if tasks have become due, move them into line and look again."""
    view = yield from look(memory, turns=turns)
    if view.is_due(now):
        yield from move_due_into_line(memory, now)
        view = yield from look(memory, turns=turns)
    return view


def look_for_turns(memory: LineMemory) -> Op[None]:
    """Read the next turn again, after a claim has changed the turns."""
    turn_at = yield from next_turn_at(memory.open_lanes)
    memory.next_due_at = min((at for at in (memory.next_due_at, turn_at) if at is not None), default=None)


def notified_line(notification: str) -> Line | None:
    """The line that a notification names; None if it names none."""
    band, _, lane = notification.partition(" ")
    return (lane, int(band)) if lane and band.isdecimal() else None


def pop_from(memory: LineMemory, line: Line, count: int, now: int) -> Op[list[int]]:
    """Pop up to `count` tasks from one line, after a notification."""
    return (yield from _pop_line(memory, line, count, ANY_RANK, now))


def pop(memory: LineMemory, count: int, now: int, view: LineView | None = None) -> Op[list[int]]:
    """Pop up to `count` tasks from the lines, oldest head first.

    With a view of this moment only its lines are popped from; later tasks are for the next claim.
    """
    if memory.busy_line is not None and now < memory.busy_until:
        taken = yield from _pop_line(memory, memory.busy_line, count, ANY_RANK, now)
        if len(taken) == count or (taken and memory.claim.wants_thread):
            return taken
        count -= len(taken)
    else:
        taken = []
    memory.busy_line = None
    if view is None or view.is_due(now):
        view = yield from look_with_due(memory, now)
    if memory.limits_of is None:  # else the claim has done that, with the governed lines
        memory.places.gives_way = not memory.places.gives_way
    for _, line in view.in_order(memory):
        if count == 0:
            break
        more = yield from _pop_line(memory, line, count, ANY_RANK, now)
        if len(more) == count or (more and memory.claim.wants_thread):
            memory.busy_line, memory.busy_until = line, now + COMPARE_EVERY_MS
        count -= len(more)
        taken += more
    return taken


def pop_suspects(memory: LineMemory) -> Op[list[int]]:
    """Pop suspects that may run together: as many as their company, which is their rank (decision 7)."""
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
    """Pop the first tasks of a line, as far as there are threads for them.

    With `marks_at` ranks are shares in this line, and the claim marks how far it has come.
    """
    lane, band = line
    wanted, needs_threads = count, lane in memory.threaded
    if needs_threads:
        count = min(count, memory.claim.threads)
        if count <= 0:
            memory.claim.wants_thread = True
            return []
    rank, seq = memory.places.start(line)
    popped = yield Query(
        "pop", {"lane": lane, "band": band, "rank": rank, "seq": seq, "rank_max": rank_max, "count": count}
    )
    in_order = sorted([(rank, seq, task) for task, rank, seq, _ in popped])
    if in_order:
        last = in_order[-1][:2]
        yield Query("drop_popped", {"lane": lane, "band": band, "rank": last[0], "seq": last[1]})
        memory.places.took(line, last)
        memory.claim.popped_from.append(line)
        memory.claim.stood_at = max(memory.claim.stood_at, max([row[3] for row in popped]))
        if marks_at is not None and last[0] > 0:
            yield from mark(memory, line, last[0], marks_at)
    if needs_threads:
        memory.claim.threads -= len(in_order)
        memory.claim.wants_thread = memory.claim.wants_thread or len(in_order) == count < wanted
    return [task for _, _, task in in_order]


def drop_dead(memory: LineMemory) -> Op[None]:
    """Delete dead places, of tasks that have ended or are paused, at the front of the lines just popped from.

    While all places of a look are dead, the next look is four times as long.
    """
    left = MOST_LOOKED_AT
    for line in dict.fromkeys(memory.claim.popped_from):
        many = FEWEST_LOOKED_AT
        while left > 0:
            many = min(many, left)
            rank, seq = memory.places.start(line)
            start = {"lane": line[0], "band": line[1], "rank": rank, "seq": seq, "count": many}
            dropped = yield Query("drop_dead", start)
            left -= many
            if sum([row[0] for row in dropped]) < many:
                break
            many *= 4


def look_for_stragglers(memory: LineMemory, now: int) -> Op[bool]:
    """Check for rows behind the floors of a memory; if there are any, its next sweep begins at the start.

    Governed lines among them get a turn: a claim may have taken them for empty and ended their turns.
    """
    behind = []
    for (lane, band), (rank, seq) in list(memory.places.floor.items()):
        if (yield Query("rows_behind", {"lane": lane, "band": band, "rank": rank, "seq": seq})):
            behind.append(lane)
    if not behind:
        return False
    memory.places.floor = {}
    memory.places.next_floor = {}
    yield from append_turns(((lane, gates) for lane in behind if (gates := gates_in(lane)) is not None), now)
    return True
