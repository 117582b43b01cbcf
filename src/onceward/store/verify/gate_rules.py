"""What is true of gates: who stands in a governed line will be looked at, and a place belongs to a task.

Like those of `lineage_checks` these rules run on the snapshot of `verify`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from onceward.model.pause import Pauses
from onceward.model.task import NEVER
from onceward.store.op import Row
from onceward.store.verify.lineage_rules import Found


def overlooked(lines: Iterable[Row], disabled: Collection[str], pauses: Pauses) -> Iterator[Found]:
    """Every governed line in which somebody stands has a turn, which comes unless its gate is closed by somebody."""
    for lane, first, count, next_at, gate in lines:
        if next_at is None:
            yield Found(f"{count} stand in {lane}, and it has no turn: nobody would ever look at it", first)
        elif next_at >= NEVER and gate not in disabled and pauses.of_gate(gate) is None:
            sentence = f"the turn of {lane} never comes, but its gate {gate} is open: nobody would ever look at it"
            yield Found(sentence, first)


def misplaced(slots: Iterable[Row]) -> Iterator[Found]:
    """Every place inside a gate belongs to a task that is there."""
    for gate, task, is_there in slots:
        if not is_there:
            yield Found(f"task {task} has a place in {gate}, but there is no such task", task)


def insane(gates: Iterable[Row]) -> Iterator[str]:
    """The counters of a gate make sense, and one that is disabled says why."""
    for name, enabled, streak, is_half_open, calls, failures, hits, misses, why in gates:
        if min(streak, calls, failures, hits, misses) < 0 or enabled not in (0, 1) or is_half_open not in (0, 1):
            yield f"gate {name} counts what cannot be: streak {streak}, {calls} calls, {failures} failures"
        elif streak > failures:
            yield f"gate {name} says {streak} failures in a row, and {failures} in all"
        if not enabled and not why:
            yield f"gate {name} is disabled and does not say why"
