"""The claim takes only governed tasks whose gates let them pass now (decision 26).

Each set of gates has a governed line of its own. A turn says when a claim is to look at that line; a transaction that
puts a task there appends a turn. The claim reads the turns that are due, locks the gates of their lines (skipping gates
that another claim has locked, which serves their lines), computes how many tasks may pass each, and leaves one turn:
the time at which the next task may pass. So a closed gate costs nothing until then, however many tasks wait behind it.

One statement reads turns and lines, so the claim overlooks no task that stood there; a later task brings a turn of its
own, which stays. A line that seems empty after the last place seen is looked at once more, from where no row can be
behind, before its turns end. Only a claim that holds all gates of a line pops from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from onceward.model.gates import read_gates
from onceward.model.source import LOOK_AGAIN_MS, GateState
from onceward.model.task import NEVER, Lease, lane_of
from onceward.store.governance.gate_plan import (
    NO_HEAD,
    BandHead,
    GatePlan,
    GovernedLine,
    Leasing,
    Passage,
    Popped,
    aged,
    has_budget,
)
from onceward.store.lines.memory import BANDS, START, Line, LineMemory, mark
from onceward.store.lines.pause_scopes import held_gates
from onceward.store.lines.turns import LONGEST_WITHOUT_A_LOOK_MS
from onceward.store.op import Many, Op, Query

MOST_TURNS = 200
"""How many turns one claim looks at."""
ALL_TURNS = 5_000
"""How many turns one claim ends: each task in a line has brought one."""

_TURN, _HEAD = 0, 1
"""The kinds of rows of a look; other rows are gates."""


def look(memory: LineMemory, room: int, now: int) -> Op[GatePlan]:
    """Look at the governed lines with due turns, and lock their gates if the worker has room.

    A worker without room locks nothing: it learns what it could take. Where a line is empty or its gate closed it
    locks all the same, because its turn must move on.
    """
    may_lock = room > 0 or not memory.sweeps
    plan = yield from _look(memory, room, now, locks=may_lock)
    if not may_lock and any(lane.head is NO_HEAD or not lane.count for lane in plan.lanes):
        plan = yield from _look(memory, room, now, locks=True)
    return plan


def _look(memory: LineMemory, room: int, now: int, *, locks: bool) -> Op[GatePlan]:
    limit = min(MOST_TURNS, 16 + room)
    most = max(1, room)
    seen = [
        (line, place)
        for line in (memory.places.governed if memory.sweeps else ())
        if (place := memory.places.start(line)) != START
    ]
    places = {
        "seen_lanes": [lane for (lane, _), _ in seen],
        "seen_bands": [band for (_, band), _ in seen],
        "seen_ranks": [rank for _, (rank, _) in seen],
        "seen_seqs": [seq for _, (_, seq) in seen],
    }
    wanted = {"lines": list(memory.open_lanes), "now": now, "count": limit, "all_turns": ALL_TURNS, "most": most}
    rows = yield Query("due_turns", {**wanted, **places, "locks": locks})
    lanes: dict[str, GovernedLine] = {}
    heads: dict[str, list[BandHead]] = {}
    states: dict[str, GateState] = {}
    turns = 0
    for what, name, line, *numbers in rows:
        if what == _TURN:
            known = lanes.get(name)
            if known is None:
                known = lanes[name] = GovernedLine(name, line, read_gates(name[len(line) + 1 :]))
                if memory.sweeps:
                    known.is_whole = all(
                        memory.places.start(band) <= memory.places.floor.get(band, START) for band in _bands(name)
                    )
            known.turns.add(numbers[0])
            turns += 1
            if numbers[1] <= now:
                known.due_turn = numbers[0]
        elif what == _HEAD:
            band, at, standing, task, rank, seq, *_ = numbers
            first = None if task is None else Popped([task], (rank, seq), at)
            heads.setdefault(name, []).append(
                BandHead(aged(memory.places.since((name, band), at), band), band, standing, first)
            )
        else:
            states[name] = GateState.stored(*numbers)
    names = {gate.name for lane in lanes.values() for gate in lane.gates}
    if locks:
        states |= yield from _lock(sorted(names - states.keys()))
    else:
        states |= {name: GateState() for name in names - states.keys()}  # gates are inserted when a task passes them
    mine = [lane for lane in lanes.values() if all(gate.name in states for gate in lane.gates)]
    plan = GatePlan(memory, now, mine, states, has_all=turns < limit, most=most, is_locked=locks)
    if locks:
        yield from _correct_clocks(plan)
    yield from _look_inside(plan)
    plan.order(heads)
    return plan


def _bands(lane: str) -> list[Line]:
    return [(lane, band) for band in BANDS]


def _correct_clocks(plan: GatePlan) -> Op[None]:
    for name, state in list(plan.states.items()):
        plan.states[name] = yield from correct_gate_clock(name, state, plan.now)


def correct_gate_clock(gate: str, stored: GateState, now: int) -> Op[GateState]:
    """The state of a locked gate by the present clock; if that was set back, write the corrected times."""
    state = stored.as_of(now)
    if state is not stored:
        yield Query("set_gate_back", {"gate": gate, "tat": state.tat, "paused_until": state.paused_until, "now": now})
    return state


def _look_inside(plan: GatePlan) -> Op[None]:
    """Count the tasks inside the gates of a plan, and read which gates are paused."""
    if plan.memory.pauses.scopes:
        plan.held = yield from held_gates(plan.memory.pauses, sorted(plan.states))
    counted = [
        name
        for name, state in plan.states.items()
        if (limits := plan.limits[name]).has_slots or (state.is_probing(plan.now) and limits.breaker is not None)
    ]
    if counted:
        for gate, inside, probes in (yield Query("inside_gates", {"names": counted})):
            plan.inside[gate], plan.probes[gate] = inside, probes


def _lock(names: Sequence[str]) -> Op[dict[str, GateState]]:
    """Lock gates, skipping those that another transaction has locked; missing gates are inserted."""
    if not names:
        return {}
    rows = yield Query("lock_gates", {"names": list(names)})
    if len(rows) < len(names):
        known = {row[0] for row in (yield Query("known_gates", {"names": list(names)}))}
        if new := sorted(set(names) - known):
            yield Many("insert_gates", [(name,) for name in new])
            rows = [*rows, *(yield Query("lock_gates", {"names": new}))]
    return {name: GateState.stored(*rest) for name, *rest in rows}


def pop(plan: GatePlan, leasing: Leasing, room: int, before: int | None = None) -> Op[list[Passage]]:
    """Pop as many tasks as may pass from lines whose head is older than `before`.

    Without `before` pop from the rest, after older tasks of other lines were popped.
    """
    wanted: list[tuple[GovernedLine, int]] = []
    plan.held_back = 0
    for lane in plan.lanes:
        if lane.popped or lane.head.since >= (NEVER if before is None else before):
            continue
        plan.allow_again(lane)
        if not lane.count:
            continue
        if room <= 0:
            plan.held_back += lane.count
            lane.is_next = lane.is_next or before is not None
            continue
        many = min(room, lane.count, lane.head.standing)
        room -= many
        plan.take(lane, many)
        wanted.append((lane, many))
    if not wanted:
        return []
    popped_by_lane = yield from _pop(plan, wanted, leasing)
    for lane, many in wanted:
        popped = popped_by_lane.get(lane.name)
        if popped is not None:
            lane.popped = popped.tasks
            leasing.passed.update(dict.fromkeys(popped.tasks, lane.name[len(lane.line) + 1 :]))
            yield from _remember(plan, (lane.name, lane.head.band), popped)
        if len(lane.popped) < many:
            plan.take(lane, len(lane.popped) - many)
        standing = lane.head.standing
        lane.has_others = lane.has_others or len(lane.popped) < standing or standing == plan.most
    return [Passage(lane.gates, lane.popped) for lane, _ in wanted]


def _remember(plan: GatePlan, line: Line, popped: Popped) -> Op[None]:
    """Remember how far a line was popped, for the next look; mark it, for later tasks."""
    memory = plan.memory
    memory.claim.stood_at = max(memory.claim.stood_at, popped.at)
    memory.claim.popped_from.append(line)
    memory.places.took_governed(line, popped.last, plan.now)
    if popped.last[0] > 0:
        yield from mark(memory, line, popped.last[0], plan.now, renews=True)


def _pop(plan: GatePlan, wanted: Sequence[tuple[GovernedLine, int]], leasing: Leasing) -> Op[dict[str, Popped]]:
    """Pop the wanted number of tasks from each line."""
    if plan.memory.sweeps:
        return (yield from _pop_and_lease(plan, wanted, leasing))
    return (yield from _pop_alone(wanted))


def _pop_and_lease(
    plan: GatePlan, wanted: Sequence[tuple[GovernedLine, int]], leasing: Leasing
) -> Op[dict[str, Popped]]:
    """Pop from lines and take the tokens from their locked gates in one statement.

    It also leases the popped tasks, unless budgets must be set aside first.
    """
    lines = [(lane.name, lane.head.band) for lane, _ in wanted]
    names = sorted(plan.taken)
    starts = [plan.memory.places.start(line) for line in lines]
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
            "tats": [plan.states[name].tat for name in names],
            "calls": [plan.taken[name] for name in names],
            "worker": leasing.worker if leases else None,
            "token": leasing.token,
            "now": plan.now,
        },
    )
    plan.taken.clear()
    leasing.rows += [row for row in rows if row[0] is not None]
    [summary] = [row[-1] for row in rows if row[0] is None]  # the row without the number of a claim describes the lines
    popped_by_lane = {
        lane: Popped(tasks, (rank, seq), at) for lane, tasks, rank, seq, at in msgspec.json.decode(summary)
    }
    if leases:
        leasing.tried += [task for popped in popped_by_lane.values() for task in popped.tasks]
    return popped_by_lane


def _pop_alone(wanted: Sequence[tuple[GovernedLine, int]]) -> Op[dict[str, Popped]]:
    """Pop on SQLite, where no other claim can pop meanwhile; a head that was looked at is known already."""
    popped_by_lane: dict[str, Popped] = {}
    places = []
    for lane, many in wanted:
        _, band, _, first = lane.head
        if many == 1 and first is not None:
            popped_by_lane[lane.name] = first
            places.append((lane.name, band, *first.last))
            continue
        rows = yield Query("pop_governed", {"lane": lane.name, "band": band, "count": many})
        if rows:
            tasks, ranks, seqs, times = zip(*rows, strict=True)
            yield Query("drop_popped", {"lane": lane.name, "band": band, "rank": ranks[-1], "seq": seqs[-1]})
            popped_by_lane[lane.name] = Popped(list(tasks), (ranks[-1], seqs[-1]), max(times))
    if places:
        yield Query("drop_popped_heads", {"places": places})
    return popped_by_lane


def settle(plan: GatePlan, passages: Sequence[Passage], leases: Sequence[Lease]) -> Op[set[int]]:
    """Write the outcome of a plan: tokens, slots, and the next turn of each line; returns the tasks with slots."""
    tokens: dict[int, bytes] = {}
    slots = []
    for passage in passages:
        for name in (gate.name for gate in passage.gates if plan.counts(gate.name)):
            tokens = tokens or {lease.task: lease.token for lease in leases}
            probes = int(plan.states[name].is_probing(plan.now))
            slots += [(name, task, tokens[task], probes, plan.now) for task in passage.tasks if task in tokens]
    if slots:
        yield Many("insert_slots", sorted(slots))
    left: list[tuple[str, str, str, int]] = []
    for lane in plan.lanes if plan.is_locked else ():
        if not lane.turns:
            continue  # its turns were not read, and stay
        if lane.head is NO_HEAD or (lane.popped and not lane.has_others):
            if lane.is_whole:
                continue  # the line is empty; the next task brings a turn
            plan.memory.places.rewind(_bands(lane.name))
        plan.allow_again(lane)
        if lane.count and (plan.has_all or lane.is_next):
            lane.turns.remove(lane.due_turn)  # the turn stays due
            plan.turn_stays = True
        else:  # also where other lines wait for their turns: this one goes behind them
            left.append((lane.line, lane.name, lane.waits_for, plan.now if lane.count else lane.again_at))
    taken = [(name, plan.states[name].tat, taken) for name, taken in sorted(plan.taken.items())]
    seqs = sorted(seq for lane in plan.lanes for seq in lane.turns) if plan.is_locked else []
    if seqs or left:
        yield from _write_down(taken, seqs, left, plan.now)
    elif taken:
        yield Many("take_from_gates", taken, (plan.now,))
    return {task for _, task, *_ in slots}


def _write_down(
    taken: list[tuple[str, int, int]],
    seqs: list[int],
    left: list[tuple[str, str, str, int]],
    now: int,
) -> Op[None]:
    """Take tokens from gates, end turns and insert new ones, in one statement on PostgreSQL."""
    names, tats, calls = ([row[column] for row in taken] for column in range(3))
    lines, lanes, gates, times = ([row[column] for row in left] for column in range(4))
    change = {"names": names, "tats": tats, "calls": calls, "seqs": seqs, "now": now}
    is_done = yield Query("settle_gates", {**change, "lines": lines, "lanes": lanes, "gates": gates, "times": times})
    if is_done:
        return
    if taken:
        yield Many("take_from_gates", taken, (now,))
    if left:
        yield Many("insert_turns", left)


class AdmittedSuspects(NamedTuple):
    """The suspects that may pass all their gates, and what `settle` needs for them."""

    tasks: list[int]
    plan: GatePlan
    passages: list[Passage]


def admit_suspects(memory: LineMemory, tasks: Sequence[int], now: int) -> Op[AdmittedSuspects]:
    """Plan for popped suspects, which stand in a line of their own whatever their gates.

    Suspects that may not pass go to the waiting room until they may.
    """
    states: dict[str, GateState] = {}
    facing = {row[0]: row for row in (yield Query("gates_of_tasks", {"ids": list(tasks)}))} if tasks else {}
    gates = {task: read_gates(row[-1]) for task, row in facing.items()}
    if gates:
        states = yield from _lock(sorted({gate.name for some in gates.values() for gate in some}))
    plan = GatePlan(memory, now, [], states)
    yield from _correct_clocks(plan)
    yield from _look_inside(plan)
    passages: list[Passage] = []
    later = []
    for task, some in gates.items():
        lane = GovernedLine("", "", some, again_at=now + LOOK_AGAIN_MS)
        if all(gate.name in states for gate in some):  # else another claim has locked one of them
            plan.allow(lane)
        if lane.count:
            plan.take(lane, 1)
            passages.append(Passage(some, [task]))
        else:
            _, queue, kind, band, company, _ = facing[task]
            due_at = min(max(lane.again_at, now + 1), now + LONGEST_WITHOUT_A_LOOK_MS)
            later.append((due_at, task, lane_of(queue, kind, suspect=True), band, company))
    if later:
        yield Many("wait_until_due", later)
    turned_away = {row[1] for row in later}
    return AdmittedSuspects([task for task in tasks if task not in turned_away], plan, passages)
