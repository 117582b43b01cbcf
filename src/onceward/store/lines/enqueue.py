"""Enqueueing writes a task, its payload and its place in line in one transaction: the engine's or the caller's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from onceward.model.task import LARGEST_INLINE, Alike, NewTask, lane_of
from onceward.store.lines.lines import Placement, put_in_line
from onceward.store.op import AtomicStatement, Many, Op, PackedBytes, Query, Uuids

MOST_IN_ONE_STATEMENT = 1_000


def store_values(values: Sequence[bytes | None]) -> Op[list[tuple[bytes | None, bytes | None]]]:
    """Store values above 4 KiB as blobs; returns for each the two columns of its row: value and hash."""
    places: list[tuple[bytes | None, bytes | None]] = []
    blobs: dict[bytes, bytes] = {}
    for value in values:
        if value is None or len(value) <= LARGEST_INLINE:
            places.append((value, None))
        else:
            hashed = hashlib.blake2b(value, digest_size=32).digest()
            blobs[hashed] = value
            places.append((None, hashed))
    if blobs:
        yield Many("insert_blobs", sorted(blobs.items()))
    return places


def reserve_ids(count: int) -> Op[list[int]]:
    """Reserve the ids of that many new tasks; returns them in order."""
    rows = yield Query("reserve_ids", {"count": count})
    return sorted([number for first, last in rows for number in range(first, last + 1)])


def enqueue(tasks: Sequence[NewTask], now: int) -> Op[list[int]]:
    """Insert plain tasks and put them in line; returns their ids in order."""
    alike: dict[tuple[str, int, str, int, int, int, bool, bool], list[int]] = {}
    for place, task in enumerate(tasks):
        is_governed = task.gates is not None or task.estimate is not None
        same = (task.kind, task.version, task.queue, task.band, task.due_at, task.created_at)
        alike.setdefault((*same, task.key is None, is_governed), []).append(place)
    ids: dict[int, int] = {}
    for (*_, has_no_key, is_governed), places in alike.items():
        some = [tasks[place] for place in places]
        if is_governed:
            numbers = yield from _enqueue_governed(some, now)
        else:
            first = some[0]
            new = Alike(
                first.kind, first.version, first.queue, first.band, first.due_at, first.created_at,
                None if has_no_key else [task.key or "" for task in some], [task.identity for task in some],
                [task.payload for task in some], [task.lineage.bytes for task in some],
            )  # fmt: skip
            numbers = yield from enqueue_alike(new)
        ids.update(zip(places, numbers, strict=True))
    return [ids[place] for place in range(len(tasks))]


def enqueue_alike(new: Alike) -> Op[list[int]]:
    """Insert tasks of one kind, queue, priority and due time, and put them in line; returns their ids in order."""
    if len(new.payloads) <= MOST_IN_ONE_STATEMENT:
        return (yield from _enqueue_some(new))
    ids: list[int] = []
    for start in range(0, len(new.payloads), MOST_IN_ONE_STATEMENT):
        some = slice(start, start + MOST_IN_ONE_STATEMENT)
        ids += yield from _enqueue_some(
            new._replace(
                keys=None if new.keys is None else new.keys[some],
                identities=new.identities[some],
                payloads=new.payloads[some],
                lineages=new.lineages[some],
            )
        )
    return ids


def _enqueue_some(new: Alike) -> Op[list[int]]:
    kind, version, queue, band, due_at, created_at, keys, identities, values, lineages = new
    payloads, in_blob = yield from store_payloads(values)
    line = {"lane": lane_of(queue, kind), "band": band}
    rows = yield Query(
        "insert_tasks",
        {
            **line, "kind": kind, "version": version, "queue": queue, "due_at": due_at, "created_at": created_at,
            "keys": keys, "identities": identities, "payloads": payloads, "in_blob": in_blob,
            "lineages": Uuids(lineages), "rows": PackedBytes(payloads, in_blob, keys),
        },
    )  # fmt: skip
    if rows:
        return sorted([row[0] for row in rows])
    [(last, rank, seq)] = yield Query("place_of_new", line)
    first = last - len(payloads) + 1
    if due_at <= created_at:
        where = {**line, "rank": rank, "at": created_at, "seq": seq}
        yield Query("put_new_in_line", {**where, "first": first, "last": last})
    else:
        yield Many("wait_until_due", [(due_at, task, line["lane"], band, 0) for task in range(first, last + 1)])
    return list(range(first, last + 1))


def enqueue_at_once(new: Alike) -> AtomicStatement | None:
    """The statement that enqueues one task as its own transaction; None if one statement is not enough."""
    if len(new.payloads) > 1 or new.due_at > new.created_at or len(new.payloads[0]) > LARGEST_INLINE:
        return None
    lane, lineage = lane_of(new.queue, new.kind), new.lineages[0].hex()
    return AtomicStatement(
        Query(
            "enqueue_one",
            {
                "kind": new.kind, "version": new.version, "queue": new.queue, "band": new.band, "lane": lane,
                "notification": f"{new.band} {lane}", "key": None if new.keys is None else new.keys[0],
                "identity": new.identities[0], "payload": new.payloads[0], "lineage": lineage, "now": new.created_at,
            },
        ),
        Query("enqueued_one", {"lineage": lineage}),
    )  # fmt: skip


def store_payloads(payloads: list[bytes]) -> Op[tuple[list[bytes], list[int | None] | None]]:
    """Store large payloads of new tasks as blobs; returns payloads or their hashes, and a 1 for each hash.

    Instead of these marks it returns None if no payload is large.
    """
    if max(map(len, payloads)) <= LARGEST_INLINE:
        return payloads, None
    places = yield from store_values(payloads)
    in_blob = [None if hashed is None else 1 for _, hashed in places]
    return [hashed or data or b"" for data, hashed in places], in_blob


def _enqueue_governed(tasks: Sequence[NewTask], now: int) -> Op[list[int]]:
    """Insert tasks of one kind with different gates, and put each in its governed line."""
    payloads = yield from store_values([task.payload for task in tasks])
    first = tasks[0]
    rows = yield Many(
        "insert_governed",
        [
            (task.key, task.identity, *payload, task.lineage, task.gates, task.estimate)
            for task, payload in zip(tasks, payloads, strict=True)
        ],
        (first.kind, first.version, first.queue, first.band, first.due_at, first.created_at),
    )
    # Numbered in the order of the rows, but not always returned in it.
    numbered = sorted((task, stands) for task, stands in rows)
    yield from put_in_line(
        [
            Placement(number, lane_of(task.queue, task.kind, task.gates), task.band, 0, task.due_at)
            for task, (number, stands) in zip(tasks, numbered, strict=True)
            if not stands
        ],
        now,
    )
    return [number for number, _ in numbered]
