"""Whether anything is left to do for some lines: ready, due later, or running somewhere."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.model.decide import signal_of
from onceward.store.lines.lines import look
from onceward.store.lines.memory import LineMemory
from onceward.store.lines.pause_scopes import read_pauses
from onceward.store.lines.turns import LONGEST_WITHOUT_A_LOOK_MS, next_turn_at
from onceward.store.op import Op, Query


def ready_now(lanes: Sequence[str], now: int) -> Op[bool]:
    """Whether a claim of these lines may find a task now."""
    open_lanes = (yield from read_pauses()).open_lines(tuple(lanes))
    view = yield from look(LineMemory(tuple(open_lanes)))
    turn_at = yield from next_turn_at(open_lanes)
    return view.has_work(now) or (turn_at is not None and turn_at <= now)


def suspects_soon(lanes: Sequence[str], now: int) -> Op[bool]:
    """Whether a suspect stands in these lines, or will before a closed gate is looked at again."""
    lanes = (yield from read_pauses()).open_lines(tuple(lanes))
    if (yield from look(LineMemory(tuple(lanes)))).heads:
        return True
    return bool((yield Query("due_before", {"lanes": list(lanes), "before": now + LONGEST_WITHOUT_A_LOOK_MS + 1_000})))


def anything_left(lanes: Sequence[str], kinds: Sequence[str]) -> Op[bool]:
    """Whether a task stands in these lines, is due later, or runs in a worker.

    Tasks that wait for a signal or for other code do not count, nor tasks whose source is disabled or which an
    operator has paused.
    """
    lanes = (yield from read_pauses()).open_lines(tuple(lanes))
    if (yield from look(LineMemory(tuple(lanes)))).heads:
        return True
    later = yield Query("lanes_due_later")
    if {row[0].partition("@")[0] for row in later} & set(lanes):
        return True
    if (yield Query("turns_to_come", {"lines": list(lanes)})):
        return True
    running = yield Query("kinds_running")
    return bool({row[0] for row in running} & set(kinds))


def signal_waits() -> Op[list[tuple[int, str, int]]]:
    """Tasks that wait for a signal, its name, and when the wait ends without it."""
    rows = yield Query("signal_waits")
    return [(task, signal_of(waiting_for) or "", due_at) for task, waiting_for, due_at in rows]


def is_due_besides_signals() -> Op[bool]:
    """Whether time alone brings a task back in line, apart from signal waits with a time limit."""
    return bool((yield Query("due_besides_signals")))
