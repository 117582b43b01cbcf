"""A claim from a line that somebody has told of: one statement, which is its transaction, for a worker that is idle.

It takes fresh tasks, of which nothing is stored yet and nothing has to be asked. Who is left where it stands is for the
claim that looks at all lines, which follows.
"""

from __future__ import annotations

from typing import NamedTuple

from onceward.store.attempts.claims import NOTHING, Claimed, as_lease
from onceward.store.lines.memory import Line, LineMemory, Place, must_follow_clock
from onceward.store.op import AtomicStatement, Query, Row, Rows


class Told(NamedTuple):
    """A claim from a line in which somebody stands."""

    line: Line
    token: bytes
    worker: int
    most: int
    now: int


def may_claim_at_once(memory: LineMemory, now: int) -> bool:
    """Whether nothing has to be heeded first: a pause, or a clock that was set back, perhaps before the first look."""
    return not memory.pauses and now >= memory.latest and not must_follow_clock(memory, now)


def claim_at_once(memory: LineMemory, told: Told) -> AtomicStatement:
    """The claim, as it is sent."""
    rank, seq = memory.start(told.line)
    whose = {"token": told.token, "worker": told.worker}
    place = {"lane": told.line[0], "band": told.line[1], "rank": rank, "seq": seq}
    return AtomicStatement(
        Query("claim_at_once", {**whose, **place, "count": told.most, "now": told.now}),
        Query("claimed_at_once", whose),
    )


def claimed_at_once(memory: LineMemory, told: Told, rows: Rows) -> Claimed:
    """What it has taken. The reader goes on behind that, unless somebody was left; or nobody knows, because the answer
    was lost and what was taken is read later."""
    if not rows:
        return NOTHING
    in_order = sorted(rows, key=_place)
    last = _place(in_order[-1])
    if in_order[-1][-1] == len(rows):
        memory.latest = told.now
        memory.took(told.line, last)
        if last[0] > 0:
            memory.unmarked[told.line] = last[0]
    leases = {row[0]: as_lease(row, told.token, told.worker, {}, told.now) for row in in_order}
    return Claimed(in_order[0][-4], list(leases.values()), {}, {})


def _place(row: Row) -> Place:
    return row[-3], row[-2]
