"""Enqueueing: a task, its payload and its place in line, in one transaction: ours or the caller's own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from onceward.model.task import LARGEST_INLINE, NewTask, lane_of
from onceward.store.lines import Standing, stand
from onceward.store.op import Many, Op


def kept(values: Sequence[bytes | None]) -> Op[list[tuple[bytes | None, bytes | None]]]:
    """Where each value is stored: in its row, or in a blob by its hash; as the two columns of the row."""
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


def enqueue(tasks: Sequence[NewTask], now: int) -> Op[list[int]]:
    """Insert tasks and put them in line; returns their ids in order."""
    payloads = yield from kept([task.payload for task in tasks])
    alike: dict[tuple[str, int, str, int, int, int], list[int]] = {}
    for place, task in enumerate(tasks):
        same = (task.kind, task.version, task.queue, task.band, task.due_at, task.created_at)
        alike.setdefault(same, []).append(place)
    ids: dict[int, int] = {}
    standings: list[Standing] = []
    for same, places in alike.items():
        kind, _, queue, band, due_at, _ = same
        rows = yield Many(
            "insert_tasks",
            [
                (task.key, task.identity, *payloads[place], task.lineage, task.gates, task.estimate)
                for place in places
                for task in (tasks[place],)
            ],
            same,
        )
        # Numbered in the order of the rows, but not always returned in it.
        numbered = sorted((task, stands) for task, stands in rows)
        ids.update(zip(places, (task for task, _ in numbered), strict=True))
        standings += [
            Standing(task, lane_of(queue, kind, tasks[place].gates), band, 0, due_at)
            for place, (task, stands) in zip(places, numbered, strict=True)
            if not stands
        ]
    yield from stand(standings, now)
    return [ids[place] for place in range(len(tasks))]
