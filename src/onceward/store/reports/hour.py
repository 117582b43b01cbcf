"""Reads the last hour from the log as it grows, in four short statements, however busy the log is.

The log has no index by time. Its newest rows are read by their numbers, once; what came before the first look is read
backwards, a stretch with every look, until it reaches back an hour.
"""

from __future__ import annotations

from collections import deque

from onceward.model.hour import HOUR_MS, MINUTE_MS, Ended, Hour, HourGauge
from onceward.model.status import Status
from onceward.model.times import NEVER
from onceward.store.op import Op, Query, Row
from onceward.store.rows import as_uuid

FIRST = 2_000
"""How many of the newest rows of the log the first look reads."""
MOST_NEW = 20_000
"""How many the others read at most; if there are more, the figures begin anew."""
MOST_OLDER = 1_000
"""How many older ones each look reads, until they reach back an hour."""
LATE = 300
"""How many rows are read a second time: their neighbours may have been committed late."""
MOST_BACK = 300_000
"""How many older ones altogether."""
MOST_CLAIMS = 2_000
MOST_LINES = 1_000


class HourReader:
    """The figures of the last hour, for one process; each look goes on where the last one has ended."""

    def __init__(self) -> None:
        self._gauge = HourGauge()
        self._upto: int | None = None
        """Up to which row of the log everything was read."""
        self._counted: set[int] = set()
        """Which of the last rows were counted."""
        self._oldest = self._begun = NEVER
        """From which row on everything was read, and where that began."""
        self._claims: deque[tuple[int, int]] = deque()
        self._last_claim = 0

    def look(self, now: int) -> Op[Hour]:
        """Read what is new, and tell how the last hour was."""
        [(newest, first, newest_at, oldest_at)] = yield Query("edges_of_log", {"most": FIRST, "oldest": self._oldest})
        newest, first = newest or 0, first or 0
        if self._upto is None or newest - self._upto > MOST_NEW:
            self._begin(max(0, newest - FIRST))
            oldest_at = newest_at
        after = max(self._begun - 1, (self._upto or 0) - LATE)
        is_whole = self._oldest <= first or oldest_at is None or oldest_at <= now - HOUR_MS
        goes_back = not is_whole and self._begun - self._oldest < MOST_BACK
        back = max(1, self._oldest - MOST_OLDER) if goes_back else self._oldest
        rows = yield Query("ended_between", {"after": after, "upto": newest, "back": back, "oldest": self._oldest})
        ended = [one for one in map(_ended, rows) if one.id not in self._counted]
        self._gauge.add(one for one in ended if one.at > now - HOUR_MS - MINUTE_MS)
        self._gauge.forget(now)
        late = newest - LATE
        self._counted = {number for number in (*self._counted, *(one.id for one in ended)) if number > late}
        self._upto, self._oldest = newest, back
        claims = yield from self._count_claims(now)
        heads = yield Query("heads_of_lines_since", {"count": MOST_LINES})
        return self._gauge.hour(
            now,
            since=now - HOUR_MS if is_whole else max(now - HOUR_MS, oldest_at or 0),
            is_whole=is_whole,
            claims=claims,
            oldest_ready=min((row[0] for row in heads if row[0] is not None), default=None),
        )

    def _begin(self, after: int) -> None:
        """Begin at a row of the log: nothing before it counts yet."""
        self._gauge = HourGauge()
        self._counted = set()
        self._upto = None
        self._oldest = self._begun = after + 1

    def _count_claims(self, now: int) -> Op[int]:
        rows = yield Query("claims_after", {"after": self._last_claim, "count": MOST_CLAIMS})
        if rows:
            self._last_claim = rows[0][0]
        self._claims.extend((at, tasks) for _, at, tasks in reversed(rows))
        while self._claims and self._claims[0][0] <= now - MINUTE_MS:
            self._claims.popleft()
        return sum(tasks for at, tasks in self._claims if at > now - MINUTE_MS)


def _ended(row: Row) -> Ended:
    number, task, status, at, kind, lineage, cost, created_at, due_at, started_at, fence = row
    waited_ms = None
    if fence == 1 and started_at is not None and due_at < NEVER:
        waited_ms = started_at - max(created_at, due_at)
    ran_ms = None if started_at is None else at - started_at
    return Ended(number, task, Status(status), at, kind, as_uuid(lineage), cost, ran_ms, waited_ms)
