"""Gates: the claim takes only what the outside can serve now.

Governed work stands in a line of its own for each set of gates it has to pass. A turn says when such a line is to be
looked at; whoever stands in it appends one, in the same transaction. The claim takes the turns that are due, locks the
gates of their lines (those that another claim has locked are served by it), asks each how many may pass, and leaves one
turn behind: for when the next may. So a closed door costs nothing until it may open, however many wait behind it.

Turns and their lines are looked at in the same moment: nobody who stood there when the turns were read is overlooked,
and whoever comes later brings a turn that is not taken away. A line that seems empty after the place that was seen last
is looked at once more, from where nothing can be behind, before its turns are ended. Only who holds all gates of a line
takes from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

from onceward.model.gates import BUDGET, Gate, read_gates
from onceward.model.source import (
    LOOK_AGAIN_MS,
    Allowance,
    GateLimits,
    GateState,
    after_taking,
    allowance,
)
from onceward.model.task import BAND_BONUS_MS, NEVER, Lease, lane_of
from onceward.store.op import Many, Op, Query, Row, Rows
from onceward.store.pauses import held_gates
from onceward.store.reader import BANDS, START, BusyLane, Line, Reader, mark

MOST_TURNS = 200
"""How many turns one claim looks at."""
ALL_TURNS = 5_000
"""How many it gathers: everybody who stands in a line has brought one."""
LONGEST_WITHOUT_A_LOOK_MS = 60_000
"""After how long a suspect behind a gate that does not say when it opens is looked at again."""

_TURN, _HEAD = 0, 1
"""What a row of a look is about; the others are about gates."""


@dataclass(slots=True)
class _Lane:
    """A governed line while a claim looks at it."""

    name: str
    line: str
    gates: list[Gate]
    turns: set[int] = field(default_factory=set)
    due_turn: int = 0
    """One of its turns that has come."""
    count: int = 0
    """How many may pass."""
    again_at: int = NEVER
    waits_for: str = ""
    """The gate that lets no more pass."""
    band: int | None = None
    head_at: int = NEVER
    """Since when its first one stands there, as old as its priority makes it."""
    standing: int = 0
    """How many stand in that band, as far as it matters."""
    has_others: bool = False
    """Whether somebody is left, in this band or another."""
    popped: list[int] = field(default_factory=list)
    is_whole: bool = True
    """Whether it was looked at from where nothing can be behind."""


class Passage(NamedTuple):
    """Tasks that were popped from a governed line, and the gates they pass."""

    gates: list[Gate]
    tasks: list[int]


@dataclass(slots=True)
class Governed:
    """What a claim knows of the governed lines: those that can be served now, oldest first."""

    reader: Reader
    now: int
    lanes: list[_Lane]
    states: dict[str, GateState]
    inside: dict[str, int] = field(default_factory=dict)
    probes: dict[str, int] = field(default_factory=dict)
    has_all: bool = False
    """Whether every line whose turn it is was looked at."""
    most: int = 0
    """How many there was room for at first; nobody has counted further in any line."""
    taken: Counter[str] = field(default_factory=Counter)
    """How many tokens were taken from each gate, and are not written down yet."""
    passed: Counter[str] = field(default_factory=Counter)
    held: frozenset[str] = frozenset()
    """The gates that an operator has paused."""
    held_back: int = 0
    """How many could have been taken if the worker had had room for them."""
    stored: dict[str, GateState] = field(default_factory=dict)
    """The gates as they are in the database, as far as we know."""
    is_remembered: bool = False
    """Whether they are not locked, but known from the claim before."""
    is_stale: bool = False
    """Whether they turned out to have changed since; nothing was taken then."""
    compares: bool = False
    """Whether the database compares the gates with what we know of them when it pops."""

    def __post_init__(self) -> None:
        self.stored = dict(self.states)

    def limits_of(self, gate: str) -> GateLimits:
        """What a gate lets through."""
        assert self.reader.limits_of is not None
        return self.reader.limits_of(gate)

    def counts(self, gate: str) -> bool:
        """Whether it matters who is inside a gate."""
        return self.limits_of(gate).has_slots or self.states[gate].is_probing(self.now)

    def busy_lane(self, count: int) -> BusyLane | None:
        """The line that has given so many by itself, if one has."""
        for lane in self.lanes:
            if len(lane.popped) == count and lane.band is not None:
                states = {gate.name: self.states[gate.name] for gate in lane.gates} if self.compares else None
                return BusyLane(lane.line, lane.name, lane.band, states)
        return None


def look(reader: Reader, room: int, now: int) -> Op[Governed]:
    """Look at the governed lines whose turn it is. Their gates are locked from here on."""
    limit = min(MOST_TURNS, 16 + 2 * room)
    most = max(1, room)
    seen = [(line, place) for line in reader.governed if (place := reader.start(line)) != START]
    places = {
        "seen_lanes": [lane for (lane, _), _ in seen],
        "seen_bands": [band for (_, band), _ in seen],
        "seen_ranks": [rank for _, (rank, _) in seen],
        "seen_seqs": [seq for _, (_, seq) in seen],
    }
    asked = {"lines": list(reader.open_lanes), "now": now, "count": limit, "all_turns": ALL_TURNS, "most": most}
    found = yield Query("due_turns", {**asked, **places})
    lanes: dict[str, _Lane] = {}
    heads: list[tuple[str, int, int, int]] = []
    states: dict[str, GateState] = {}
    for what, name, line, *numbers in found:
        if what == _TURN:
            known = lanes.get(name)
            if known is None:
                known = lanes[name] = _Lane(name, line, read_gates(name[len(line) + 1 :]))
                known.is_whole = all(reader.start(band) <= reader.floor.get(band, START) for band in _bands(name))
            known.turns.add(numbers[0])
            if numbers[1] <= now:
                known.due_turn = numbers[0]
        elif what == _HEAD:
            heads.append((name, *numbers[:3]))
        else:
            states[name] = GateState.stored(*numbers)
    names = {gate.name for lane in lanes.values() for gate in lane.gates}
    states |= yield from _lock(sorted(names - states.keys()))
    mine = [lane for lane in lanes.values() if all(gate.name in states for gate in lane.gates)]
    turns = sum(len(lane.turns) for lane in lanes.values())
    governed = Governed(reader, now, mine, states, has_all=turns < limit, most=most)
    yield from _set_back(governed)
    yield from _look_inside(governed)
    _order(governed, heads)
    return governed


def _bands(lane: str) -> list[Line]:
    return [(lane, band) for band in BANDS]


def look_at_one(reader: Reader, busy: BusyLane, room: int, now: int) -> Op[Governed]:
    """Ask the gates of one line again, of which it is known that many stand there. Its turns stay as they are.

    Where nobody else is likely to have passed them they are not even locked: whoever pops says what it takes for
    granted, and gets nothing if it has changed.
    """
    lane = _Lane(busy.lane, busy.line, read_gates(busy.lane[len(busy.line) + 1 :]))
    lane.band, lane.head_at, lane.standing, lane.has_others = busy.band, 0, room, True
    if busy.states is not None:
        governed = Governed(reader, now, [lane], dict(busy.states), most=max(1, room), is_remembered=True)
        if not reader.pauses and not any(governed.counts(name) for name in governed.states):
            return governed
    states = yield from _lock(sorted({gate.name for gate in lane.gates}))
    mine = [lane] if all(gate.name in states for gate in lane.gates) else []
    governed = Governed(reader, now, mine, states, most=max(1, room))
    yield from _set_back(governed)
    yield from _look_inside(governed)
    return governed


def _set_back(governed: Governed) -> Op[None]:
    for name, found in list(governed.states.items()):
        governed.states[name] = governed.stored[name] = yield from as_of_now(name, found, governed.now)


def as_of_now(gate: str, found: GateState, now: int) -> Op[GateState]:
    """A gate that we hold, by the clock as it is. If that was set back, its times go with it, and are written down."""
    state = found.as_of(now)
    if state is not found:
        yield Query("set_gate_back", {"gate": gate, "tat": state.tat, "paused_until": state.paused_until, "now": now})
    return state


def _look_inside(governed: Governed) -> Op[None]:
    """Who is inside the gates that are locked, and which of them an operator has paused."""
    if pauses := governed.reader.pauses:
        governed.held = yield from held_gates(pauses, sorted(governed.states))
    counted = [
        name
        for name, state in governed.states.items()
        if (limits := governed.limits_of(name)).has_slots
        or (state.is_probing(governed.now) and limits.breaker is not None)
    ]
    if counted:
        for gate, inside, probes in (yield Query("inside_gates", {"names": counted})):
            governed.inside[gate], governed.probes[gate] = inside, probes


def _lock(names: Sequence[str]) -> Op[dict[str, GateState]]:
    """Lock gates, but for those that somebody else has locked; a gate that is not there yet is made."""
    if not names:
        return {}
    rows = yield Query("lock_gates", {"names": list(names)})
    if len(rows) < len(names):
        known = {row[0] for row in (yield Query("known_gates", {"names": list(names)}))}
        if new := sorted(set(names) - known):
            yield Many("insert_gates", [(name,) for name in new])
            rows = [*rows, *(yield Query("lock_gates", {"names": new}))]
    return {name: GateState.stored(*rest) for name, *rest in rows}


def _order(governed: Governed, heads: Sequence[tuple[str, int, int, int]]) -> None:
    """Who stands first in each line, and how many may pass; whoever stands there for longest comes first."""
    by_lane: dict[str, list[tuple[int, int, int]]] = {}
    for name, band, at, standing in heads:
        by_lane.setdefault(name, []).append((at + band * BAND_BONUS_MS, band, standing))
    for lane in governed.lanes:
        _allow(governed, lane)
        here = by_lane.get(lane.name, [])
        if here:
            lane.head_at, lane.band, lane.standing = min(here)
            lane.has_others = len(here) > 1
    governed.lanes.sort(key=lambda lane: lane.head_at)


def _allow(governed: Governed, lane: _Lane) -> None:
    """How many may pass all gates of a line now, with what was taken from them since."""
    allowed = []
    for gate in lane.gates:
        name = gate.name
        passed = governed.passed[name]
        probes = governed.probes.get(name, 0) + (passed if governed.states[name].is_probing(governed.now) else 0)
        state = governed.states[name]
        inside = governed.inside.get(name, 0) + passed
        allowed.append(
            Allowance(0, NEVER)
            if name in governed.held
            else allowance(governed.limits_of(name), state, inside, probes, gate.tokens, governed.now)
        )
    lane.count = min(one.count for one in allowed)
    lane.again_at, lane.waits_for = max(
        (one.again_at, gate.name) for one, gate in zip(allowed, lane.gates, strict=True) if one.count == lane.count
    )


def pop(governed: Governed, room: int, before: int = NEVER) -> Op[list[Passage]]:
    """Take as many as may pass from the lines whose first one stands there since before a time."""
    wanted: list[tuple[_Lane, int]] = []
    for lane in governed.lanes:
        if lane.band is None or lane.popped or lane.head_at >= before:
            continue
        _allow(governed, lane)
        if not lane.count:
            continue
        if room <= 0:
            governed.held_back += lane.count
            continue
        many = min(room, lane.count, lane.standing)
        room -= many
        _take(governed, lane, many)
        wanted.append((lane, many))
    if not wanted:
        return []
    found: dict[str, list[Row]] = {}
    for row in sorted((yield from _pop(governed, wanted)), key=_place):
        found.setdefault(row[3], []).append(row)
    for lane, many in wanted:
        here = found.get(lane.name, [])
        lane.popped = [row[2] for row in here]
        if len(here) < many:
            _take(governed, lane, len(here) - many)
        if here:
            yield from _remember(governed, (lane.name, lane.band or 0), here)
        lane.has_others = lane.has_others or len(lane.popped) < lane.standing or lane.standing == governed.most
    return [Passage(lane.gates, lane.popped) for lane, _ in wanted]


_place = itemgetter(0, 1)


def _remember(governed: Governed, line: Line, popped: Sequence[Row]) -> Op[None]:
    """How far a line was taken from: for the next look, and for those who stand in it later."""
    reader = governed.reader
    rank, seq = _place(popped[-1])
    reader.stood_at = max(reader.stood_at, max(at for *_, at in popped))
    if reader.sweeps:
        reader.took_governed(line, (rank, seq))
    if rank > 0:
        yield from mark(reader, line, rank, governed.now)


def _pop(governed: Governed, wanted: Sequence[tuple[_Lane, int]]) -> Op[Rows]:
    """Pop from lines, and take the tokens from their gates in the same statement where the database can: if they are as
    we know them."""
    lines = [(lane.name, lane.band or 0) for lane, _ in wanted]
    lanes, bands = [name for name, _ in lines], [band for _, band in lines]
    counts = [many for _, many in wanted]
    names = sorted(governed.taken)
    tats, calls = [governed.states[name].tat for name in names], [governed.taken[name] for name in names]
    starts = [governed.reader.start(line) for line in lines]
    ranks, seqs = ([start[place] for start in starts] for place in range(2))
    line = {"lanes": lanes, "bands": bands, "counts": counts, "ranks": ranks, "seqs": seqs}
    known = [governed.stored[name].in_words for name in names]
    rows = yield Query(
        "pop_and_take", {**line, "names": names, "tats": tats, "calls": calls, "known": known, "now": governed.now}
    )
    if rows:  # one of them is nothing, and says that it was done
        governed.compares = True
        governed.taken.clear()
        governed.stored |= {name: governed.states[name] for name in names}
        return [row for row in rows if row[0] is not None]
    if governed.is_remembered:
        governed.is_stale = True
        return []
    found: list[Row] = []
    for lane, band, count in zip(lanes, bands, counts, strict=True):
        popped = yield Query("pop_governed", {"lane": lane, "band": band, "count": count})
        if popped:
            rank, seq = _place(popped[-1])
            yield Query("popped", {"lane": lane, "band": band, "rank": rank, "seq": seq})
        found += popped
    return found


def _take(governed: Governed, lane: _Lane, many: int) -> None:
    for gate in lane.gates:
        name, state = gate.name, governed.states[gate.name]
        tokens = many * gate.tokens
        tat = after_taking(governed.limits_of(name), state.tat, tokens, governed.now) if tokens else state.tat
        governed.states[name] = state.with_tat(tat)
        governed.taken[name] += tokens
        governed.passed[name] += many


def has_budget(gates: Sequence[Gate]) -> bool:
    """Whether something is to be set aside for those who pass these."""
    return any(gate.name[0] == BUDGET for gate in gates)


def put_back(governed: Governed, passages: Sequence[Passage], tasks: Collection[int]) -> list[Passage]:
    """Some have not passed after all: what they had taken is there again. Returns who has."""
    left = []
    for passage in passages:
        gone = len([task for task in passage.tasks if task in tasks])
        for name, tokens in passage.gates if gone else ():
            state, interval_us = governed.states[name], governed.limits_of(name).interval_us or 0
            governed.states[name] = state.with_tat(state.tat - gone * tokens * interval_us)
            governed.taken[name] -= gone * tokens
            governed.passed[name] -= gone
        left.append(Passage(passage.gates, [task for task in passage.tasks if task not in tasks]))
    return left


def settle(governed: Governed, passages: Sequence[Passage], leases: Sequence[Lease]) -> Op[None]:
    """Write down what has passed: tokens, places inside, and when each line is to be looked at again."""
    tokens: dict[int, bytes] = {}
    slots = []
    for passage in passages:
        for name in (gate.name for gate in passage.gates if governed.counts(gate.name)):
            tokens = tokens or {lease.task: lease.token for lease in leases}
            probes = int(governed.states[name].is_probing(governed.now))
            slots += [(name, task, tokens[task], probes, governed.now) for task in passage.tasks if task in tokens]
    if slots:
        yield Many("insert_slots", sorted(slots))
    left: list[tuple[str, str, str, int]] = []
    for lane in governed.lanes:
        if not lane.turns:
            continue  # they were not looked at, and stay
        _allow(governed, lane)
        if lane.band is None or (lane.popped and not lane.has_others):
            if lane.is_whole:
                continue  # nobody stands there any more; whoever comes brings a turn
            governed.reader.rewind(_bands(lane.name))
        if lane.count and governed.has_all:
            lane.turns.remove(lane.due_turn)  # it is its turn still
        else:  # also where others wait for theirs: it goes behind them
            left.append((lane.line, lane.name, lane.waits_for, governed.now if lane.count else lane.again_at))
    taken = [(name, governed.states[name].tat, taken) for name, taken in sorted(governed.taken.items())]
    seqs = sorted(seq for lane in governed.lanes for seq in lane.turns)
    if seqs or left:
        yield from _write_down(taken, seqs, left, governed.now)
    elif taken:
        yield Many("take_from_gates", taken, (governed.now,))


def _write_down(
    taken: list[tuple[str, int, int]], seqs: list[int], left: list[tuple[str, str, str, int]], now: int
) -> Op[None]:
    """Take tokens from gates, end turns and leave others, in one statement where the database can."""
    names, tats, calls = ([row[place] for row in taken] for place in range(3))
    lines, lanes, gates, times = ([row[place] for row in left] for place in range(4))
    change = {"names": names, "tats": tats, "calls": calls, "seqs": seqs, "now": now}
    is_done = yield Query("settle_gates", {**change, "lines": lines, "lanes": lanes, "gates": gates, "times": times})
    if is_done:
        return
    if taken:
        yield Many("take_from_gates", taken, (now,))
    if left:
        yield Many("insert_turns", left)


class Admitted(NamedTuple):
    """Who of some tasks may pass all gates before them, and what `settle` needs to know of that."""

    tasks: list[int]
    governed: Governed
    passages: list[Passage]


def admit(reader: Reader, tasks: Sequence[int], now: int) -> Op[Admitted]:
    """Ask the gates of suspects, who stand in a line of their own whatever those are. Whom they do not let pass is back
    when they may."""
    states: dict[str, GateState] = {}
    facing = {row[0]: row for row in (yield Query("gates_of_tasks", {"ids": list(tasks)}))} if tasks else {}
    gates = {task: read_gates(row[-1]) for task, row in facing.items()}
    if gates:
        states = yield from _lock(sorted({gate.name for some in gates.values() for gate in some}))
    governed = Governed(reader, now, [], states)
    yield from _set_back(governed)
    yield from _look_inside(governed)
    passages: list[Passage] = []
    later = []
    for task, some in gates.items():
        lane = _Lane("", "", some, again_at=now + LOOK_AGAIN_MS)
        if all(gate.name in states for gate in some):  # another claim has locked it otherwise
            _allow(governed, lane)
        if lane.count:
            _take(governed, lane, 1)
            passages.append(Passage(some, [task]))
        else:
            _, queue, kind, band, company, _ = facing[task]
            due_at = min(max(lane.again_at, now + 1), now + LONGEST_WITHOUT_A_LOOK_MS)
            later.append((due_at, task, lane_of(queue, kind, suspect=True), band, company))
    if later:
        yield Many("wait_until_due", later)
    turned_away = {row[1] for row in later}
    return Admitted([task for task in tasks if task not in turned_away], governed, passages)


def append_turns(lanes: Iterable[tuple[str, str]], now: int) -> Op[None]:
    """Somebody stands in governed lines: have them looked at. Each line is given with its gates."""
    rows = sorted({(lane[: -len(gates) - 1], lane, read_gates(gates)[0].name, now) for lane, gates in lanes})
    if rows:
        yield Many("insert_turns", rows)


def next_turn_at(lines: Sequence[str]) -> Op[int | None]:
    """When a governed line is to be looked at next."""
    [(at,)] = yield Query("next_turn", {"lines": list(lines)})
    return at if at is not None and at < NEVER else None
