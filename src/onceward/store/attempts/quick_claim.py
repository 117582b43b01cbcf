"""Fast claim after a NOTIFY: one statement, which is its transaction, leases fresh tasks of one line (decision 36).

Fresh tasks have no stored parts and no gates to pass. Tasks that it cannot take stay; the full claim follows.
"""

from __future__ import annotations

from typing import NamedTuple

from onceward.store.attempts.claims import NOTHING, ClaimResult, as_lease
from onceward.store.lines.memory import Line, LineMemory, Place, must_follow_clock
from onceward.store.op import AtomicStatement, Query, Row, Rows


class QuickClaim(NamedTuple):
    """A fast claim from one line."""

    line: Line
    token: bytes
    worker: int
    most: int
    now: int


def may_claim_quickly(memory: LineMemory, now: int) -> bool:
    """Whether neither a pause nor a clock that was set back stands against a fast claim."""
    return not memory.pauses.scopes and now >= memory.latest and not must_follow_clock(memory, now)


def quick_claim_statement(memory: LineMemory, claim: QuickClaim) -> AtomicStatement:
    """Build the query of a fast claim."""
    rank, seq = memory.places.start(claim.line)
    whose = {"token": claim.token, "worker": claim.worker}
    place = {"lane": claim.line[0], "band": claim.line[1], "rank": rank, "seq": seq}
    return AtomicStatement(
        Query("quick_claim", {**whose, **place, "count": claim.most, "now": claim.now}),
        Query("read_quick_claim", whose),
    )


def read_quick_claim(memory: LineMemory, claim: QuickClaim, rows: Rows) -> ClaimResult:
    """Read the leases of a fast claim. The memory of the line moves on behind them, unless a task was left in between,
    or the reply was lost and the leases are read later."""
    if not rows:
        return NOTHING
    in_order = sorted(rows, key=_place)
    last = _place(in_order[-1])
    *_, seen = in_order[-1]
    if seen == len(rows):
        memory.latest = claim.now
        memory.places.took(claim.line, last)
        if last[0] > 0:
            memory.places.unmarked[claim.line] = last[0]
    [seq, *_] = in_order[0]
    return ClaimResult(seq, [as_lease(row, claim.token, claim.worker, {}, claim.now) for row in in_order], {}, {})


def _place(row: Row) -> Place:
    *_, rank, seq, _seen = row
    return rank, seq
