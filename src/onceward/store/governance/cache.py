"""The response cache: read without a transaction, filled by one attempt at a time, kept within its size.

An attempt that finds no answer first writes its token into the answer's row, under its fence, then asks the source.
Other attempts wait for that answer as long as the task still carries that token (decision 28).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from onceward.model.cache import AnswerTaken, Cached
from onceward.model.gates import source_of
from onceward.model.task import Commit, Fill, Filled, Lease
from onceward.store.drivers.session import Session
from onceward.store.lines.enqueue import store_values
from onceward.store.op import Many, Op, Query, Row, Rows

ROW_BYTES = 200
"""What an answer takes beside its value, roughly."""
EVICTED_AT_ONCE = 500
MOST_PORTIONS = 10
"""How many transactions one call of `evict` takes; the caller has other work, and calls again."""


def look_up(source: str, hashed: bytes) -> Op[Cached | None]:
    """Look up the answer for a key of a source."""
    rows = yield Query("look_up", {"source": source, "hash": hashed})
    for value, stored_at, expires_at, used_at, is_being_filled in rows:
        return Cached(None if value is None else bytes(value), stored_at, expires_at, used_at, bool(is_being_filled))
    return None


def begin_fill(lease: Lease, move: Fill, now: int) -> Op[AnswerTaken | None]:
    """Make this attempt the one that asks the source, unless another does or the answer is there."""
    key = {"source": move.source, "hash": move.hash}
    mine = {**key, "task": lease.task, "token": lease.token, "now": now, "until": now + move.limit_ms}
    if (yield Query("begin_filling", mine)):
        return None
    rows = yield Query("hold_answer", key)
    if not rows or not (yield from _is_useless(rows[0], move.unfit, now)):
        return AnswerTaken()
    yield Query("refill", mine)
    yield from _drop_blobs([rows[0][1]])
    return None


def _is_useless(row: Row, unfit: int | None, now: int) -> Op[bool]:
    """Whether the row is expired, unfit, or of an attempt that no longer holds its task."""
    has_value, _, stored_at, expires_at, filler, token = row
    if expires_at <= now:
        return True
    if has_value:
        return bool(stored_at == unfit)
    return not (yield Query("holds_task", {"task": filler, "token": bytes(token)}))


def end_fill(lease: Lease, move: Filled, now: int) -> Op[None]:
    """Store the answer that this attempt asked for; without one, let other attempts ask."""
    mine = {"source": move.source, "hash": move.hash, "task": lease.task, "token": lease.token}
    if move.value is None:
        yield Query("end_filling", mine)
        return
    [(value, blob)] = yield from store_values([move.value])
    stored = {"value": value, "value_blob": blob, "size": ROW_BYTES + len(move.value)}
    if not (yield Query("store_answer", {**mine, **stored, "now": now, "until": now + move.keep_ms})):
        yield from _drop_blobs([blob])


def count_lookups(ended: Sequence[Commit], now: int) -> Op[None]:
    """Count cache hits and misses per source for stages that have ended, and note the answers used."""
    counted: dict[str, Counter[str]] = {}
    used: set[tuple[str, bytes]] = set()
    for commit in ended:
        for report in commit.reports:
            if report.hits or report.misses:
                counter = counted.setdefault(report.gate, Counter())
                counter.update(hits=report.hits, misses=report.misses)
                if commit.lease.failures or commit.lease.crashes:
                    counter.update(retry_hits=report.hits, retry_misses=report.misses)
            used.update(report.used)
    if used:
        yield Many("use_answers", sorted(used), (now,))
    if counted:
        columns = ("hits", "misses", "retry_hits", "retry_misses")
        yield Many("count_lookups", [(gate, *map(counted[gate].__getitem__, columns)) for gate in sorted(counted)])


def evict(session: Session, most_bytes: int, now: int) -> int:
    """Delete expired answers, then the longest unused until the rest fits; returns how many."""
    gone = 0
    for _ in range(MOST_PORTIONS):
        chosen = _read(session, Query("expired_answers", {"now": now, "count": EVICTED_AT_ONCE}))
        if not chosen:
            chosen = _too_many(session, most_bytes)
        dropped = session.transact(partial(_evict, chosen)) if chosen else 0
        gone += dropped
        if not dropped:  # there is nothing to do, or all of them are in use at this moment
            break
    return gone


def _too_many(session: Session, most_bytes: int) -> Rows:
    """Choose the longest unused answers, as many as must go so that the rest fits."""
    [(there,)] = _read(session, Query("cached_bytes"))
    chosen: list[Row] = []
    if there > most_bytes:
        for source, hashed, used_at, size in _read(session, Query("oldest_answers", {"count": EVICTED_AT_ONCE})):
            if there <= most_bytes:
                break
            chosen.append((source, hashed, used_at))
            there -= size
    return chosen


def _evict(answers: Rows) -> Op[int]:
    rows = yield Many("evict_answers", [tuple(row) for row in answers])
    yield from _drop_blobs(row[0] for row in rows)
    return len(rows)


def clear(transact: Callable[[Callable[[], Op[int]]], int], source: str | None, hashed: bytes | None, now: int) -> int:
    """Delete all answers, those of a source, or one, in small transactions; one being asked for is not stored."""
    gone = 0
    while count := transact(partial(_clear, source, hashed, now)):
        gone += count
    return gone


def _clear(source: str | None, hashed: bytes | None, now: int) -> Op[int]:
    which = {"source": source, "hash": hashed, "now": now, "count": EVICTED_AT_ONCE}
    rows = yield Query("clear_answers", which)
    yield from _drop_blobs(row[0] for row in rows)
    return len(rows)


class CacheRow(NamedTuple):
    """One source's answers in the cache, and its hits and misses."""

    source: str
    entries: int = 0
    bytes: int = 0
    hits: int = 0
    misses: int = 0
    retry_hits: int = 0
    retry_misses: int = 0


def contents(source: str | None) -> Op[list[CacheRow]]:
    """Read the cached answers, hits and misses of each source, or of one."""
    stored = {name: (entries, size) for name, entries, size in (yield Query("cached_sources"))}
    counted: dict[str, list[int]] = {}
    for gate, *counts in (yield Query("lookups")):
        so_far = counted.get(source_of(gate), [0] * len(counts))
        counted[source_of(gate)] = [one + other for one, other in zip(so_far, counts, strict=True)]
    return [
        CacheRow(name, *stored.get(name, (0, 0)), *counted.get(name, ()))
        for name in sorted(stored.keys() | counted.keys())
        if source is None or name == source
    ]


def _drop_blobs(hashes: Iterable[bytes | None]) -> Op[None]:
    """Delete blobs of dropped answers where nothing else refers to them."""
    large = sorted({bytes(hashed) for hashed in hashes if hashed is not None})
    if large:
        locked = yield Many("lock_blobs", [(hashed,) for hashed in large])
        if locked:
            yield Many("prune_blobs", [(bytes(row[0]),) for row in locked])


def _read(session: Session, query: Query) -> Rows:
    """Read without a transaction, so that writers need not wait."""
    return session.read(query)
