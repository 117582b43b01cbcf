"""Gates: the claim takes only what the outside can serve now.

Governed work stands in a line of its own for each set of gates it has to pass. A turn says when such a line is to be
looked at; whoever stands in it appends one, in the same transaction. The claim takes the turns that are due, locks the
gates of their lines (those that another claim has locked are served by it), asks each how many may pass, and leaves one
turn behind: for when the next may. So a closed door costs nothing until it may open, however many wait behind it.

Turns and their lines are looked at in the same moment: nobody who stood there when the turns were read is overlooked,
and whoever comes later brings a turn that is not taken away. Only who holds all gates of a line takes from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onceward.model.gates import BUDGET, Gate, Told, read_gates
from onceward.model.pause import NO_PAUSES, Pauses
from onceward.model.source import (
    LOOK_AGAIN_MS,
    Allowance,
    GateLimits,
    GateState,
    NotYet,
    after_outcomes,
    after_taking,
    allowance,
)
from onceward.model.task import BAND_BONUS_MS, NEVER, Lease, lane_of
from onceward.store.op import Many, Op, Query, Rows
from onceward.store.pauses import held_gates, read_pauses

MOST_TURNS = 200
"""How many turns one claim looks at."""
LONGEST_WITHOUT_A_LOOK_MS = 60_000
"""After how long a suspect behind a gate that does not say when it opens is looked at again."""
TOLD_EVERY_MS = 1_000
"""How often it is noted that a healthy source is still healthy."""

_TURN, _HEAD = 0, 1
"""What a row of a look is about; the others are about gates."""

LimitsOf = Callable[[str], GateLimits]
"""What a gate lets through, by its name."""


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


class Passage(NamedTuple):
    """Tasks that were popped from a governed line, and the gates they pass."""

    gates: list[Gate]
    tasks: list[int]


class BusyLane(NamedTuple):
    """A governed line that gave all that was asked for, and the band that did."""

    line: str
    lane: str
    band: int


@dataclass(slots=True)
class Governed:
    """What a claim knows of the governed lines: those that can be served now, oldest first."""

    now: int
    limits_of: LimitsOf
    lanes: list[_Lane]
    states: dict[str, GateState]
    inside: dict[str, int]
    probes: dict[str, int]
    has_all: bool = False
    """Whether every line whose turn it is was looked at."""
    most: int = 0
    """How many there was room for at first; nobody has counted further in any line."""
    taken: Counter[str] = field(default_factory=Counter)
    """How many tokens were taken from each gate, and are not written down yet."""
    passed: Counter[str] = field(default_factory=Counter)
    held: frozenset[str] = frozenset()
    """The gates that an operator has paused."""
    marks: list[tuple[str, int, int, int]] = field(default_factory=list)
    """How far lines were taken from, for those who stand in them later."""
    held_back: int = 0
    """How many could have been taken if the worker had had room for them."""

    def busy_lane(self, count: int) -> BusyLane | None:
        """The line that has given so many by itself, if one has."""
        for lane in self.lanes:
            if len(lane.popped) == count and lane.band is not None:
                return BusyLane(lane.line, lane.name, lane.band)
        return None


def look(lines: Sequence[str], limits_of: LimitsOf, room: int, now: int, pauses: Pauses = NO_PAUSES) -> Op[Governed]:
    """Look at the governed lines whose turn it is. Their gates are locked from here on."""
    limit = min(MOST_TURNS, 16 + 2 * room)
    most = max(1, room)
    found = yield Query("due_turns", {"lines": list(lines), "now": now, "count": limit, "most": most})
    lanes: dict[str, _Lane] = {}
    heads: list[tuple[str, int, int, int]] = []
    states: dict[str, GateState] = {}
    for what, name, line, *numbers in found:
        if what == _TURN:
            known = lanes.get(name)
            if known is None:
                known = lanes[name] = _Lane(name, line, read_gates(name[len(line) + 1 :]))
            known.turns.add(numbers[0])
            if numbers[1] <= now:
                known.due_turn = numbers[0]
        elif what == _HEAD:
            heads.append((name, *numbers[:3]))
        else:
            states[name] = _state(*numbers)
    names = {gate.name for lane in lanes.values() for gate in lane.gates}
    states |= yield from _lock(sorted(names - states.keys()))
    mine = [lane for lane in lanes.values() if all(gate.name in states for gate in lane.gates)]
    turns = sum(len(lane.turns) for lane in lanes.values())
    governed = Governed(now, limits_of, mine, states, {}, {}, has_all=turns < limit, most=most)
    yield from _look_inside(governed, pauses)
    _order(governed, heads)
    return governed


def look_at_one(busy: BusyLane, limits_of: LimitsOf, room: int, now: int, pauses: Pauses) -> Op[Governed]:
    """Ask the gates of one line again, of which it is known that many stand there. Its turns stay as they are."""
    lane = _Lane(busy.lane, busy.line, read_gates(busy.lane[len(busy.line) + 1 :]))
    lane.band, lane.head_at, lane.standing, lane.has_others = busy.band, 0, room, True
    states = yield from _lock(sorted({gate.name for gate in lane.gates}))
    mine = [lane] if all(gate.name in states for gate in lane.gates) else []
    governed = Governed(now, limits_of, mine, states, {}, {}, most=max(1, room))
    yield from _look_inside(governed, pauses)
    return governed


def _look_inside(governed: Governed, pauses: Pauses) -> Op[None]:
    """Who is inside the gates that are locked, and which of them an operator has paused."""
    if pauses:
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
    return {name: _state(*rest) for name, *rest in rows}


def _state(tat: int, enabled: int, streak: int, paused_until: int, is_half_open: int, opened: int) -> GateState:
    return GateState(tat, bool(enabled), streak, paused_until, bool(is_half_open), opened)


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
    found: dict[str, list[tuple[int, int, int]]] = {}
    for name, rank, seq, task in (yield from _pop(governed, wanted)):
        found.setdefault(name, []).append((rank, seq, task))
    for lane, many in wanted:
        in_order = sorted(found.get(lane.name, []))
        lane.popped = [task for _, _, task in in_order]
        if len(in_order) < many:
            _take(governed, lane, len(in_order) - many)
        if in_order and in_order[-1][0] > 0:
            governed.marks.append((lane.name, lane.band or 0, in_order[-1][0], governed.now))
        lane.has_others = lane.has_others or len(lane.popped) < lane.standing or lane.standing == governed.most
    return [Passage(lane.gates, lane.popped) for lane, _ in wanted]


def _pop(governed: Governed, wanted: Sequence[tuple[_Lane, int]]) -> Op[Rows]:
    """Pop from lines, and take the tokens from their gates in the same statement where the database can."""
    places = [(lane.name, lane.band, many) for lane, many in wanted]
    lanes, bands, counts = ([row[place] for row in places] for place in range(3))
    names = sorted(governed.taken)
    tats, calls = [governed.states[name].tat for name in names], [governed.taken[name] for name in names]
    line = {"lanes": lanes, "bands": bands, "counts": counts}
    rows = yield Query("pop_and_take", {**line, "names": names, "tats": tats, "calls": calls})
    if rows:  # one of them is nothing, and says that it was done
        governed.taken.clear()
        return [row for row in rows if row[0] is not None]
    return (yield Many("pop_governed", places))


def _take(governed: Governed, lane: _Lane, many: int) -> None:
    for gate in lane.gates:
        name, state = gate.name, governed.states[gate.name]
        tokens = many * gate.tokens
        tat = after_taking(governed.limits_of(name), state.tat, tokens, governed.now) if tokens else state.tat
        governed.states[name] = GateState(
            tat, state.enabled, state.streak, state.paused_until, state.is_half_open, state.opened
        )
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
            tat = state.tat - gone * tokens * interval_us
            governed.states[name] = GateState(
                tat, state.enabled, state.streak, state.paused_until, state.is_half_open, state.opened
            )
            governed.taken[name] -= gone * tokens
            governed.passed[name] -= gone
        left.append(Passage(passage.gates, [task for task in passage.tasks if task not in tasks]))
    return left


def settle(governed: Governed, passages: Sequence[Passage], leases: Sequence[Lease]) -> Op[None]:
    """Write down what has passed: tokens, places inside, and when each line is to be looked at again."""
    by_task = {lease.task: lease for lease in leases}
    slots = [
        (gate.name, task, by_task[task].token, int(governed.states[gate.name].is_probing(governed.now)), governed.now)
        for passage in passages
        for gate in passage.gates
        if _counts(governed, gate.name)
        for task in passage.tasks
        if task in by_task
    ]
    if slots:
        yield Many("insert_slots", sorted(slots))
    if governed.marks:
        yield Many("insert_marks", sorted(governed.marks))
    left: list[tuple[str, str, str, int]] = []
    for lane in governed.lanes:
        if not lane.turns:
            continue  # they were not looked at, and stay
        if lane.band is None or (lane.popped and not lane.has_others):
            continue  # nobody stands there any more; whoever comes brings a turn
        _allow(governed, lane)
        if lane.count and governed.has_all:
            lane.turns.remove(lane.due_turn)  # it is its turn still
        else:  # also where others wait for theirs: it goes behind them
            left.append((lane.line, lane.name, lane.waits_for, governed.now if lane.count else lane.again_at))
    taken = [(name, governed.states[name].tat, taken) for name, taken in sorted(governed.taken.items())]
    seqs = sorted(seq for lane in governed.lanes for seq in lane.turns)
    if seqs or left:
        yield from _write_down(taken, seqs, left)
    elif taken:
        yield Many("take_from_gates", taken)


def _write_down(taken: list[tuple[str, int, int]], seqs: list[int], left: list[tuple[str, str, str, int]]) -> Op[None]:
    """Take tokens from gates, end turns and leave others, in one statement where the database can."""
    names, tats, calls = ([row[place] for row in taken] for place in range(3))
    lines, lanes, gates, times = ([row[place] for row in left] for place in range(4))
    change = {"names": names, "tats": tats, "calls": calls, "seqs": seqs}
    is_done = yield Query("settle_gates", {**change, "lines": lines, "lanes": lanes, "gates": gates, "times": times})
    if is_done:
        return
    if taken:
        yield Many("take_from_gates", taken)
    if left:
        yield Many("insert_turns", left)


def _counts(governed: Governed, gate: str) -> bool:
    return governed.limits_of(gate).has_slots or governed.states[gate].is_probing(governed.now)


class Admitted(NamedTuple):
    """Who of some tasks may pass all gates before them, and what `settle` needs to know of that."""

    tasks: list[int]
    governed: Governed
    passages: list[Passage]


def admit(tasks: Sequence[int], limits_of: LimitsOf, now: int, pauses: Pauses) -> Op[Admitted]:
    """Ask the gates of suspects, who stand in a line of their own whatever those are. Whom they do not let pass is back
    when they may."""
    states: dict[str, GateState] = {}
    facing = {row[0]: row for row in (yield Query("gates_of_tasks", {"ids": list(tasks)}))} if tasks else {}
    gates = {task: read_gates(row[-1]) for task, row in facing.items()}
    if gates:
        states = yield from _lock(sorted({gate.name for some in gates.values() for gate in some}))
    governed = Governed(now, limits_of, [], states, {}, {})
    yield from _look_inside(governed, pauses)
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


def take(lease: Lease, gate: str, limits: GateLimits, tokens: int, now: int) -> Op[NotYet | None]:
    """Let a task that runs already pass a gate, for one outside call; or say when that may be."""
    if (yield from read_pauses()).of_gate(gate) is not None:
        return NotYet(gate, NEVER)
    yield Many("insert_gates", [(gate,)])
    [(_, *row)] = yield Query("hold_gate", {"gate": gate})
    state = _state(*row)
    inside = probes = 0
    if limits.has_slots or state.is_probing(now):
        if rows := (yield Query("inside_gates", {"names": [gate]})):
            [(_, inside, probes)] = rows
        if (yield Query("is_inside", {"gate": gate, "task": lease.task, "token": lease.token})):
            inside, probes = inside - 1, 0  # its own place is not in its way
    allowed = allowance(limits, state, inside, probes, tokens, now)
    if not allowed.count:
        return NotYet(gate, allowed.again_at)
    yield Many("take_from_gates", [(gate, after_taking(limits, state.tat, tokens, now), tokens)])
    if limits.has_slots or state.is_probing(now):
        yield Many("insert_slots", [(gate, lease.task, lease.token, int(state.is_probing(now)), now)])
    return None


def leave(left: Sequence[tuple[Lease, tuple[Told, ...]]], now: int) -> Op[None]:
    """Stages that had passed gates have ended: they make room, and say how their sources have served them."""
    tasks = sorted(lease.task for lease, _ in left)
    freed = sorted({row[0] for row in (yield Query("leave_gates", {"ids": tasks}))})
    if freed:
        yield Query("wake_turns", {"gates": freed, "now": now})
    told: dict[str, list[Told]] = {}
    for _, all_of_it in left:
        for one in all_of_it:
            if one.says_something:
                told.setdefault(one.gate, []).append(one)
    healthy = sorted(gate for gate, all_told in told.items() if all(one.is_plain_success for one in all_told))
    if healthy:
        yield Query("tell_success", {"gates": healthy, "now": now, "before": now - TOLD_EVERY_MS})
    for gate, all_told in sorted(told.items()):
        if gate not in healthy:
            yield from _tell(gate, all_told, now)


def _tell(gate: str, all_told: Sequence[Told], now: int) -> Op[None]:
    """What one gate hears of the calls through it."""
    rows = yield Query("hold_gate", {"gate": gate})
    if not rows:
        return
    state = _state(*rows[0][1:])
    outcomes = [outcome for one in all_told for outcome in one.outcomes]
    breaker = next((one.breaker for one in all_told), None)
    after = after_outcomes(breaker, state, outcomes, now)
    asked_until = max((now + one.pause_ms for one in all_told if one.pause_ms is not None), default=0)
    failures = outcomes.count(False)
    error = next((one.error for one in reversed(all_told) if one.error is not None), None)
    unused_us = sum(one.unused_us for one in all_told)
    if unused_us:  # whoever waits for tokens may pass earlier than was thought
        yield Query("wake_turns", {"gates": [gate], "now": now})
    opened = after.opened > state.opened
    why = None
    if not after.enabled:
        why = f"disabled after {_in_a_row(after.streak)}"
    elif opened:
        why = f"paused after {_in_a_row(after.streak)}"
    elif asked_until > after.paused_until:
        why = "it asked us to wait"
    yield Query(
        "change_gate",
        {
            "gate": gate,
            "tat": state.tat - unused_us,
            "enabled": int(after.enabled),
            "streak": after.streak,
            "paused_until": max(after.paused_until, asked_until),
            "is_half_open": int(after.is_half_open),
            "opened": after.opened,
            "why": why,
            "failures": failures,
            "last_success_at": now if True in outcomes else None,
            "last_failure_at": now if failures else None,
            "last_error": error,
        },
    )


def _in_a_row(streak: int) -> str:
    return f"{streak} failures in a row" if streak != 1 else "a failure"
