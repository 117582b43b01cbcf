"""Rules about gates: every governed line has a turn, and every place inside a gate belongs to a task.

Like those of `lineage_rules` they run on the snapshot of `verify`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from onceward.model.pause import Pauses
from onceward.model.task import NEVER
from onceward.store.op import Row
from onceward.store.verify.lineage_rules import TaskBreach


def lines_without_turn(lines: Iterable[Row], disabled: Collection[str], pauses: Pauses) -> Iterator[TaskBreach]:
    """Every governed line with tasks has a turn, which comes unless its gate is disabled or paused."""
    for lane, first, count, next_at, gate in lines:
        if next_at is None:
            yield TaskBreach(f"{count} stand in {lane}, and it has no turn: no claim would ever look at it", first)
        elif next_at >= NEVER and gate not in disabled and pauses.of_gate(gate) is None:
            sentence = f"the turn of {lane} never comes, but its gate {gate} is open: no claim would ever look at it"
            yield TaskBreach(sentence, first)


def places_without_task(slots: Iterable[Row]) -> Iterator[TaskBreach]:
    """Every place inside a gate belongs to a task that is there."""
    for gate, task, is_there in slots:
        if not is_there:
            yield TaskBreach(f"task {task} has a place in {gate}, but there is no such task", task)


def impossible_counters(gates: Iterable[Row]) -> Iterator[str]:
    """The counters of a gate make sense, and one that is disabled says why."""
    for name, enabled, streak, is_half_open, calls, failures, hits, misses, why in gates:
        if min(streak, calls, failures, hits, misses) < 0 or enabled not in (0, 1) or is_half_open not in (0, 1):
            yield f"gate {name} counts what cannot be: streak {streak}, {calls} calls, {failures} failures"
        elif streak > failures:
            yield f"gate {name} says {streak} failures in a row, and {failures} in all"
        if not enabled and not why:
            yield f"gate {name} is disabled and does not say why"
