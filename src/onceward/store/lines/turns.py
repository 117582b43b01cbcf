"""Turns: when a claim is to look at a governed line (decision 26)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onceward.model.gates import read_gates
from onceward.model.task import NEVER
from onceward.store.op import Many, Op, Query

LONGEST_WITHOUT_A_LOOK_MS = 60_000
"""After how long a claim looks again at a suspect behind a gate without a known opening time."""


def append_turns(lanes: Iterable[tuple[str, str]], now: int) -> Op[None]:
    """Append a turn for each governed line that tasks have entered; lines are given with their gates."""
    rows = sorted({(lane[: -len(gates) - 1], lane, read_gates(gates)[0].name, now) for lane, gates in lanes})
    if rows:
        yield Many("insert_turns", rows)


def next_turn_at(lines: Sequence[str]) -> Op[int | None]:
    """The next turn of these lines; None if none will come."""
    [(at,)] = yield Query("next_turn", {"lines": list(lines)})
    return at if at is not None and at < NEVER else None
