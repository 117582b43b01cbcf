"""Turns: when each governed line is to be looked at by a claim."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onceward.model.gates import read_gates
from onceward.model.task import NEVER
from onceward.store.op import Many, Op, Query

LONGEST_WITHOUT_A_LOOK_MS = 60_000
"""After how long a suspect behind a gate that does not say when it opens is looked at again."""


def append_turns(lanes: Iterable[tuple[str, str]], now: int) -> Op[None]:
    """Somebody stands in governed lines: have them looked at. Each line is given with its gates."""
    rows = sorted({(lane[: -len(gates) - 1], lane, read_gates(gates)[0].name, now) for lane, gates in lanes})
    if rows:
        yield Many("insert_turns", rows)


def next_turn_at(lines: Sequence[str]) -> Op[int | None]:
    """When a governed line is to be looked at next."""
    [(at,)] = yield Query("next_turn", {"lines": list(lines)})
    return at if at is not None and at < NEVER else None
