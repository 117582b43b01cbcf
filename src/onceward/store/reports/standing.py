"""Reads how tasks stand now: what is held, what waits for what, and which spawns were refused of late.

Reading only, and bounded: by what living workers hold, by so many parked tasks, by so many refusals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from onceward.store.lineage.insert_children import REFUSALS_KEPT
from onceward.store.op import Op, Query
from onceward.store.reports.tasks import Backlog, DueLater, ReadyLine, WorkerRow, backlog, priority_of, workers
from onceward.store.rows import as_uuid

MOST_RUNNING = 5_000
MOST_PLACES = 20_000
"""How many places in line are looked at one by one; of more they are only counted."""
MOST_WAITING = 20_000
MOST_REFUSALS = 2_000
_SORTS = ("signal", "budget", "batch", "code", "children")


class RefusedSpawns(msgspec.Struct, frozen=True):
    """Spawns that one rule has refused of late."""

    rule: str
    count: int
    lineages: int
    newest_lineage: str
    newest_parent: int
    newest_reason: str
    newest_at: int
    is_whole: bool
    """Whether these are all since then; otherwise there are more."""


class Standing(msgspec.Struct, frozen=True):
    """How tasks stand now."""

    backlog: Backlog
    backlog_is_exact: bool
    """Whether each place in line was looked at: of very many some may belong to cancelled or paused tasks."""
    workers: Sequence[WorkerRow]
    running: dict[str, int]
    """By kind."""
    waiting: dict[str, int]
    """By kind."""
    waits: dict[str, int]
    """By what they wait for: `signal:approved`, `signal`, `budget`, `batch`, `code`, `children`."""
    waiting_is_whole: bool
    refused: Sequence[RefusedSpawns]
    """The most frequent first."""


def standing(refused_since: int) -> Op[Standing]:
    """How tasks stand now, and which spawns were refused since a time."""
    [(places,)] = yield Query("count_places", {"rows": MOST_PLACES})
    is_exact = places < MOST_PLACES
    lines = yield from (backlog() if is_exact else _long_lines())
    alive = yield from workers()
    held = [row[0] for row in (yield Query("search_running", {"count": MOST_RUNNING}))]
    kinds = (yield Query("kinds_of", {"ids": held})) if held else []
    running = {str(kind): count for kind, count in kinds}
    waiting: dict[str, int] = {}
    waits: dict[str, int] = {}
    for waiting_for, kind, count in (yield Query("kinds_waiting", {"rows": MOST_WAITING})):
        sort = waiting_for if waiting_for == "signal:approved" else waiting_for.partition(":")[0]
        sort = sort if sort in _SORTS or ":" in sort else "other"
        waiting[kind] = waiting.get(kind, 0) + count
        waits[sort] = waits.get(sort, 0) + count
    refused = yield from _refused(refused_since)
    is_whole = sum(waits.values()) < MOST_WAITING
    return Standing(lines, is_exact, alive, running, waiting, waits, is_whole, refused)


def _long_lines() -> Op[Backlog]:
    ready = yield Query("places_in_line")
    later = yield Query("places_later")
    [(parked,)] = yield Query("count_parked")
    return Backlog(
        [ReadyLine(lane, priority_of(band), count, since) for lane, band, count, since in ready],
        [DueLater(*row) for row in later],
        parked,
    )


def _refused(since: int) -> Op[list[RefusedSpawns]]:
    rows = yield Query("newest_refusals", {"limit": MOST_REFUSALS})
    is_whole = len(rows) < MOST_REFUSALS or rows[-1][5] < since
    found: dict[str, list[tuple[str, int, str, int]]] = {}
    kept = Counter(row[1] for row in rows)
    full = {parent for parent, count in kept.items() if count >= REFUSALS_KEPT}
    for lineage, parent, _, rule, reason, at in rows:
        if at >= since:
            found.setdefault(rule, []).append((str(as_uuid(lineage)), parent, reason, at))
    whole = {rule: is_whole and full.isdisjoint(one[1] for one in some) for rule, some in found.items()}
    told = [
        RefusedSpawns(rule, len(some), len({one[0] for one in some}), *some[0], is_whole=whole[rule])
        for rule, some in found.items()
    ]
    return sorted(told, key=lambda one: -one.count)
