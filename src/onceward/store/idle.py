"""Whether anything is left to do for some lines: ready, due later, or running somewhere."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.store.lines import Reader, look
from onceward.store.op import Op, Query


def anything_left(lanes: Sequence[str], kinds: Sequence[str]) -> Op[bool]:
    """False when nothing stands in these lines, none of these kinds is due later, and nobody runs one.

    Tasks that wait for a signal or for other code do not count.
    """
    if (yield from look(Reader(tuple(lanes)))).heads:
        return True
    later = yield Query("lanes_due_later")
    if {row[0] for row in later} & set(lanes):
        return True
    running = yield Query("kinds_running")
    return bool({row[0] for row in running} & set(kinds))
