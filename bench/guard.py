"""What the spawn guard itself costs: the same hundred children in a small and in a large lineage of one database.

Below the public API, because nothing else should be in the figure: the guard runs in a transaction that is undone, so
that no lineage grows, no disk is waited for, and both are measured again and again in turns.
"""

import statistics
import time
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

from bench.jobs import Noop, app
from bench.plan import BULK_SIZE, CHILDREN, PAD, SMALL_LINEAGE
from onceward import Limits
from onceward.authoring.child_builder import key_hash
from onceward.model.task import Lease
from onceward.store.drivers.session import Session
from onceward.store.lineage.spawn_guard import spawn
from onceward.store.lineage.spawn_requests import SpawnRequest
from onceward.store.op import Op

numbers = count(1)


class _Undo(Exception):
    """Nothing of this is to be kept."""


def guard(large: int, rounds: int) -> dict[str, Any]:
    """Milliseconds for a hundred children, in a lineage of 10 tasks and in a large one, each measured so often."""
    app.prepare()
    session = app._store.session()
    lineages = {"small": _lineage(session, SMALL_LINEAGE), "large": _lineage(session, large)}
    took: dict[str, list[float]] = {name: [] for name in lineages}
    for number in range(rounds):
        order = list(lineages.items())
        for name, lease in order if number % 2 else reversed(order):
            took[name].append(_undone(session, lease))
    session.close()
    return {name: statistics.median(values) for name, values in took.items()}


def _lineage(session: Session, size: int) -> Lease:
    """A lineage of so many tasks; its root, which has spawned them all."""
    limits = Limits(max_tasks=1_000_000, max_children=1_000_000)
    task = app.tasks.get(app.enqueue(Noop(next(numbers), PAD), limits=limits).id)
    created_at = int(task.created_at.timestamp() * 1_000)
    lease = Lease(
        task=task.id, fence=0, token=b"", worker=0, run=1, kind=task.kind, version=1, queue=task.queue, band=0, rank=0,
        stage=None, payload=b"", failures=0, crashes=0, company=0, deferrals=0, signals=0, touched=0,
        lineage_bytes=task.lineage.bytes, parent=None, depth=0, created_at=created_at, started_at=created_at,
    )  # fmt: skip
    for done in range(1, size, BULK_SIZE):
        session.transact(partial(spawn, _children(lease, min(BULK_SIZE, size - done)), created_at))
    return lease


def _children(lease: Lease, many: int) -> list[SpawnRequest]:
    spawner = app._spawner
    return [
        SpawnRequest(lease, "run", key_hash(""), spawner.defaults, spawner.child(lease, Noop(next(numbers), PAD)))
        for _ in range(many)
    ]


def _undone(session: Session, lease: Lease) -> float:
    """How long the guard takes for a hundred children, of which none is kept."""
    asked = _children(lease, CHILDREN)
    took = 0.0

    def measured() -> Op[None]:
        nonlocal took
        began = time.perf_counter()
        yield from spawn(asked, app._store.clock.now())
        took = (time.perf_counter() - began) * 1_000
        raise _Undo

    with suppress(_Undo):
        session.transact(measured)
    return took
