"""Gates: the claim takes only what the outside can serve now.

Governed work stands in a line of its own for each set of gates it has to pass. A turn says when such a line is to be
looked at; whoever stands in it appends one, in the same transaction. The claim takes the turns that are due, locks the
gates of their lines (those that another claim has locked are served by it), asks each how many may pass, and leaves one
turn behind: for when the next may. So a closed door costs nothing until it may open, however many wait behind it.

Turns and their lines are looked at in the same moment: nobody who stood there when the turns were read is overlooked,
and whoever comes later brings a turn that is not taken away. A line that seems empty after the place that was seen last
is looked at once more, from where nothing can be behind, before its turns are ended. Only who holds all gates of a line
takes from it.

A claim that takes once more from the line that kept its worker busy tells the gates of that line on the way that those
who end in the same transaction were served well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from onceward.model.gates import read_gates
from onceward.model.source import LOOK_AGAIN_MS, GateState, after_outcomes
from onceward.model.task import NEVER, Lease, lane_of
from onceward.store.governance.gate_plan import (
    NOBODY,
    Governed,
    Head,
    Lane,
    Leasing,
    Passage,
    Popped,
    aged,
    has_budget,
)
from onceward.store.lines.memory import BANDS, START, BusyLane, Line, Reader, mark
from onceward.store.lines.pause_scopes import held_gates
from onceward.store.lines.turns import LONGEST_WITHOUT_A_LOOK_MS
from onceward.store.op import Many, Op, Query

MOST_TURNS = 200
"""How many turns one claim looks at."""
ALL_TURNS = 5_000
"""How many it gathers: everybody who stands in a line has brought one."""

TOLD_EVERY_MS = 1_000
"""How often it is noted that a healthy source is still healthy, where nobody passes it."""

_TURN, _HEAD = 0, 1
"""What a row of a look is about; the others are about gates."""
_LINES = 30
"""Where the row of `pop_and_lease` that is no lease tells of the lines."""


def look(reader: Reader, room: int, now: int) -> Op[Governed]:
    """Look at the governed lines whose turn it is. Their gates are locked from here on, if any of them is to be served.

    A worker that has no room locks nothing: it learns what it could take, and leaves the rest to others. Unless there
    is a door to be found closed, or nobody behind one; somebody has to.
    """
    may_lock = room > 0 or not reader.sweeps
    governed = yield from _look(reader, room, now, locks=may_lock)
    if not may_lock and any(lane.head is NOBODY or not lane.count for lane in governed.lanes):
        governed = yield from _look(reader, room, now, locks=True)
    return governed


def _look(reader: Reader, room: int, now: int, *, locks: bool) -> Op[Governed]:
    limit = min(MOST_TURNS, 16 + room)
    most = max(1, room)
    seen = [
        (line, place) for line in (reader.governed if reader.sweeps else ()) if (place := reader.start(line)) != START
    ]
    places = {
        "seen_lanes": [lane for (lane, _), _ in seen],
        "seen_bands": [band for (_, band), _ in seen],
        "seen_ranks": [rank for _, (rank, _) in seen],
        "seen_seqs": [seq for _, (_, seq) in seen],
    }
    asked = {"lines": list(reader.open_lanes), "now": now, "count": limit, "all_turns": ALL_TURNS, "most": most}
    found = yield Query("due_turns", {**asked, **places, "locks": locks})
    lanes: dict[str, Lane] = {}
    heads: dict[str, list[Head]] = {}
    states: dict[str, GateState] = {}
    turns = 0
    for what, name, line, *numbers in found:
        if what == _TURN:
            known = lanes.get(name)
            if known is None:
                known = lanes[name] = Lane(name, line, read_gates(name[len(line) + 1 :]))
                if reader.sweeps:
                    known.is_whole = all(reader.start(band) <= reader.floor.get(band, START) for band in _bands(name))
            known.turns.add(numbers[0])
            turns += 1
            if numbers[1] <= now:
                known.due_turn = numbers[0]
        elif what == _HEAD:
            band, at, standing, task, rank, seq = numbers[:6]
            first = None if task is None else Popped([task], (rank, seq), at)
            heads.setdefault(name, []).append(Head(aged(reader.since((name, band), at), band), band, standing, first))
        else:
            states[name] = GateState.stored(*numbers)
    names = {gate.name for lane in lanes.values() for gate in lane.gates}
    if locks:
        states |= yield from _lock(sorted(names - states.keys()))
    else:
        states |= {name: GateState() for name in names - states.keys()}  # they are made when somebody passes them
    mine = [lane for lane in lanes.values() if all(gate.name in states for gate in lane.gates)]
    governed = Governed(reader, now, mine, states, has_all=turns < limit, most=most, is_locked=locks)
    if locks:
        yield from _set_back(governed)
    yield from _look_inside(governed)
    governed.order(heads)
    return governed


def _bands(lane: str) -> list[Line]:
    return [(lane, band) for band in BANDS]


def look_at_one(reader: Reader, busy: BusyLane, room: int, now: int) -> Op[Governed]:
    """Ask the gates of one line again, of which it is known that many stand there. Its turns stay as they are.

    Where nobody else is likely to have passed them they are not even locked: whoever pops says what it takes for
    granted, and gets nothing if it has changed.
    """
    lane = Lane(busy.lane, busy.line, read_gates(busy.lane[len(busy.line) + 1 :]))
    lane.head, lane.has_others = Head(0, busy.band, room), True
    if busy.is_compared and room and not reader.pauses:
        governed = Governed(reader, now, [lane], dict(busy.states), most=room, is_remembered=True)
        if not any(governed.counts(name) for name in governed.states):
            governed.allow(lane)
            if lane.count:
                return governed
    states = yield from _lock(sorted({gate.name for gate in lane.gates}))
    mine = [lane] if all(gate.name in states for gate in lane.gates) else []
    governed = Governed(reader, now, mine, states, most=max(1, room))
    yield from _set_back(governed)
    yield from _hear(governed)
    yield from _look_inside(governed)
    if mine:
        governed.allow(lane)
    return governed


def tell(reader: Reader, now: int) -> Op[None]:
    """Tell the gates that a claim was to tell on the way, and does not pass."""
    if reader.glad:
        yield Query("tell_success", {"gates": sorted(reader.glad), "now": now, "before": now - TOLD_EVERY_MS})
        reader.glad.clear()


def _hear(governed: Governed) -> Op[None]:
    """Gates that were not well are told at once that they are; the others when somebody passes them."""
    well = {name for name in governed.reader.glad if name in governed.states and governed.states[name].is_well}
    if governed.reader.glad == well:
        return
    for name in governed.states.keys() & governed.reader.glad - well:
        state = after_outcomes(None, governed.states[name], (True,), governed.now)
        governed.states[name] = governed.stored[name] = state
    yield from tell(governed.reader, governed.now)


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
        if (limits := governed.limits[name]).has_slots
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


def pop(governed: Governed, leasing: Leasing, room: int, before: int | None = None) -> Op[list[Passage]]:
    """Take as many as may pass from the lines whose first one stands there since before a time; without one, from the
    others, after whoever stands elsewhere for longer."""
    wanted: list[tuple[Lane, int]] = []
    governed.held_back = 0
    for lane in governed.lanes:
        if lane.popped or lane.head.since >= (NEVER if before is None else before):
            continue
        governed.allow_again(lane)
        if not lane.count:
            continue
        if room <= 0:
            governed.held_back += lane.count
            lane.is_next = lane.is_next or before is not None
            continue
        many = min(room, lane.count, lane.head.standing)
        room -= many
        governed.take(lane, many)
        wanted.append((lane, many))
    if not wanted:
        return []
    found = yield from _pop(governed, wanted, leasing)
    for lane, many in wanted:
        here = found.get(lane.name)
        if here is not None:
            lane.popped = here.tasks
            leasing.passed.update(dict.fromkeys(here.tasks, lane.name[len(lane.line) + 1 :]))
            yield from _remember(governed, (lane.name, lane.head.band), here)
        if len(lane.popped) < many:
            governed.take(lane, len(lane.popped) - many)
        standing = lane.head.standing
        lane.has_others = lane.has_others or len(lane.popped) < standing or standing == governed.most
    return [Passage(lane.gates, lane.popped) for lane, _ in wanted]


def _remember(governed: Governed, line: Line, popped: Popped) -> Op[None]:
    """How far a line was taken from: for the next look, and for those who stand in it later."""
    reader = governed.reader
    reader.stood_at = max(reader.stood_at, popped.at)
    reader.popped_from.append(line)
    reader.took_governed(line, popped.last, governed.now)
    if popped.last[0] > 0:
        yield from mark(reader, line, popped.last[0], governed.now, renews=True)


def _pop(governed: Governed, wanted: Sequence[tuple[Lane, int]], leasing: Leasing) -> Op[dict[str, Popped]]:
    """Pop from lines, each as many as are wanted."""
    found = (yield from _pop_and_lease(governed, wanted, leasing)) if governed.reader.sweeps else None
    if found is not None:
        return found
    if governed.is_remembered:
        governed.is_stale = True
        return {}
    return (yield from _pop_alone(wanted))


def _pop_and_lease(
    governed: Governed, wanted: Sequence[tuple[Lane, int]], leasing: Leasing
) -> Op[dict[str, Popped] | None]:
    """Pop from lines in the statement that takes the tokens from their gates, if these are as we know them; it leases
    who was popped if nothing has to be set aside first. None if nothing was done."""
    lines = [(lane.name, lane.head.band) for lane, _ in wanted]
    names = sorted(governed.taken)
    starts = [governed.reader.start(line) for line in lines]
    leases = not any(has_budget(lane.gates) for lane, _ in wanted)
    rows = yield Query(
        "pop_and_lease",
        {
            "lanes": [name for name, _ in lines],
            "bands": [band for _, band in lines],
            "counts": [many for _, many in wanted],
            "ranks": [rank for rank, _ in starts],
            "seqs": [seq for _, seq in starts],
            "names": names,
            "tats": [governed.states[name].tat for name in names],
            "calls": [governed.taken[name] for name in names],
            "known": [governed.stored[name].in_words for name in names],
            "glad": sorted(governed.reader.glad),
            "worker": leasing.worker if leases else None,
            "token": leasing.token,
            "now": governed.now,
        },
    )
    if not rows:
        return None
    governed.compares = True
    governed.taken.clear()
    governed.reader.glad.clear()
    governed.stored |= {name: governed.states[name] for name in names}
    leasing.rows += [row for row in rows if row[0] is not None]
    [told] = [row[_LINES] for row in rows if row[0] is None]
    found = {lane: Popped(tasks, (rank, seq), at) for lane, tasks, rank, seq, at in msgspec.json.decode(told)}
    if leases:
        leasing.tried += [task for popped in found.values() for task in popped.tasks]
    return found


def _pop_alone(wanted: Sequence[tuple[Lane, int]]) -> Op[dict[str, Popped]]:
    """Pop where nobody else can meanwhile: whoever is first is known if the line was looked at."""
    found: dict[str, Popped] = {}
    places = []
    for lane, many in wanted:
        _, band, _, first = lane.head
        if many == 1 and first is not None:
            found[lane.name] = first
            places.append((lane.name, band, *first.last))
            continue
        rows = yield Query("pop_governed", {"lane": lane.name, "band": band, "count": many})
        if rows:
            tasks, ranks, seqs, times = zip(*rows, strict=True)
            yield Query("popped", {"lane": lane.name, "band": band, "rank": ranks[-1], "seq": seqs[-1]})
            found[lane.name] = Popped(list(tasks), (ranks[-1], seqs[-1]), max(times))
    if places:
        yield Query("popped_first", {"places": places})
    return found


def settle(governed: Governed, passages: Sequence[Passage], leases: Sequence[Lease]) -> Op[set[int]]:
    """Write down what has passed: tokens, places inside, and when each line is to be looked at again. Returns the tasks
    that have places."""
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
    for lane in governed.lanes if governed.is_locked else ():
        if not lane.turns:
            continue  # they were not looked at, and stay
        if lane.head is NOBODY or (lane.popped and not lane.has_others):
            if lane.is_whole:
                continue  # nobody stands there any more; whoever comes brings a turn
            governed.reader.rewind(_bands(lane.name))
        governed.allow_again(lane)
        if lane.count and (governed.has_all or lane.is_next):
            lane.turns.remove(lane.due_turn)  # it is its turn still
            governed.turn_stays = True
        else:  # also where others wait for theirs: it goes behind them
            left.append((lane.line, lane.name, lane.waits_for, governed.now if lane.count else lane.again_at))
    glad = governed.reader.glad
    taken = [
        (name, governed.states[name].tat, taken, governed.now if name in glad else None)
        for name, taken in sorted(governed.taken.items())
    ]
    glad.difference_update(governed.taken)
    seqs = sorted(seq for lane in governed.lanes for seq in lane.turns) if governed.is_locked else []
    if seqs or left:
        yield from _write_down(taken, seqs, left, governed.now)
    elif taken:
        yield Many("take_from_gates", taken, (governed.now,))
    yield from tell(governed.reader, governed.now)
    return {task for _, task, *_ in slots}


def _write_down(
    taken: list[tuple[str, int, int, int | None]],
    seqs: list[int],
    left: list[tuple[str, str, str, int]],
    now: int,
) -> Op[None]:
    """Take tokens from gates, end turns and leave others, in one statement where the database can."""
    names, tats, calls, glad = ([row[place] for row in taken] for place in range(4))
    lines, lanes, gates, times = ([row[place] for row in left] for place in range(4))
    change = {"names": names, "tats": tats, "calls": calls, "glad": glad, "seqs": seqs, "now": now}
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
        lane = Lane("", "", some, again_at=now + LOOK_AGAIN_MS)
        if all(gate.name in states for gate in some):  # another claim has locked it otherwise
            governed.allow(lane)
        if lane.count:
            governed.take(lane, 1)
            passages.append(Passage(some, [task]))
        else:
            _, queue, kind, band, company, _ = facing[task]
            due_at = min(max(lane.again_at, now + 1), now + LONGEST_WITHOUT_A_LOOK_MS)
            later.append((due_at, task, lane_of(queue, kind, suspect=True), band, company))
    if later:
        yield Many("wait_until_due", later)
    turned_away = {row[1] for row in later}
    return Admitted([task for task in tasks if task not in turned_away], governed, passages)
